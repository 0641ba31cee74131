package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermesd/agent/cmdpolicy"
	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
)

// Options select the sources of a configuration.
type Options struct {
	Home string // "": $HERMES_HOME, else ~/.hermes
	// File is the config file; "" is config.yaml in the home, which need not
	// exist. A file that is named here must.
	File string
	// Content is what File is to contain, which is not read then; nil: File is read.
	Content []byte
	// Env looks up the environment; nil is the process's own.
	Env func(string) (string, bool)
	// Flags are values from the command line by the path of their key, such as
	// logging.level. They go before everything else.
	Flags map[string]string
}

// These types of package yamlconf are used in a Report.
type (
	Problem = yamlconf.Problem
	Error   = yamlconf.Error
	Origin  = yamlconf.Origin
)

// A loader loads one configuration, from the defaults to the flags.
type loader struct {
	*yamlconf.Loader
	home    string
	file    string // path of the config file, which may not exist
	dotFile string
	env     func(string) (string, bool)
	dot     map[string]dotVar
	secrets *secret.Masker
	custom  []CustomProvider
	root    *yaml.Node // of the config file; nil before it is decoded
}

// look returns the value of a variable in the environment or, if it is not set
// there, in .env.
func (l *loader) look(name string) (string, bool) {
	if v, ok := l.env(name); ok {
		return v, true
	}
	v, ok := l.dot[name]
	return v.value, ok
}

// getenv is look without ok.
func (l *loader) getenv(name string) string {
	v, _ := l.look(name)
	return v
}

// A Report describes a loaded configuration: files, origins, warnings and the
// models it resolves to.
type Report struct {
	Home    string // absolute
	File    string // the config file; "" if there is none
	Missing string // expected path of the config file if it does not exist, else ""
	Blank   bool   // the config file is empty, maybe because it is being written
	// SecretFiles are the files that keys such as api_key_file name.
	SecretFiles []string

	Warnings []Problem
	// Origins has the source of each value by path. Missing keys have their
	// default.
	Origins map[string]Origin
	// Secrets masks every secret of the configuration, the provider keys of the
	// environment, and those variables of .env and of terminal.env_passthrough that
	// may be secrets.
	Secrets *secret.Masker
	// Getenv returns a variable of the environment or, if it is not set there, of .env.
	Getenv func(string) string

	Model     Endpoint
	Fallbacks []Endpoint
	// Summary is the model that writes summaries; the zero Endpoint means the main
	// model.
	Summary Endpoint
	// Vision describes images, Titles generates titles, Approval reviews commands;
	// the zero Endpoint means that the task is off.
	Vision, Titles, Approval Endpoint
	// Prices is the built-in price table with the entries of prices_file on top.
	Prices *pricing.Table
	// Commands is the built-in table of commands with the rows of approvals.commands; nil
	// if there are none.
	Commands *cmdpolicy.Table
}

// Load loads the configuration. The error is an *Error unless the home directory
// cannot be found. The Report has the warnings even if there is an error.
func Load(o Options) (*Config, Report, error) {
	env := o.Env
	if env == nil {
		env = os.LookupEnv
	}
	home, err := ResolveHome(o.Home, env)
	if err != nil {
		return nil, Report{Secrets: &secret.Masker{}, Prices: pricing.Builtin()}, err
	}
	c := new(Config)
	l := &loader{home: home, file: cmp.Or(o.File, filepath.Join(home, "config.yaml")), dotFile: filepath.Join(home, ".env"), env: env, secrets: &secret.Masker{}}
	l.Loader = yamlconf.New(c, yamlconf.Options{
		File: l.file, LookupEnv: l.look, Path: func(s string) string { return InHome(home, s) }, Moved: movedKeys(),
		Nested: "extra", Foreign: l.foreign, Strict: strictKey, Rewrite: l.rewrite,
	})
	r := Report{Home: home, Origins: l.Origins, Secrets: l.secrets, Getenv: l.getenv}
	l.dot = l.dotenv()
	l.yaml(o, c, &r)
	l.variables(c)
	for _, path := range slices.Sorted(maps.Keys(o.Flags)) {
		l.Set(path, o.Flags[path], Origin{Kind: yamlconf.FromFlag, Name: path}, Problem{File: "flag", Key: path})
	}
	l.finish(c)
	l.check(c)
	r.Model, r.Fallbacks = l.endpoints(c)
	r.Summary = l.summary(c)
	r.Vision = l.aside("auxiliary.vision", c, c.Auxiliary.Vision)
	r.Titles = l.aside("auxiliary.title_generation", c, c.Auxiliary.TitleGeneration)
	r.Approval = l.aside("auxiliary.approval", c, c.Auxiliary.Approval)
	r.Prices = l.prices(c)
	r.Commands = l.commands(c.Approvals.Commands)
	l.searchKey(c)
	l.learnSecrets(c)
	r.SecretFiles = l.SecretFiles
	r.Warnings = yamlconf.Tidy(l.Warnings, l.secrets)
	if len(l.Problems) > 0 {
		return nil, r, &Error{Problems: yamlconf.Tidy(l.Problems, l.secrets)}
	}
	return c, r, nil
}

