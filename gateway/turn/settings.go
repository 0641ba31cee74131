package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// choose returns the model that answers in a session, and why it is not the one
// that was chosen, if it is not.
func (r *Runner) choose(s session.Settings) (ModelChoice, error) {
	if r.opts.Choose == nil {
		return r.opts.Model, nil
	}
	c, err := r.opts.Choose(s)
	if err != nil {
		return r.opts.Model, err
	}
	return c, nil
}

// change puts into m what a command changes about the session of e, and returns
// what is to be said of it beside the command's own text.
func (t *turn) change(ctx context.Context, m *inbox.Commit, rec session.Record, res command.Result) (string, error) {
	if rec.ID == "" {
		s, err := t.runner.begin(t.first(), "")
		if err != nil {
			return "", err
		}
		if res.Settings != nil {
			s.created.Record.Settings = *res.Settings
		}
		m.Create = s.created
		return "", nil
	}
	if res.Settings != nil {
		rec.Settings = *res.Settings
		m.Settings = map[session.ID]session.Settings{rec.ID: rec.Settings}
	}
	if res.Rebuild == "" {
		return "", nil
	}
	m.Session = rec
	return t.rebuild(ctx, m, res.Rebuild)
}

// rebuild builds the prompt of m's session anew, and declares why the prefix of
// its next call differs.
func (t *turn) rebuild(ctx context.Context, m *inbox.Commit, why string) (string, error) {
	old, err := t.runner.prompt(ctx, m.Session.ID)
	if err != nil {
		t.log.Error("the old prompt", zap.Error(err))
	}
	next, notes := t.runner.opts.Prefix(m.Session)
	switched := why == string(ledger.ModelSwitch)
	if switched { // another model has nothing of it, whatever the prompt is
		m.Session.PendingBreak = why
	}
	if next.Hash() == old.Hash() && switched {
		return strings.Join(notes, "\n"), nil
	}
	if next.Hash() == old.Hash() {
		return strings.Join(append(notes, t.T("The prompt is the same as before; nothing is lost of the provider's cache.")), "\n"), nil
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return "", fmt.Errorf("prompt of %s: %w", m.Session.ID, err)
	}
	m.Prompt = raw
	m.Session.Revision++
	if m.Session.PendingBreak == "" {
		m.Session.PendingBreak = why
	}
	return strings.Join(append(notes, t.T("The prompt is built anew: %s.", t.differences(old, next))), "\n"), nil
}

// differences names the layers and tools in which two prompts differ.
func (t *turn) differences(a, b prompt.Prefix) string {
	layers := func(p prompt.Prefix) map[string]string {
		m := make(map[string]string)
		for _, l := range p.Layers() {
			m[l.Name] = l.Text
		}
		return m
	}
	var parts []string
	before, after := layers(a), layers(b)
	for _, l := range b.Layers() {
		switch text, had := before[l.Name]; {
		case !had:
			parts = append(parts, t.T("%s is new", l.Name))
		case text != l.Text:
			parts = append(parts, t.T("%s has changed", l.Name))
		}
	}
	for _, l := range a.Layers() {
		if _, has := after[l.Name]; !has {
			parts = append(parts, t.T("%s is gone", l.Name))
		}
	}
	names := func(p prompt.Prefix) (out []string) {
		for _, tool := range p.Tools() {
			out = append(out, tool.Name)
		}
		return out
	}
	was, is := names(a), names(b)
	for _, n := range is {
		if !slices.Contains(was, n) {
			parts = append(parts, t.T("the tool %s is new", n))
		}
	}
	for _, n := range was {
		if !slices.Contains(is, n) {
			parts = append(parts, t.T("the tool %s is gone", n))
		}
	}
	if len(parts) == 0 {
		return t.T("the tools are described anew")
	}
	return strings.Join(parts, ", ")
}
