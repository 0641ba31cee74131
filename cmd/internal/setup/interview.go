package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// An interview is one run of the interactive setup.
type interview struct {
	s       *State
	a       Asker
	answers Answers
	only    bool // the external memory is all that is asked for
}

// The parts of a setup besides the platforms.
const (
	partModel     = "model"
	partWorkspace = "workspace"
	partMemory    = "memory"
)

// Interview asks the user and returns the plan that was confirmed, or nil if nothing
// changes. The error is ErrAborted if the user quits.
func Interview(ctx context.Context, s *State, a Asker) (*Plan, error) {
	i := &interview{s: s, a: a, answers: Answers{Platforms: map[chat.Platform]Login{}}}
	i.welcome()
	parts, err := i.parts(ctx)
	return i.run(ctx, parts, err, func() ([]string, error) { return i.choose(ctx, "Which part do you want to change?") })
}

// InterviewMemory asks like Interview, and only for the external memory.
func InterviewMemory(ctx context.Context, s *State, a Asker) (*Plan, error) {
	i := &interview{s: s, a: a, only: true}
	i.welcome()
	parts := []string{partMemory}
	return i.run(ctx, parts, nil, func() ([]string, error) { return parts, nil })
}

// run asks about parts until a plan is confirmed; next returns the parts to change.
func (i *interview) run(ctx context.Context, parts []string, err error, change func() ([]string, error)) (*Plan, error) {
	for err == nil {
		if err = i.askParts(ctx, parts); err != nil {
			break
		}
		var p *Plan
		var next string
		if p, next, err = i.confirm(ctx); err != nil || next == "write" {
			return p, err
		}
		parts, err = change()
	}
	return nil, err
}

func (i *interview) welcome() {
	what := "is there"
	if !i.s.Found {
		what = "will be made, for you alone (mode 0700)"
	}
	i.a.Say(fmt.Sprintf("Home: %s %s. Nothing is written before you agree at the end; Ctrl-C quits.", i.s.Home, what))
	if i.s.Recovered != "" {
		i.a.Say(i.s.Recovered)
	}
	if !i.s.Fresh() {
		i.a.Say("This is what is set up:\n" + i.s.Summary())
	}
	for _, p := range i.s.Problems {
		i.a.Say("Problem: " + p.String())
	}
	if len(i.s.Problems) > 0 {
		i.a.Say("Setup can correct some of this. Correct the rest by hand: it writes nothing that is not valid.")
	}
}

// parts returns the parts to ask about first: all of them in a fresh home directory,
// otherwise those that the user chooses.
func (i *interview) parts(ctx context.Context) ([]string, error) {
	if !i.s.Fresh() {
		return i.choose(ctx, "Which parts do you want to set up or change?")
	}
	f := &Field{Kind: MultiSelect, Title: "From where do you want to reach the agent?", Help: "Space marks, Enter goes on. The terminal (`hermesd chat`) always works.", Options: platformOptions()}
	if err := i.a.Ask(ctx, Page{Fields: []*Field{f}}); err != nil {
		return nil, err
	}
	return append(append([]string{partModel}, f.Values...), partWorkspace, partMemory), nil
}

func platformOptions() (options []Option) {
	for _, p := range platforms.All() {
		options = append(options, Option{string(p.Platform), p.Name})
	}
	return options
}

// choose asks which parts to set up.
func (i *interview) choose(ctx context.Context, title string) ([]string, error) {
	f := &Field{Kind: MultiSelect, Title: title, Help: "Space marks, Enter goes on. What is not marked stays as it is."}
	f.Options = slices.Concat([]Option{{partModel, "The model"}}, platformOptions(), []Option{{partWorkspace, "The workspace, where tools work"}, {partMemory, "External memory"}})
	err := i.a.Ask(ctx, Page{Fields: []*Field{f}})
	return f.Values, err
}

