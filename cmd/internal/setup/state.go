// Package setup configures a home directory: it asks for the model, the platforms and
// their owners, and writes config.yaml and .env.
//
// [Load] reads the current [State]. Questions are data ([Page], [Field]) that an [Asker]
// presents; the one for terminals is in package termform. [Answers], from an interview or
// from [Flags], become a [Plan] of changes, and only [Plan.Write] writes files.
//
// Keys that are not asked for, comments and line breaks remain unchanged. A plan that
// would result in an invalid configuration is rejected. Both files are written or
// neither: Load completes a write that was interrupted by a crash.
package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/cmd/internal/setup/yamledit"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// Options identify the home directory, like those of config.Load.
type Options struct {
	Home string
	File string
	Env  func(string) (string, bool)
	// OpenMemory returns the client of a memory provider in a home, and what is wrong with
	// its configuration. planned has the contents of files that are not written yet. Nil:
	// none can be tried.
	OpenMemory func(name string, c *config.Config, r config.Report, home string, planned map[string][]byte) (provider.Provider, []string, error)
}

// A State is the current state of a home directory.
type State struct {
	Home      string           // absolute
	Found     bool             // the directory exists
	Config    *config.Config   // nil if it is not valid
	Report    config.Report    // of Config
	Problems  []config.Problem // why Config is nil
	Recovered string           // what was recovered after an interrupted setup, as text; "" for nothing

	o    Options
	conf file
	dot  file
	doc  *yamledit.Doc     // parsed conf
	vars map[string]string // variables in dot
}

// A file is one of the two files that are written.
type file struct {
	path    string // with links resolved
	content []byte
	exists  bool // the file exists
}

// Load reads a home directory, after completing an interrupted Write. An error is a
// *config.Error if config.yaml is not valid YAML.
func Load(o Options) (*State, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	home, err := config.ResolveHome(o.Home, o.Env)
	if err != nil {
		return nil, err
	}
	s := &State{Home: home, o: o}
	if s.Recovered, err = recoverWrite(home); err != nil {
		return nil, err
	}
	if info, err := os.Stat(home); err == nil {
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory; name another with --home", home)
		}
		s.Found = true
	}
	if s.conf, err = read(cmp.Or(o.File, filepath.Join(home, "config.yaml"))); err == nil {
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
	if s.doc, err = yamledit.Parse(s.conf.content); err != nil {
		if bad == nil {
			bad = &config.Error{Problems: []config.Problem{{File: s.conf.path, Text: err.Error()}}}
		}
		return nil, bad
	}
	if bad != nil && o.File != "" && !s.conf.exists {
		return nil, bad // a file that is named explicitly is not created
	}
	if bad != nil {
		s.Problems = bad.Problems
	}
	s.vars = config.ReadDotenv(s.dot.content)
	return s, nil
}

// read reads a file, which may be missing.
func read(name string) (f file, err error) {
	if f.path, err = filepath.Abs(name); err != nil {
		return f, fmt.Errorf("find %s: %w", name, err)
	}
	if real, err := filepath.EvalSymlinks(f.path); err == nil {
		f.path = real
	}
	f.content, err = os.ReadFile(f.path)
	switch {
	case err == nil:
		f.exists = true
	case !errors.Is(err, fs.ErrNotExist):
		return f, err //nolint:wrapcheck // names the file
	case isLink(name):
		return f, fmt.Errorf("%s is a link to nowhere; remove it first", name)
	}
	return f, nil
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// Fresh reports whether nothing is set up: there is neither a file nor a platform or
// model from the environment.
func (s *State) Fresh() bool {
	return !s.conf.exists && !s.dot.exists && s.Report.Model.Provider == "demo" && s.Config != nil && len(s.Config.Accounts()) == 0
}

// Summary returns a few lines about the current settings.
func (s *State) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model      %s\n", s.Report.Model)
	for _, p := range platforms.All() {
		text := "not connected"
		if where := s.secretAt(p.Platform, p.Secrets[0]); where != "" {
			text = "token in " + where
			if owners := s.owners(p.Platform); len(owners) > 0 {
				text += ", owner " + strings.Join(owners, ", ")
			}
		}
		fmt.Fprintf(&b, "%-10s %s\n", p.Platform, text)
	}
	if s.Config != nil {
		fmt.Fprintf(&b, "workspace  %s\n", s.Config.Workspace(s.Home))
		fmt.Fprintf(&b, "memory     %s\n", cmp.Or(s.Config.Memory.Provider, "no external one"))
	}
	return b.String()
}

// environment names the environment of this process, which a service does not have.
const environment = "the environment"

// secretLocation returns where a secret is set, by its variable and the paths of its
// key: the environment, .env or config.yaml; "" if it is not set.
func (s *State) secretLocation(variable string, paths ...[]string) string {
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

// secretAt returns where a secret of a platform is set.
func (s *State) secretAt(p chat.Platform, v chat.Secret) string {
	return s.secretLocation(v.Env, []string{"platforms", string(p), v.Key}, []string{string(p), v.Key})
}

// keyAt returns where the key of a provider is set.
func (s *State) keyAt(v config.Service) string {
	if place := s.secretLocation(v.Variable); v.Variable != "" && place != "" {
		return place
	}
	if s.Report.Model.Provider == v.Name && s.Report.Model.APIKey != "" {
		return s.secretLocation("", []string{"model", "api_key"})
	}
	return ""
}

func (s *State) owners(p chat.Platform) []string {
	if s.Config == nil {
		return nil
	}
	return s.account(p).AllowAdminFrom
}

// ownersNow returns all owners on a platform: those of its section and of access.owners,
// or the only user.
func (s *State) ownersNow(p chat.Platform) (ids []string) {
	if s.Config == nil {
		return nil
	}
	check, err := access.New(s.Config.AccessPolicy())
	if err != nil { // then Config would be nil
		return nil
	}
	for _, who := range check.Owners() {
		if who.Platform == p {
			ids = append(ids, who.ID)
		}
	}
	return ids
}

// configured reports whether a platform has an account that is switched on.
func (s *State) configured(p chat.Platform) bool {
	if s.Config == nil {
		return false
	}
	for a := range s.Config.Accounts() {
		if a.Platform == p {
			return true
		}
	}
	return false
}

// account returns the settings of a platform; the zero value without a valid
// configuration.
func (s *State) account(p chat.Platform) config.Account {
	if s.Config == nil {
		return config.Account{}
	}
	return s.Config.Account(chat.Account{Platform: p})
}
