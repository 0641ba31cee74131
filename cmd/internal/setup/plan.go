package setup

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/cmd/internal/setup/yamledit"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// A Change is a key or variable that would be written. Secrets are masked.
type Change struct {
	File string `json:"file"`
	Key  string `json:"key"`
	New  string `json:"new"`
	Old  string `json:"old,omitempty"` // "" if it was not set
}

// A Plan lists the changes of a setup. Only Write writes them.
type Plan struct {
	Changes []Change `json:"changes"`
	// Notes contain additional information for the user.
	Notes []string `json:"notes,omitempty"`

	s        *State
	answers  Answers
	doc      *yamledit.Doc
	dot      []byte
	vars     map[string]string // of dot
	problems []config.Problem
	own      file   // of the memory provider; the zero file if it has none
	ownName  string // by which the provider reads it
	ownNew   []byte // its content
}

// masked replaces a secret.
const masked = "<secret>"

// keyVariable is the variable for the key of a server that has none yet.
const keyVariable = "HERMES_MODEL_API_KEY"

// Plan returns the changes for the answers. Its error, a *config.Error, lists
// everything that would make the configuration invalid.
func (s *State) Plan(a Answers) (*Plan, error) {
	p, err := s.plan(a)
	if err != nil {
		return nil, err
	}
	if len(p.problems) == 0 {
		p.problems = p.check()
	}
	if len(p.problems) > 0 {
		return nil, &config.Error{Problems: p.problems}
	}
	return p, nil
}

// plan returns the changes for the answers, which are not checked as a whole.
func (s *State) plan(a Answers) (*Plan, error) {
	doc, err := yamledit.Parse(s.conf.content)
	if err != nil {
		return nil, &config.Error{Problems: []config.Problem{{File: s.conf.path, Text: err.Error()}}}
	}
	p := &Plan{s: s, answers: a, doc: doc, dot: s.dot.content, vars: config.ReadDotenv(s.dot.content)}
	a.Platforms = a.logins()
	if a.Model != nil {
		p.model(*a.Model)
	}
	p.keepOwner(a)
	for _, pl := range platforms.All() {
		if l, ok := a.Platforms[pl.Platform]; ok {
			p.login(pl.Profile, l)
		}
	}
	if a.Workspace != nil {
		p.workspace(*a.Workspace)
	}
	if a.Memory != nil {
		p.memory(*a.Memory)
	}
	return p, nil
}

// model plans the main model. The base URL and key of the previous provider must not
// be used for the new one.
func (p *Plan) model(m Model) {
	v := config.ServiceOf(m.Provider)
	if v.Name == "" {
		p.problem("model.provider", "there is no provider %q", m.Provider)
		return
	}
	was := p.s.Report.Model
	p.section("default", "model")
	p.set(m.Provider, "model", "provider")
	if m.Provider == "demo" {
		return // it needs no other settings
	}
	p.value(m.Name, "model", "default")
	p.value(m.BaseURL, "model", "base_url")
	name := cmp.Or(m.Name, v.Model)
	if n := p.doc.Text("model", "context_length"); n != "" && n != "0" && name != was.Model {
		p.note("model.context_length stays %s; remove it if the new model takes another number of tokens", n)
	}
	p.key(m, v, was.Provider)
}

// key plans where the key of a model is stored: in .env, never in config.yaml.
func (p *Plan) key(m Model, v config.Service, before string) {
	there := p.doc.Text("model", "api_key")
	byFile := p.doc.Has("model", "api_key_file")
	if (m.Key != "" || m.Provider != before) && byFile {
		p.problem("model.api_key_file", "it names the file of the key, and goes before what is asked here: change that file, or take the line out first")
		return
	}
	if m.Key == "" {
		if m.Provider != before && there != "" {
			p.set("", "model", "api_key")
			p.note("model.api_key was the key for %s; it is taken out", before)
		}
		return
	}
	name := v.Variable
	if name == "" {
		if name = variableOf(there); name == "" {
			name = keyVariable
		}
		p.set("${"+name+"}", "model", "api_key")
	} else if there != "" && variableOf(there) != name {
		p.set("", "model", "api_key")
	}
	p.secret(name, m.Key)
}