// askParts asks about the parts in turn.
func (i *interview) askParts(ctx context.Context, parts []string) error {
	for _, part := range parts {
		var err error
		switch part {
		case partModel:
			err = i.model(ctx)
		case partWorkspace:
			err = i.workspace(ctx)
		case partMemory:
			err = i.memory(ctx)
		default:
			err = i.platform(ctx, platforms.Profiles()[chat.Platform(part)])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// confirm shows the plan and asks whether to write it.
func (i *interview) confirm(ctx context.Context) (p *Plan, next string, err error) {
	p, err = i.s.Plan(i.answers)
	if bad, ok := errors.AsType[*config.Error](err); ok {
		for _, problem := range bad.Problems {
			i.a.Say("Problem: " + problem.String())
		}
		next, err = i.selectOne(ctx, "This would not be a valid configuration, so it is not written.", "", Option{"change", "Change something"}, Option{"quit", "Quit; nothing is written"})
	} else if err == nil {
		if len(p.Changes) == 0 {
			i.a.Say("Everything stays as it is.")
			return nil, "write", nil
		}
		next, err = i.selectOne(ctx, "Write this?", p.Text(), Option{"write", "Write it"}, Option{"change", "Change something"}, Option{"quit", "Quit; nothing is written"})
	}
	if err == nil && next == "quit" {
		err = ErrAborted
	}
	return p, next, err
}

// model asks for the main model.
func (i *interview) model(ctx context.Context) error {
	f := &Field{Kind: Select, Title: "Which model shall answer?", Value: i.s.Report.Model.Provider}
	if i.s.Fresh() {
		f.Value = config.Services()[0].Name
	}
	for _, v := range config.Services() {
		f.Options = append(f.Options, Option{v.Name, v.Label})
	}
	if err := i.a.Ask(ctx, Page{Fields: []*Field{f}}); err != nil {
		return err
	}
	v := config.ServiceOf(f.Value)
	m := Model{Provider: v.Name, Name: v.Model, BaseURL: v.BaseURL}
	if now := i.s.Report.Model; now.Provider == v.Name {
		m.Name, m.BaseURL = now.Model, now.BaseURL
	}
	if v.Name == "demo" {
		i.answers.Model = &Model{Provider: "demo"}
		return nil
	}
	err := i.askVerified(ctx, func() error { return i.modelPage(ctx, v, &m) }, func(ctx context.Context) (string, error) { return i.s.VerifyModel(ctx, m) })
	if err != nil {
		return err
	}
	if m.BaseURL == v.BaseURL {
		m.BaseURL = ""
	}
	i.answers.Model = &m
	i.a.Say(fmt.Sprintf("Model: %s %s", m.Provider, m.Name))
	return nil
}

// modelPage asks for a model's name, base URL and key.
func (i *interview) modelPage(ctx context.Context, v config.Service, m *Model) error {
	name := &Field{Kind: Text, Title: "Name of the model", Help: "As its server knows it.", Value: m.Name, Check: required(checkLine)}
	p := Page{Title: "The model", Fields: []*Field{name}}
	var address, key *Field
	if v.Variable == "" || m.BaseURL != v.BaseURL {
		address = &Field{Kind: Text, Title: "Address of the server", Help: "Up to and including /v1; for an Anthropic address without it.", Value: m.BaseURL, Check: required(checkURL)}
		p.Fields = append([]*Field{address}, p.Fields...)
	}
	if v.API != config.Ollama {
		replace, err := i.askReplace(ctx, "a key for "+v.Name, i.s.keyAt(v), m.Key)
		if err != nil {
			return err
		}
		if replace {
			key = &Field{Kind: Secret, Title: "Key", Help: "It goes into .env (mode 0600) and is never shown.", Value: m.Key.Reveal(), Check: required(checkKey)}
			if v.Variable == "" {
				key.Help = "Leave it empty if the server wants none. " + key.Help
				key.Check = func(s string) error { return checkKey(strings.TrimSpace(s)) }
			}
			p.Fields = append(p.Fields, key)
		}
	}
	if err := i.a.Ask(ctx, p); err != nil {
		return err
	}
	m.Name = strings.TrimSpace(name.Value)
	if address != nil {
		m.BaseURL = strings.TrimRight(strings.TrimSpace(address.Value), "/")
	}
	if key != nil {
		m.Key = secret.Value(strings.TrimSpace(key.Value))
	}
	return nil
}

// askReplace asks whether to replace an existing secret. One that was typed in this
// setup is always replaced.
func (i *interview) askReplace(ctx context.Context, what, where string, typed secret.Value) (bool, error) {
	if where == "" || typed != "" {
		return true, nil
	}
	replace := "Replace it"
	if where == environment {
		replace = "Write one into .env: a service does not have the environment of your shell"
	}
	answer, err := i.selectOne(ctx, fmt.Sprintf("There is %s already, in %s.", what, where), "", Option{"keep", "Keep it"}, Option{"replace", replace})
	return answer == "replace", err
}

// platform asks for a platform's tokens and owners.
func (i *interview) platform(ctx context.Context, p chat.Profile) error {
	l := i.answers.Platforms[p.Platform]
	if l.Owners == nil {
		l.Owners = i.s.owners(p.Platform)
	}
	err := i.askVerified(ctx, func() error { return i.loginPage(ctx, p, &l) }, func(ctx context.Context) (string, error) { return i.s.VerifyToken(ctx, p.Platform, l) })
	if err != nil {
		return err
	}
	i.answers.Platforms[p.Platform] = l
	i.a.Say(fmt.Sprintf("%s: owner %s", p.Name, strings.Join(l.Owners, ", ")))
	return nil
}

func (i *interview) loginPage(ctx context.Context, p chat.Profile, l *Login) error {
	page := Page{Title: p.Name, Text: p.Steps}
	if len(l.Secrets) > 0 {
		page.Text = "" // already shown
	}
	replace, err := i.askReplace(ctx, "a token of "+p.Name, i.s.secretAt(p.Platform, p.Secrets[0]), l.Secrets[p.Secrets[0].Key])
	if err != nil {
		return err
	}
	fields := make(map[string]*Field)
	for _, s := range p.Secrets {
		if replace || i.s.secretAt(p.Platform, s) == "" {
			fields[s.Key] = &Field{Kind: Secret, Title: s.Title, Help: "It goes into .env and is never shown.", Value: l.Secrets[s.Key].Reveal(), Check: required(func(v string) error { return check(s, secret.Value(v)) })}
			page.Fields = append(page.Fields, fields[s.Key])
		}
	}
	who := &Field{
		Kind: Text, Title: "Who is the owner?", Value: strings.Join(l.Owners, ", "), Check: required(func(s string) error { return checkOwners(p.Platform, Split(s)) }),
		Help: "The id of the person who may do everything, such as " + p.Person.Like + "; several with commas. " + p.Person.Find,
	}
	page.Fields = append(page.Fields, who)
	if err := i.a.Ask(ctx, page); err != nil {
		return err
	}
	l.Owners = Split(who.Value)
	if l.Secrets == nil {
		l.Secrets = make(map[string]secret.Value)
	}
	for key, f := range fields {
		l.Secrets[key] = secret.Value(strings.TrimSpace(f.Value))
	}
	return nil
}

// askVerified asks, offers to verify the answers, and asks again if the user wants to
// correct them.
func (i *interview) askVerified(ctx context.Context, ask func() error, verify func(context.Context) (string, error)) error {
	for {
		if err := ask(); err != nil {
			return err
		}
		answer, err := i.selectOne(ctx, "Try it now?", "", Option{"try", "Yes: ask the server, with what you gave"}, Option{"go", "No, go on"})
		if err != nil || answer != "try" {
			return err
		}
		if again, err := i.verify(ctx, verify); err != nil || !again {
			return err
		}
	}
}

// verify verifies the answers and reports whether the user wants to correct them.
func (i *interview) verify(ctx context.Context, do func(context.Context) (string, error)) (correct bool, err error) {
	answer := "try"
	for err == nil && answer == "try" {
		var text string
		var failed error
		if err = i.a.Wait(ctx, "Asking the server", func(ctx context.Context) { text, failed = do(ctx) }); err != nil {
			break
		}
		if failed == nil {
			i.a.Say("✓ " + text)
			return false, nil
		}
		i.a.Say("✗ " + failed.Error())
		answer, err = i.selectOne(ctx, "It did not work.", "", Option{"correct", "Correct it"}, Option{"try", "Try again"}, Option{"go", "Go on as it is"})
	}
	return answer == "correct", err
}

func (i *interview) workspace(ctx context.Context) error {
	now := filepath.Join(i.s.Home, "workspace")
	if i.s.Config != nil {
		now = i.s.Config.Workspace(i.s.Home)
	}
	f := &Field{
		Kind: Text, Title: "Workspace (optional)", Value: now, Check: required(func(dir string) error { return i.s.checkWorkspace(dir) }),
		Help: "The directory in which the agent's tools work.",
	}
	if err := i.a.Ask(ctx, Page{Fields: []*Field{f}}); err != nil {
		return err
	}
	if dir := strings.TrimSpace(f.Value); dir != now {
		i.answers.Workspace = &dir
	}
	return nil
}

func (s *State) checkWorkspace(dir string) error {
	if err := checkLine(dir); err != nil {
		return err
	}
	if info, err := os.Stat(config.InHome(s.Home, dir)); err == nil && !info.IsDir() {
		return errors.New("this is not a directory")
	}
	return nil
}

// required extends check to reject empty answers. Surrounding white space is
// ignored.
func required(check func(string) error) func(string) error {
	return func(s string) error {
		if s = strings.TrimSpace(s); s == "" {
			return errors.New("this is needed; Ctrl-C quits")
		}
		return check(s)
	}
}

// ErrAborted is returned when the user quits. Nothing is written then.
var ErrAborted = errors.New("left without writing anything")

// A Kind is the type of a field.
type Kind int

// Kinds of fields.
const (
	Select      Kind = iota // one of the options
	MultiSelect             // any of the options
	Text                    // a line
	Secret                  // a line without echo
)

// An Option is a choice of a Select or MultiSelect field.
type Option struct{ Value, Label string }

// A Field is one question. Value, or Values for a MultiSelect, holds the default and
// then the answer.
type Field struct {
	Kind        Kind
	Title, Help string
	Options     []Option
	Value       string
	Values      []string
	Check       func(string) error // validates a line; nil accepts anything
}

// A Page is a group of fields that are asked together.
type Page struct {
	Title, Text string
	Fields      []*Field
}

// An Asker asks the user.
type Asker interface {
	// Ask returns once every field is answered. It returns ErrAborted if the user quits
	// or the input ends.
	Ask(ctx context.Context, p Page) error
	// Say prints text that remains visible.
	Say(text string)
	// Wait shows what while do runs. It returns ErrAborted if the user quits.
	Wait(ctx context.Context, what string, do func(context.Context)) error
}

// selectOne asks for one of several options and returns its value.
func (i *interview) selectOne(ctx context.Context, title, text string, options ...Option) (string, error) {
	f := &Field{Kind: Select, Title: title, Options: options, Value: options[0].Value}
	err := i.a.Ask(ctx, Page{Text: text, Fields: []*Field{f}})
	return f.Value, err
}
