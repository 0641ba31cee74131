package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"hermesd/internal/secret"
)

// Options say where a configuration is read from.
type Options struct {
	Home string // "": $HERMES_HOME, else ~/.hermes
	// File is the config file; "" is config.yaml in the home, which need not
	// exist. A file that is named here must.
	File string
	// Env looks up the environment; nil is the process's own.
	Env func(string) (string, bool)
	// Flags are values from the command line by the path of their key, such as
	// logging.level. They go before everything else.
	Flags map[string]string
}

// A Source is a kind of place that a value comes from.
type Source string

// The sources, each going before those ahead of it.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromDotenv  Source = ".env"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
	FromToken   Source = "token"    // a token that is set switches its platform on
	FromParent  Source = "platform" // an account takes it over from its platform
)

// An Origin is where a value comes from.
type Origin struct {
	Kind   Source `json:"kind"`
	Name   string `json:"name,omitempty"` // of the file, variable or flag
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (o Origin) String() string {
	switch o.Kind {
	case "":
		return string(FromDefault)
	case FromFile:
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
	case FromDefault, FromToken, FromParent:
		return string(o.Kind)
	}
	return string(o.Kind) + " " + o.Name
}

// A Report is what there is to know about a configuration beside its values.
type Report struct {
	Home    string // absolute
	File    string // the config file; "" if there is none
	Dotenv  string // the .env file; "" if there is none
	Missing string // where a config file would have been read; "" if there is one

	Warnings []Problem
	// Origins say where values come from, by path. Keys that are not here have
	// their default.
	Origins map[string]Origin
	// Secrets masks every secret of the configuration, and the provider keys of
	// the environment.
	Secrets *secret.Masker

	Model     Endpoint
	Fallbacks []Endpoint
}

// Load reads the configuration. On an error, which is an *Error unless the home
// cannot be found, the Report still tells the warnings.
func Load(o Options) (*Config, Report, error) {
	env := o.Env
	if env == nil {
		env = os.LookupEnv
	}
	home, err := ResolveHome(o.Home, env)
	if err != nil {
		return nil, Report{Secrets: &secret.Masker{}}, err
	}
	c := new(Config)
	l := &loader{
		fields: describe(reflect.TypeFor[Config](), "", nil), root: reflect.ValueOf(c).Elem(), home: home,
		origins: make(map[string]Origin), bad: make(map[string]bool), secrets: &secret.Masker{},
	}
	r := Report{Home: home, Origins: l.origins, Secrets: l.secrets}
	l.defaults(l.fields, l.root)

	l.dotFile = filepath.Join(home, ".env")
	dot := l.dotenv(l.dotFile, &r)
	l.look = func(name string) (string, bool) {
		if v, ok := env(name); ok {
			return v, true
		}
		v, ok := dot[name]
		return v.value, ok
	}
	l.yaml(o, &r)
	l.variables(env, dot)
	l.flags(o.Flags)
	l.finish(c)
	l.check(c)
	r.Model, r.Fallbacks = l.endpoints(c)
	l.learnSecrets()
	r.Warnings = tidy(l.warnings, l.secrets)
	if len(l.problems) > 0 {
		return nil, r, &Error{Problems: tidy(l.problems, l.secrets)}
	}
	return c, r, nil
}

// dotenv reads the .env file, if there is one.
func (l *loader) dotenv(name string, r *Report) map[string]dotVar {
	data, err := readFile(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.Dotenv = name
	if err != nil {
		l.problems = append(l.problems, Problem{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("the file cannot be read: %v", err)})
		return nil
	}
	if info, err := os.Stat(name); err == nil && readable(info) {
		l.warnings = append(l.warnings, Problem{File: name, Text: "others can read this file, and the keys in it; run chmod 600 " + name})
	}
	vars, problems := parseDotenv(name, data)
	l.warnings = append(l.warnings, problems...)
	m := make(map[string]dotVar)
	for _, v := range vars {
		if first, ok := m[v.name]; ok {
			l.warnings = append(l.warnings, Problem{File: name, Line: v.line, Column: v.column, Key: v.name, Text: fmt.Sprintf("set twice; line %d is not used", first.line)})
		}
		m[v.name] = v
	}
	return m
}

// yaml reads the config file, if there is one.
func (l *loader) yaml(o Options, r *Report) {
	name := o.File
	if name == "" {
		name = filepath.Join(l.home, "config.yaml")
	}
	l.file = name
	data, err := readFile(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) && o.File == "" {
		r.Missing = name
		return
	}
	r.File = name
	if err != nil {
		l.problems = append(l.problems, Problem{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("the file cannot be read: %v", err)})
		return
	}
	doc, problems := parseYAML(name, data)
	l.problems = append(l.problems, problems...)
	l.decodeFile(doc)
	l.warnReadable(name)
}

// warnReadable warns of a config file that holds secrets and that others can
// read.
func (l *loader) warnReadable(name string) {
	info, err := os.Stat(name)
	if err != nil || !readable(info) {
		return
	}
	found := false
	walk(l.fields, l.root, "", func(f *field, v reflect.Value, path string) {
		found = found || f.kind == hidden && v.String() != "" && l.origins[path].Kind == FromFile
	})
	if found {
		l.warnings = append(l.warnings, Problem{File: name, Text: "others can read this file, and the secrets in it; run chmod 600 " + name})
	}
}

// flags takes over what the command line says.
func (l *loader) flags(flags map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		l.set(path, flags[path], Origin{Kind: FromFlag, Name: path}, Problem{File: "flag", Key: path})
	}
}

// set sets the key at path, which lies in no list or table, to what s says.
// where is the place of a problem with it.
func (l *loader) set(path, s string, from Origin, where Problem) {
	fs, v := l.fields, l.root
	var f *field
	for _, name := range split(path, ".") {
		if f = find(fs, name); f == nil {
			where.Text = "unknown key; " + hint(name, names(fs), leaves(l.fields))
			l.problems = append(l.problems, where)
			return
		}
		v, fs = v.FieldByIndex(f.index), f.sub
	}
	if f == nil {
		return
	}
	delete(l.bad, f.path)
	if err := setText(f, v, s); err != nil {
		where.Text = err.Error()
		l.problems = append(l.problems, where)
		l.bad[f.path] = true
	}
	l.origins[f.path] = from
}

// finish makes of what was said what is meant: a token switches its platform or
// account on, a platform that is switched off switches off its accounts, and
// accounts take over from their platform what they leave out.
func (l *loader) finish(c *Config) {
	for _, p := range c.Platforms.all() {
		path := "platforms." + string(p.platform)
		_, said := l.origins[join(path, "enabled")]
		off := said && !p.Enabled
		l.enable(&p.Account, path)
		if p.Token == "" && len(p.Accounts) > 0 {
			p.Enabled = false // it is only what its accounts share
		}
		f := find(find(l.fields, "platforms").sub, string(p.platform))
		accounts := find(f.sub, "accounts")
		for name, a := range p.Accounts {
			at := join(accounts.path, name)
			if !off {
				l.enable(&a, at)
			}
			l.takeOver(accounts.sub, reflect.ValueOf(&a).Elem(), reflect.ValueOf(p.Account), at)
			p.Accounts[name] = a
		}
	}
}

func (l *loader) enable(a *Account, path string) {
	if _, said := l.origins[join(path, "enabled")]; !said && a.Token != "" {
		a.Enabled = true
		l.origins[join(path, "enabled")] = Origin{Kind: FromToken}
	}
}

// takeOver copies from the platform what its account does not say and may take
// over.
func (l *loader) takeOver(fs []*field, account, platform reflect.Value, path string) {
	for _, f := range fs {
		if f.kind == section {
			l.takeOver(f.sub, account.FieldByIndex(f.index), platform.FieldByIndex(f.index), join(path, f.name))
			continue
		}
		p := join(path, f.name)
		if _, said := l.origins[p]; said || f.own {
			continue
		}
		account.FieldByIndex(f.index).Set(platform.FieldByIndex(f.index))
		l.origins[p] = Origin{Kind: FromParent}
	}
}

// learnSecrets tells the masker every secret that was read.
func (l *loader) learnSecrets() {
	walk(l.fields, l.root, "", func(f *field, v reflect.Value, _ string) {
		if f.kind == hidden {
			l.secrets.Add(secret.Value(v.String()))
		}
	})
	for _, name := range secretVariables() {
		if v, ok := l.look(name); ok {
			l.secrets.Add(secret.Value(v))
		}
	}
}
