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
	"hermesd/gateway/store"
)

// applySettings adds the session changes of a command to m, and returns an additional
// text for the user.
func (t *turn) applySettings(ctx context.Context, m *inbox.Commit, rec session.Record, res command.Result) (string, error) {
	if rec.ID == "" {
		s, err := t.runner.parts.Sessions.New(t.first(), "")
		if err != nil {
			return "", err
		}
		if res.Settings != nil {
			s.Configure("", *res.Settings)
		}
		m.Create = s.Creation()
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
	return t.rebuildPrompt(ctx, m, res.Rebuild)
}

// rebuildPrompt builds the prompt of m's session again, and sets reason as the pending
// prefix break of its next call. It returns a text for the user.
func (t *turn) rebuildPrompt(ctx context.Context, m *inbox.Commit, reason string) (string, error) {
	old, err := store.LoadPrompt(ctx, t.runner.parts.Store, m.Session.ID)
	if err != nil {
		t.log.Error("cannot load old prompt", zap.Error(err))
	}
	next, notes := t.runner.parts.Sessions.Prefix(m.Session)
	switched := reason == string(ledger.ModelSwitch)
	if switched { // another model has none of the prefix cached, even with the same prompt
		m.Session.PendingBreak = reason
	}
	if next.Hash() == old.Hash() && switched {
		return strings.Join(notes, "\n"), nil
	}
	if next.Hash() == old.Hash() {
		return strings.Join(append(notes, t.T("The prompt is the same as before; nothing is lost of the provider's cache.")), "\n"), nil
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return "", fmt.Errorf("encode prompt of %s: %w", m.Session.ID, err)
	}
	m.Prompt = raw
	m.Session.Revision++
	if m.Session.PendingBreak == "" {
		m.Session.PendingBreak = reason
	}
	return strings.Join(append(notes, t.T("The prompt is built again: %s.", t.describeDifferences(old, next))), "\n"), nil
}

// describeDifferences returns a list of the layers and tools in which two prompts
// differ.
func (t *turn) describeDifferences(a, b prompt.Prefix) string {
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
	oldTools, newTools := names(a), names(b)
	for _, n := range newTools {
		if !slices.Contains(oldTools, n) {
			parts = append(parts, t.T("the tool %s is new", n))
		}
	}
	for _, n := range oldTools {
		if !slices.Contains(newTools, n) {
			parts = append(parts, t.T("the tool %s is gone", n))
		}
	}
	if len(parts) == 0 {
		return t.T("the tools are described differently")
	}
	return strings.Join(parts, ", ")
}