func (p *Plan) login(pl chat.Profile, l Login) {
	at := p.sectionPath(pl.Platform)
	for _, s := range pl.Secrets {
		p.token(append(at, s.Key), s.Env, l.Secrets[s.Key])
	}
	if _, isSet := p.s.Report.Origins["platforms."+string(pl.Platform)+".enabled"]; isSet && p.s.Config != nil && !p.s.configured(pl.Platform) {
		p.switchTo(true, append(at, "enabled")...)
	}
	if len(l.Owners) > 0 {
		p.list(l.Owners, append(at, "allow_admin_from")...)
	}
}

// token plans one token: in the variable that config.yaml refers to, otherwise in
// the default one.
func (p *Plan) token(at []string, name string, token secret.Value) {
	if token == "" {
		return
	}
	switch there := p.doc.Text(at...); {
	case there == "":
	case p.s.vars[name] == "" && variableOf(there) != "":
		name = variableOf(there)
	case variableOf(there) != name:
		p.note("%s in %s is not used any more: .env goes before it", strings.Join(at, "."), filepath.Base(p.s.conf.path))
	}
	p.secret(name, token)
}

// sectionPath returns the path of a platform's section: at the top level, as
// upstream Hermes writes it, if it is there, otherwise in platforms.
func (p *Plan) sectionPath(pl chat.Platform) []string {
	if p.doc.Has(string(pl)) && !p.doc.Has("platforms", string(pl)) {
		return []string{string(pl)}
	}
	return []string{"platforms", string(pl)}
}

// keepOwner makes the only user, who has owner rights because nobody else may write,
// an explicit owner before others get access.
func (p *Plan) keepOwner(a Answers) {
	user, on := p.s.onlyUser()
	if user == "" {
		return
	}
	for _, pl := range platforms.All() {
		l := a.Platforms[pl.Platform]
		if len(l.Owners) == 0 {
			continue
		}
		if slices.Contains(l.Owners, user) && (on == "" || on == pl.Platform) {
			return
		}
		at := []string{"access", "owners"}
		if on != "" {
			at = append(p.sectionPath(on), "allow_admin_from")
		}
		if _, changed := a.Platforms[on]; on == "" || !changed || len(a.Platforms[on].Owners) == 0 {
			p.list([]string{user}, at...)
			p.note("%s stays an owner: until now it was the only one who may speak", user)
		}
		return
	}
}

// onlyUser returns the only user ID with access, and its platform, if there is
// exactly one and no owner is configured.
func (s *State) onlyUser() (id string, on chat.Platform) {
	if s.Config == nil {
		return "", ""
	}
	policy := s.Config.AccessPolicy()
	ids := map[string]chat.Platform{}
	for _, e := range policy.AllowFrom {
		ids[e] = ""
	}
	owners := len(policy.Owners)
	for account, r := range policy.Accounts {
		owners += len(r.Owners)
		for _, e := range r.AllowFrom {
			ids[e] = account.Platform
		}
	}
	if owners > 0 || len(ids) != 1 {
		return "", ""
	}
	for e, at := range ids {
		id, on = strings.TrimSpace(e), at
	}
	if id == "*" {
		return "", ""
	}
	return id, on
}

func (p *Plan) workspace(dir string) {
	if p.vars["TERMINAL_CWD"] != "" {
		p.variable("TERMINAL_CWD", dir, dir, p.vars["TERMINAL_CWD"])
		return
	}
	if p.doc.Has("workspace") {
		p.value(dir, "workspace")
		return
	}
	p.section("cwd", "terminal")
	p.value(dir, "terminal", "cwd")
}

// section converts a scalar value at path to a section in which it has a key.
func (p *Plan) section(key string, path ...string) {
	if err := p.doc.Spread(key, path...); err != nil {
		p.addFormProblem(err)
	}
}

// value plans a value in which $ has no special meaning. An empty value is written
// only to replace another one.
func (p *Plan) value(v string, path ...string) {
	if v == "" && p.doc.Text(path...) == "" {
		return
	}
	p.set(strings.ReplaceAll(v, "$", "$$"), path...)
}