// dotenv reads the .env file, if there is one.
func (l *loader) dotenv() map[string]dotVar {
	name := l.dotFile
	data, err := yamlconf.ReadFile(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		l.Problems = append(l.Problems, Problem{File: name, Text: fmt.Sprintf("the file cannot be read: %v", err)})
		return nil
	}
	if info, err := os.Stat(name); err == nil && yamlconf.Readable(info) {
		l.Warnings = append(l.Warnings, Problem{File: name, Text: "others can read this file, and the keys in it; run chmod 600 " + name})
	}
	vars, problems := parseDotenv(name, data)
	l.Warnings = append(l.Warnings, problems...)
	m := make(map[string]dotVar)
	for _, v := range vars {
		if first, ok := m[v.name]; ok {
			l.Warnings = append(l.Warnings, Problem{File: name, Line: v.line, Column: v.column, Key: v.name, Text: fmt.Sprintf("set twice; line %d is not used", first.line)})
		}
		m[v.name] = v
	}
	return m
}

func (l *loader) yaml(o Options, c *Config, r *Report) {
	data, err := o.Content, error(nil)
	if data == nil {
		data, err = yamlconf.ReadFile(l.file, maxFile)
	}
	if errors.Is(err, fs.ErrNotExist) && o.File == "" {
		r.Missing = l.file
		return
	}
	r.File = l.file
	if err != nil {
		l.Problems = append(l.Problems, Problem{File: l.file, Text: fmt.Sprintf("the file cannot be read: %v", err)})
		return
	}
	r.Blank = len(bytes.TrimSpace(data)) == 0
	l.Decode(data)
	info, err := os.Stat(l.file)
	if err != nil || !yamlconf.Readable(info) || o.Content != nil {
		return
	}
	found := false
	yamlconf.Walk(c, func(path string, v any) {
		s, ok := v.(secret.Value)
		found = found || ok && s != "" && l.Origins[path].Kind == yamlconf.FromFile
	})
	for name, v := range l.dot {
		found = found || v.inConfig && secretName.MatchString(name)
	}
	if found {
		l.Warnings = append(l.Warnings, Problem{File: l.file, Text: "others can read this file, and the secrets in it; run chmod 600 " + l.file})
	}
}

// finish applies the rules between keys: a written threshold has no minimum, a token
// enables its platform or account, a disabled platform disables its accounts, and
// accounts and the routing of models inherit missing settings from the section around
// them.
func (l *loader) finish(c *Config) {
	_, threshold := l.Origins["compression.threshold"]
	if _, floor := l.Origins["compression.min_threshold_tokens"]; threshold && !floor {
		c.Compression.MinThresholdTokens = 0 // what is written holds
	}
	for name, r := range c.ProviderRouting.Models {
		l.TakeOver("provider_routing.models", name, &r, c.ProviderRouting.Routing)
		c.ProviderRouting.Models[name] = r
	}
	for p, s := range c.Platforms.all() {
		s.finish(l, "platforms."+string(p))
	}
}

func (s *Section[C]) finish(l *loader, path string) {
	_, said := l.Origins[path+".enabled"]
	off := said && !s.Enabled
	s.enable(l, path)
	if s.account().Secrets["token"] == "" && len(s.Accounts) > 0 {
		s.Enabled = false // the section only has the shared settings of its accounts
	}
	for name, g := range s.Accounts {
		if !off {
			g.enable(l, path+".accounts."+name)
		}
		l.TakeOver(path+".accounts", name, &g, s.Login)
		s.Accounts[name] = g
	}
}

func (g *Login[C]) enable(l *loader, path string) {
	if _, said := l.Origins[path+".enabled"]; !said && g.account().Secrets["token"] != "" {
		g.Enabled = true
		l.Origins[path+".enabled"] = Origin{Kind: yamlconf.FromToken}
	}
}

// maxFile is the size limit of config.yaml and .env in bytes.
const maxFile = 1 << 20

// ResolveHome returns the home directory as an absolute path: home if that is
// not empty, else $HERMES_HOME, else ~/.hermes. It need not exist.
func ResolveHome(home string, env func(string) (string, bool)) (string, error) {
	if env == nil {
		env = os.LookupEnv
	}
	if home == "" {
		home, _ = env("HERMES_HOME")
	}
	user := func() (string, error) {
		if h, ok := env("HOME"); ok && h != "" {
			return h, nil
		}
		return os.UserHomeDir()
	}
	rest, tilde := strings.CutPrefix(home, "~/")
	if home == "" || home == "~" || tilde {
		dir, err := user()
		if err != nil {
			return "", fmt.Errorf("find home directory (set HERMES_HOME): %w", err)
		}
		switch home {
		case "":
			home = filepath.Join(dir, ".hermes")
		case "~":
			home = dir
		default:
			home = filepath.Join(dir, rest)
		}
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("find home directory: %w", err)
	}
	return abs, nil
}

// InHome returns path as an absolute path: ~ is the user's home directory, other
// relative paths are relative to home.
func InHome(home, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(home, path)
}
