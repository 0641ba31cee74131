package setup

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// Flags are the answers of a non-interactive setup. Secrets are named by the file or
// variable that contains them, because command lines are visible to every user of
// the machine and stored by shells.
type Flags struct {
	Provider, Model, BaseURL string
	KeyVariable, KeyFile     string
	SecretFiles              map[string]*string // by FlagOf; "" for none
	Owners                   map[chat.Platform]*[]string
	Workspace                string
	Memory                   MemoryFlags // without a Provider the external memory stays as it is
	Overwrite                bool        // existing values may be replaced
}

// FlagOf returns the name of the flag for the file with a secret of a platform.
func FlagOf(p chat.Platform, s chat.Secret) string {
	return string(p) + "-" + strings.ReplaceAll(s.Key, "_", "-") + "-file"
}

// OwnerFlagOf returns the name of the flag for the owners on a platform.
func OwnerFlagOf(p chat.Platform) string { return string(p) + "-owner" }

// Noun returns what a secret is called within a sentence.
func Noun(s chat.Secret) string { return strings.ToLower(s.Title[:1]) + s.Title[1:] }

// maxSecret is the maximum size, in bytes, of a file with a secret.
const maxSecret = 64 << 10

// A flagReader collects problems of flags.
type flagReader struct {
	s        *State
	problems []config.Problem
}

func (r *flagReader) problem(flag, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{File: "flag", Key: "--" + flag, Text: fmt.Sprintf(format, args...)})
}

// FromFlags returns the plan for flags. The error is a *config.Error with everything
// that is missing or wrong.
func (s *State) FromFlags(f Flags) (*Plan, error) {
	r := &flagReader{s: s}
	a := Answers{Platforms: map[chat.Platform]Login{}}
	a.Model = r.model(f)
	for _, p := range platforms.All() {
		if l, ok := r.login(p, f); ok {
			a.Platforms[p.Platform] = l
		}
	}
	if f.Workspace != "" {
		if err := s.checkWorkspace(f.Workspace); err != nil {
			r.problem("workspace", "%v", err)
		}
		a.Workspace = &f.Workspace
	}
	if f.Memory.Provider != "" {
		m := r.memory("memory-", f.Memory)
		a.Memory = &m
	}
	if len(r.problems) > 0 {
		return nil, &config.Error{Problems: r.problems}
	}
	p, err := s.Plan(a)
	if err != nil {
		return nil, err
	}
	if !f.Overwrite {
		for _, c := range p.Overwrites() {
			p.problems = append(p.problems, config.Problem{File: c.File, Key: c.Key, Text: "it is " + c.Old + " already; give --overwrite too, and it becomes " + c.New})
		}
	}
	if len(p.problems) > 0 {
		return nil, &config.Error{Problems: p.problems}
	}
	return p, nil
}

// model reads the main model; nil leaves it unchanged.
func (r *flagReader) model(f Flags) *Model {
	now := r.s.Report.Model
	key := r.key("", f.KeyVariable, f.KeyFile)
	asked := f.Provider != "" || f.Model != "" || f.BaseURL != "" || key != ""
	if !asked && (now.Provider != "demo" || r.s.doc.Text("model", "provider") == "demo") {
		return nil
	}
	m := Model{Provider: f.Provider, Name: f.Model, BaseURL: strings.TrimRight(f.BaseURL, "/"), Key: key}
	if m.Provider == "" && now.Provider != "demo" {
		m.Provider = now.Provider
	}
	v := config.ServiceOf(m.Provider)
	switch {
	case m.Provider == "":
		r.problem("provider", "it is missing: one of %s", names())
		return nil
	case v.Name == "":
		r.problem("provider", "there is no provider %q: one of %s", m.Provider, names())
		return nil
	case v.Name == "demo":
		return &m
	}
	if now.Provider == v.Name { // missing flags keep their values
		m.Name = cmp.Or(m.Name, now.Model)
		if m.BaseURL == "" && now.BaseURL != v.BaseURL {
			m.BaseURL = now.BaseURL
		}
	}
	r.checkModel(f, v, m)
	return &m
}

// checkModel reports what the flags of a model lack.
func (r *flagReader) checkModel(f Flags, v config.Service, m Model) {
	if m.Name == "" && v.Model == "" {
		r.problem("model", "it is missing: %s has no usual model", v.Name)
	}
	if err := checkLine(m.Name); err != nil {
		r.problem("model", "%v", err)
	}
	switch {
	case m.BaseURL == "" && v.BaseURL == "":
		r.problem("base-url", "it is missing: the address of the server, up to and including /v1")
	case m.BaseURL != "" && checkURL(m.BaseURL) != nil:
		r.problem("base-url", "%v", checkURL(m.BaseURL))
	}
	if v.Variable != "" && m.Key == "" && f.KeyVariable+f.KeyFile == "" && r.s.keyAt(v) == "" {
		r.problem("api-key-env", "a key for %s is missing: name the variable that holds it here, or its file with --api-key-file", v.Name)
	}
}

