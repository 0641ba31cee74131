// Package setup makes a home ready: it asks who the model, the platforms and the
// owner are, and writes config.yaml and .env.
//
// What is asked is data (Page, Field), so that a terminal, a test or flags can
// answer it; nothing here knows of a terminal. Answers become a Plan, which says
// what would be written; only Plan.Write touches the disk.
//
// What was there stays: a key that is not asked for, a comment, a line. A plan
// whose outcome is no valid configuration is not written. The two files change
// both or neither: what a crash cuts off is finished by the next Look.
package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup/yamledit"
	"hermesd/gateway/chat"
)

// Options say which home is meant. They are as those of config.Load.
type Options struct {
	Home string
	File string
	Env  func(string) (string, bool)
}

// A State is a home as it is.
type State struct {
	Home      string           // absolute
	Found     bool             // the directory is there
	Config    *config.Config   // nil if it is not valid
	Report    config.Report    // of Config
	Problems  []config.Problem // why it is not valid
	Recovered string           // what an interrupted setup had left and is finished now; "": nothing

	o    Options
	conf file
	dot  file
	doc  *yamledit.Doc     // conf
	vars map[string]string // dot
}

// A file is one of the two that are written.
type file struct {
	path string // where it really is, behind links
	old  []byte
	is   bool // it is there
}

// Load reads a home, and first finishes what an interrupted Write has left. An
// error is a *config.Error if config.yaml cannot be read as YAML at all.
func Load(o Options) (*State, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	home, err := config.ResolveHome(o.Home, o.Env)
	if err != nil {
		return nil, err
	}
	s := &State{Home: home, o: o}
	if s.Recovered, err = mend(home); err != nil {
		return nil, err
	}
	if info, err := os.Stat(home); err == nil {
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory; name another with --home", home)
		}
		s.Found = true
	}
	name := o.File
	if name == "" {
		name = filepath.Join(home, "config.yaml")
	}
	if s.conf, err = read(name); err == nil {
		s.dot, err = read(filepath.Join(home, ".env"))
	}
	if err != nil {
		return nil, err
	}
	s.Config, s.Report, err = config.Load(config.Options{Home: home, File: o.File, Env: o.Env})
	var bad *config.Error
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	if s.doc, err = yamledit.Parse(s.conf.old); err != nil {
		if bad == nil {
			bad = &config.Error{Problems: []config.Problem{{File: s.conf.path, Text: err.Error()}}}
		}
		return nil, bad
	}
	if bad != nil && o.File != "" && !s.conf.is {
		return nil, bad // nobody said that it is to be made
	}
	if bad != nil {
		s.Problems = bad.Problems
	}
	s.vars = config.ReadDotenv(s.dot.old)
	return s, nil
}

// read reads a file, which need not be there.
func read(name string) (f file, err error) {
	if f.path, err = filepath.Abs(name); err != nil {
		return f, fmt.Errorf("find %s: %w", name, err)
	}
	if real, err := filepath.EvalSymlinks(f.path); err == nil {
		f.path = real
	}
	f.old, err = os.ReadFile(f.path)
	switch {
	case err == nil:
		f.is = true
	case !errors.Is(err, fs.ErrNotExist):
		return f, err //nolint:wrapcheck // it says which file
	case isLink(name):
		return f, fmt.Errorf("%s is a link to nowhere; remove it first", name)
	}
	return f, nil
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// Fresh reports whether nothing has been set up: there is neither a file nor a
// platform or model from the environment.
func (s *State) Fresh() bool {
	return !s.conf.is && !s.dot.is && s.Report.Model.Provider == "demo" && s.Config != nil && len(s.Config.Accounts()) == 0
}

// Summary says in a few lines what is there.
func (s *State) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model      %s\n", s.Report.Model)
	for _, p := range platforms() {
		text := "not connected"
		if where := s.tokenAt(p.name); where != "" {
			text = "token in " + where
			if owners := s.owners(p.name); len(owners) > 0 {
				text += ", owner " + strings.Join(owners, ", ")
			}
		}
		fmt.Fprintf(&b, "%-10s %s\n", p.name, text)
	}
	if s.Config != nil {
		fmt.Fprintf(&b, "workspace  %s\n", s.Config.Workspace(s.Home))
	}
	return b.String()
}

// environment is the place that this process has, and a service has not.
const environment = "the environment"

// where says in which place a secret stands, by its variable and the paths of
// its key: the environment, .env or config.yaml; "" if there is none.
func (s *State) where(variable string, paths ...[]string) string {
	if v, _ := s.o.Env(variable); v != "" {
		return environment
	}
	if s.vars[variable] != "" {
		return ".env"
	}
	for _, p := range paths {
		if s.doc.Text(p...) != "" || s.doc.Text(append(p[:len(p)-1:len(p)-1], p[len(p)-1]+"_file")...) != "" {
			return filepath.Base(s.conf.path)
		}
	}
	return ""
}

// tokenAt says where the token of a platform stands.
func (s *State) tokenAt(p chat.Platform) string {
	return s.where(variable(p, "BOT_TOKEN"), []string{"platforms", string(p), "token"}, []string{string(p), "token"})
}

// appTokenAt says where Slack's other token stands.
func (s *State) appTokenAt() string {
	return s.where("SLACK_APP_TOKEN", []string{"platforms", "slack", "app_token"}, []string{"slack", "app_token"})
}

// keyAt says where the key of a provider stands.
func (s *State) keyAt(v config.Service) string {
	if place := s.where(v.Variable); v.Variable != "" && place != "" {
		return place
	}
	if s.Report.Model.Provider == v.Name && s.Report.Model.APIKey != "" {
		return s.where("", []string{"model", "api_key"})
	}
	return ""
}

// owners are those that are named as owners of a platform.
func (s *State) owners(p chat.Platform) []string {
	if s.Config == nil {
		return nil
	}
	return s.account(p).AllowAdminFrom
}

// account are the settings of a platform; without a valid configuration the
// zero ones.
func (s *State) account(p chat.Platform) config.Account {
	if s.Config == nil {
		return config.Account{}
	}
	switch p {
	case chat.Telegram:
		return s.Config.Platforms.Telegram.Account
	case chat.Discord:
		return s.Config.Platforms.Discord.Account
	}
	return s.Config.Platforms.Slack.Account
}

func variable(p chat.Platform, suffix string) string {
	return strings.ToUpper(string(p)) + "_" + suffix
}
