package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup/yamledit"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// A Change is one key or variable that would be written. Secrets are shown as
// such.
type Change struct {
	File string `json:"file"`
	Key  string `json:"key"`
	New  string `json:"new"`
	Old  string `json:"old,omitempty"` // "": it was not set
}

// A Plan is what answers come to. Nothing is written before Write.
type Plan struct {
	Changes []Change `json:"changes"`
	// Notes are what the person should know beside the changes.
	Notes []string `json:"notes,omitempty"`

	s        *State
	answers  Answers
	doc      *yamledit.Doc
	dot      []byte
	vars     map[string]string // of dot
	problems []config.Problem
}

// masked stands for a secret.
const masked = "<secret>"

// keyVariable holds the key of a server for which there is no variable yet.
const keyVariable = "HERMES_MODEL_API_KEY"

// Plan returns what the answers come to. Its error, a *config.Error, says
// everything that keeps the outcome from being a valid configuration.
func (s *State) Plan(a Answers) (*Plan, error) {
	doc, err := yamledit.Parse(s.conf.old)
	if err != nil {
		return nil, &config.Error{Problems: []config.Problem{{File: s.conf.path, Text: err.Error()}}}
	}
	p := &Plan{s: s, answers: a, doc: doc, dot: s.dot.old, vars: config.ReadDotenv(s.dot.old)}
	if a.Model != nil {
		p.model(*a.Model)
	}
	p.keepOwner(a)
	for _, pl := range platforms() {
		if l, ok := a.Platforms[pl.name]; ok {
			p.login(pl.name, l)
		}
	}
	if a.Workspace != nil {
		p.workspace(*a.Workspace)
	}
	if len(p.problems) == 0 {
		p.problems = p.check()
	}
	if len(p.problems) > 0 {
		return nil, &config.Error{Problems: p.problems}
	}
	return p, nil
}

// model plans who answers. What belonged to another provider must not go to the
// new one: neither its address nor its key.
func (p *Plan) model(m Model) {
	v, ok := service(m.Provider)
	if !ok {
		p.problem("model.provider", "there is no provider %q", m.Provider)
		return
	}
	was := p.s.Report.Model
	p.section("default", "model")
	p.set(m.Provider, "model", "provider")
	if m.Provider == "demo" {
		return // it uses nothing else
	}
	p.value(m.Name, "model", "default")
	p.value(m.BaseURL, "model", "base_url")
	name := m.Name
	if name == "" {
		name = v.Model
	}
	if n := p.doc.Text("model", "context_length"); n != "" && n != "0" && name != was.Model {
		p.note("model.context_length stays %s; remove it if the new model takes another number of tokens", n)
	}
	p.key(m, v, was.Provider)
}

// key plans where the key of a model stands: in .env, never in config.yaml.
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

// login plans one platform.
func (p *Plan) login(pl chat.Platform, l Login) {
	p.token(pl, variable(pl, "BOT_TOKEN"), "token", l.Token)
	if pl == chat.Slack {
		p.token(pl, "SLACK_APP_TOKEN", "app_token", l.AppToken)
	}
	at := p.place(pl)
	if _, said := p.s.Report.Origins["platforms."+string(pl)+".enabled"]; said && p.s.Config != nil && !p.s.account(pl).Enabled {
		p.switchOn(append(at, "enabled")...)
	}
	if len(l.Owners) > 0 {
		p.list(l.Owners, append(at, "allow_admin_from")...)
	}
}

// token plans one token: in the variable that config.yaml takes it from, else
// in the usual one.
func (p *Plan) token(pl chat.Platform, name, key string, token secret.Value) {
	if token == "" {
		return
	}
	at := append(p.place(pl), key)
	switch there := p.doc.Text(at...); {
	case there == "":
	case p.s.vars[name] == "" && variableOf(there) != "":
		name = variableOf(there)
	case variableOf(there) != name:
		p.note("%s in %s is not used any more: .env goes before it", strings.Join(at, "."), filepath.Base(p.s.conf.path))
	}
	p.secret(name, token)
}

// place is the section of a platform: at the top, as upstream Hermes writes it,
// if it stands there, else among the platforms.
func (p *Plan) place(pl chat.Platform) []string {
	if p.doc.Has(string(pl)) && !p.doc.Has("platforms", string(pl)) {
		return []string{string(pl)}
	}
	return []string{"platforms", string(pl)}
}