// key reads an API key. The names of its flags begin with prefix.
func (r *flagReader) key(prefix, variable, file string) secret.Value {
	switch {
	case variable != "" && file != "":
		r.problem(prefix+"api-key-file", "one of --%[1]sapi-key-env and --%[1]sapi-key-file is enough", prefix)
		return ""
	case file != "":
		return r.file(prefix+"api-key-file", file, func(v secret.Value) error { return checkKey(v.Reveal()) })
	case variable == "":
		return ""
	}
	v := secret.Value(strings.TrimSpace(r.s.variable(variable)))
	if v == "" {
		r.problem(prefix+"api-key-env", "the variable is not set, or empty; it takes the name of a variable, never the key itself")
	} else if err := checkKey(v.Reveal()); err != nil {
		r.problem(prefix+"api-key-env", "%v", err)
	}
	return v
}

// MemoryFlags are the answers about the external memory of a non-interactive setup. A nil
// or empty one keeps what is there.
type MemoryFlags struct {
	Memory

	KeyVariable, KeyFile string
	OwnerIDs             map[chat.Platform]*[]string // instead of Owners
}

// FromMemoryFlags returns what the flags say, with the key.
func (s *State) FromMemoryFlags(f MemoryFlags) (Memory, error) {
	r := &flagReader{s: s}
	m := r.memory("", f)
	if len(r.problems) > 0 {
		return m, &config.Error{Problems: r.problems}
	}
	return m, nil
}

// memory reads the external memory. The names of its flags begin with prefix.
func (r *flagReader) memory(prefix string, f MemoryFlags) Memory {
	m := f.Memory
	m.Key = r.key(prefix, f.KeyVariable, f.KeyFile)
	v := memoryServiceOf(m.Provider)
	if v.name == "" { // of `memory setup` it is an argument, which TryMemory checks
		if prefix != "" {
			r.problem(prefix+"provider", "there is no memory provider %q: one of %s", m.Provider, strings.Join(MemoryProviders(), ", "))
		}
		return m
	}
	if m.Key != "" && v.key.variable == "" {
		r.problem(prefix+"api-key-env", "%s takes no key here", m.Provider)
	}
	switch {
	case m.URL == nil:
	case v.address.variable == "":
		r.problem(prefix+"url", "%s has no address", m.Provider)
	case *m.URL == "" && !v.cloud:
		r.problem(prefix+"url", "%s has no cloud", m.Provider)
	case *m.URL != "" && checkAddress(*m.URL) != nil:
		r.problem(prefix+"url", "%v", checkAddress(*m.URL))
	}
	m.Owners = r.memoryOwners(f)
	return m
}

// memoryOwners reads the owners on platforms that are configured.
func (r *flagReader) memoryOwners(f MemoryFlags) map[chat.Platform][]string {
	owners := make(map[chat.Platform][]string)
	for _, p := range platforms.All() {
		given := f.OwnerIDs[p.Platform]
		if given == nil || len(*given) == 0 {
			continue
		}
		flag := OwnerFlagOf(p.Platform)
		owners[p.Platform] = Split(strings.Join(*given, ","))
		if err := checkOwners(p.Platform, owners[p.Platform]); err != nil {
			r.problem(flag, "%v", err)
		}
		if !r.s.configured(p.Platform) {
			r.problem(flag, "%s is not configured: `hermesd setup` does that", p.Name)
		}
	}
	return owners
}

// login reads the tokens and owners of a platform. asked is false if no flag names
// it.
func (r *flagReader) login(p platforms.Platform, f Flags) (l Login, asked bool) {
	owners := f.Owners[p.Platform]
	l.Secrets = make(map[string]secret.Value)
	for _, s := range p.Secrets {
		if file := f.SecretFiles[FlagOf(p.Platform, s)]; file != nil && *file != "" {
			l.Secrets[s.Key] = r.file(FlagOf(p.Platform, s), *file, func(v secret.Value) error { return check(s, v) })
		}
	}
	asked = len(l.Secrets) > 0
	if owners != nil && len(*owners) > 0 {
		asked = true
		l.Owners = Split(strings.Join(*owners, ","))
		if err := checkOwners(p.Platform, l.Owners); err != nil {
			r.problem(OwnerFlagOf(p.Platform), "%v", err)
		}
	}
	if !asked {
		return l, false
	}
	for _, s := range p.Secrets {
		if _, given := l.Secrets[s.Key]; !given && r.s.secretAt(p.Platform, s) == "" {
			r.problem(FlagOf(p.Platform, s), "it is missing: the file that holds the %s of %s", Noun(s), p.Name)
		}
	}
	if id, _ := r.s.onlyUser(); len(l.Owners) == 0 && len(r.s.owners(p.Platform)) == 0 && id == "" {
		r.problem(OwnerFlagOf(p.Platform), "it is missing: the id of who may do everything, such as %s; nobody else gets in. %s", p.Person.Like, p.Person.Find)
	}
	return l, true
}

// file reads the secret in a file.
func (r *flagReader) file(flag, name string, check func(secret.Value) error) secret.Value {
	f, err := os.Open(name)
	if err != nil {
		r.problem(flag, "%v", err)
		return ""
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	v := secret.Value(strings.TrimSpace(string(data)))
	switch {
	case err != nil:
		r.problem(flag, "%v", err)
	case v == "":
		r.problem(flag, "%s is empty", name)
	case len(data) > maxSecret:
		r.problem(flag, "%s is larger than a secret can be", name)
	default:
		if err := check(v); err != nil {
			r.problem(flag, "%s: %v", name, err)
		}
	}
	return v
}

// Providers returns the names of the model providers.
func Providers() []string {
	var ns []string
	for _, v := range config.Services() {
		ns = append(ns, v.Name)
	}
	return ns
}

func names() string { return strings.Join(Providers(), ", ") }