// set plans a value exactly as it is written to the file.
func (p *Plan) set(v string, path ...string) {
	old := p.doc.Text(path...)
	if old == v && p.doc.Has(path...) {
		return
	}
	if err := p.doc.Set(v, path...); err != nil {
		p.addFormProblem(err)
		return
	}
	c := Change{File: p.s.conf.path, Key: strings.Join(path, "."), New: v, Old: old}
	if path[len(path)-1] == "api_key" && old != "" && variableOf(old) == "" {
		c.Old = masked
	}
	if v == "" {
		c.New = "(empty)"
	}
	p.Changes = append(p.Changes, c)
}

// switchTo plans the other one of two values.
func (p *Plan) switchTo(v bool, path ...string) {
	old := p.doc.Text(path...)
	if err := p.doc.SetBool(v, path...); err != nil {
		p.addFormProblem(err)
		return
	}
	p.Changes = append(p.Changes, Change{File: p.s.conf.path, Key: strings.Join(path, "."), New: strconv.FormatBool(v), Old: old})
}

func (p *Plan) list(vs []string, path ...string) {
	before := string(p.doc.Bytes())
	had := p.doc.Items(path...)
	if err := p.doc.SetList(vs, path...); err != nil {
		p.addFormProblem(err)
		return
	}
	if string(p.doc.Bytes()) != before {
		p.Changes = append(p.Changes, Change{File: p.s.conf.path, Key: strings.Join(path, "."), New: strings.Join(vs, ", "), Old: strings.Join(had, ", ")})
	}
}

func (p *Plan) secret(name string, v secret.Value) {
	old := ""
	if p.vars[name] != "" {
		old = masked
	}
	p.variable(name, v.Reveal(), masked, old)
}

func (p *Plan) variable(name, v, shown, old string) {
	if have, ok := p.vars[name]; ok && have == v {
		return
	}
	dot, err := config.SetDotenv(p.dot, config.Variable{Name: name, Value: v})
	if err != nil {
		p.problems = append(p.problems, config.Problem{File: p.s.dot.path, Key: name, Text: err.Error()})
		return
	}
	p.dot, p.vars[name] = dot, v
	p.Changes = append(p.Changes, Change{File: p.s.dot.path, Key: name, New: shown, Old: old})
	if env, ok := p.s.o.Env(name); ok && env != v {
		p.note("%s is set in the environment too, with another value, which goes before .env: take it out there", name)
	}
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func (p *Plan) problem(key, format string, args ...any) {
	p.problems = append(p.problems, config.Problem{File: p.s.conf.path, Key: key, Text: fmt.Sprintf(format, args...)})
}

// addFormProblem reports a key that cannot be written.
func (p *Plan) addFormProblem(err error) {
	if bad, ok := errors.AsType[*yamledit.FormError](err); ok {
		p.problems = append(p.problems, config.Problem{File: p.s.conf.path, Line: bad.Line, Column: min(bad.Line, 1), Key: bad.Key, Text: bad.Reason + ": write it by hand"})
		return
	}
	p.problems = append(p.problems, config.Problem{File: p.s.conf.path, Text: err.Error()})
}

// reference matches a value that consists of one variable reference.
var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}$`)

// variableOf returns the variable that a value refers to, or "".
func variableOf(s string) string {
	if m := reference.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

// Overwrites returns the changes that replace an existing value.
func (p *Plan) Overwrites() (cs []Change) {
	for _, c := range p.Changes {
		if c.Old != "" {
			cs = append(cs, c)
		}
	}
	return cs
}

// Text returns the plan as text, grouped by file.
func (p *Plan) Text() string {
	var b strings.Builder
	last := ""
	for _, f := range []file{p.s.conf, p.s.dot, p.own} {
		for _, c := range p.Changes {
			if c.File != f.path {
				continue
			}
			if last != f.path {
				last = f.path
				b.WriteString(f.path + map[bool]string{false: " (new, for you alone)", true: ""}[f.exists] + "\n")
			}
			old := ""
			if c.Old != "" {
				old = "   (was " + c.Old + ")"
			}
			fmt.Fprintf(&b, "  %s: %s%s\n", c.Key, c.New, old)
		}
	}
	return b.String() + p.NotesText()
}

// NotesText returns the notes as text.
func (p *Plan) NotesText() string {
	var b strings.Builder
	for _, n := range p.Notes {
		b.WriteString("Note: " + n + ".\n")
	}
	return b.String()
}