// keepOwner names the one who is the owner only because nobody else may speak,
// before somebody else may.
func (p *Plan) keepOwner(a Answers) {
	sole, on := p.s.sole()
	if sole == "" {
		return
	}
	for _, pl := range platforms() {
		l := a.Platforms[pl.name]
		if len(l.Owners) == 0 {
			continue
		}
		if slices.Contains(l.Owners, sole) && (on == "" || on == pl.name) {
			return
		}
		at := []string{"access", "owners"}
		if on != "" {
			at = append(p.place(on), "allow_admin_from")
		}
		if _, changed := a.Platforms[on]; on == "" || !changed || len(a.Platforms[on].Owners) == 0 {
			p.list([]string{sole}, at...)
			p.note("%s stays an owner: until now it was the only one who may speak", sole)
		}
		return
	}
}

// sole returns the one id that may speak, and where, if there is exactly one and
// no owner is named.
func (s *State) sole() (id string, on chat.Platform) {
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

// workspace plans where tools work.
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

// section makes of a plain value that stands for key the section around it.
func (p *Plan) section(key string, path ...string) {
	if err := p.doc.Spread(key, path...); err != nil {
		p.refused(err)
	}
}

// value plans a value in which a $ is a $. An empty one is only written where
// something stands.
func (p *Plan) value(v string, path ...string) {
	if v == "" && p.doc.Text(path...) == "" {
		return
	}
	p.set(strings.ReplaceAll(v, "$", "$$"), path...)
}

// set plans a value as it is to stand in the file.
func (p *Plan) set(v string, path ...string) {
	old := p.doc.Text(path...)
	if old == v && p.doc.Has(path...) {
		return
	}
	if err := p.doc.Set(v, path...); err != nil {
		p.refused(err)
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

// switchOn plans that a switch is on.
func (p *Plan) switchOn(path ...string) {
	if err := p.doc.SetBool(true, path...); err != nil {
		p.refused(err)
		return
	}
	p.Changes = append(p.Changes, Change{File: p.s.conf.path, Key: strings.Join(path, "."), New: "true", Old: "false"})
}

// list plans a list.
func (p *Plan) list(vs []string, path ...string) {
	before := string(p.doc.Bytes())
	had := p.doc.Items(path...)
	if err := p.doc.SetList(vs, path...); err != nil {
		p.refused(err)
		return
	}
	if string(p.doc.Bytes()) != before {
		p.Changes = append(p.Changes, Change{File: p.s.conf.path, Key: strings.Join(path, "."), New: strings.Join(vs, ", "), Old: strings.Join(had, ", ")})
	}
}

// secret plans a secret in .env.
func (p *Plan) secret(name string, v secret.Value) {
	old := ""
	if p.vars[name] != "" {
		old = masked
	}
	p.variable(name, v.Reveal(), masked, old)
}

// variable plans a variable of .env.
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

// refused notes that a key cannot be written.
func (p *Plan) refused(err error) {
	var bad *yamledit.FormError
	if errors.As(err, &bad) {
		p.problems = append(p.problems, config.Problem{File: p.s.conf.path, Line: bad.Line, Column: min(bad.Line, 1), Key: bad.Key, Text: bad.Reason + ": write it by hand"})
		return
	}
	p.problems = append(p.problems, config.Problem{File: p.s.conf.path, Text: err.Error()})
}

// reference is a value that is one variable and nothing else.
var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}$`)

// variableOf returns the variable that a value is, "" if it is none.
func variableOf(s string) string {
	if m := reference.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

// Overwrites returns the changes that put something in the place of what is set.
func (p *Plan) Overwrites() (cs []Change) {
	for _, c := range p.Changes {
		if c.Old != "" {
			cs = append(cs, c)
		}
	}
	return cs
}

// Text shows the plan, file by file.
func (p *Plan) Text() string {
	var b strings.Builder
	last := ""
	for _, f := range []file{p.s.conf, p.s.dot} {
		for _, c := range p.Changes {
			if c.File != f.path {
				continue
			}
			if last != f.path {
				last = f.path
				b.WriteString(f.path + map[bool]string{false: " (new, for you alone)", true: ""}[f.is] + "\n")
			}
			old := ""
			if c.Old != "" {
				old = "   (was " + c.Old + ")"
			}
			fmt.Fprintf(&b, "  %s: %s%s\n", c.Key, c.New, old)
		}
	}
	for _, n := range p.Notes {
		b.WriteString("Note: " + n + ".\n")
	}
	return b.String()
}
