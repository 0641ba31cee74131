package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/command"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// applySettings adds the session changes of a command to m, and returns an additional
// text for the user.
func (c *claim) applySettings(ctx context.Context, m *store.Finish, rec session.Record, res command.Result) (string, error) {
	if rec.ID == "" {
		s, err := c.runner.parts.Sessions.New(c.first(), "")
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
	var text string
	var err error
	m.Rebuild, text, err = c.rebuildPrompt(ctx, rec, res.Rebuild)
	return text, err
}

// rebuildPrompt builds the prompt of a session again; reason is that of the prefix break
// of the next call. It returns a text for the user.
func (c *claim) rebuildPrompt(ctx context.Context, rec session.Record, reason string) (*store.Rebuild, string, error) {
	old, err := store.LoadPrompt(ctx, c.runner.parts.Store, rec.ID)
	if err != nil {
		c.log.Error("cannot load old prompt", zap.Error(err))
	}
	next, notes := c.runner.parts.Sessions.Prefix(rec)
	r := &store.Rebuild{Session: rec.ID}
	switched := reason == string(ledger.ModelSwitch)
	if switched { // another model has none of the prefix cached, even with the same prompt
		r.Break = reason
	}
	if next.Hash() == old.Hash() && switched {
		return r, strings.Join(notes, "\n"), nil
	}
	if next.Hash() == old.Hash() {
		return r, strings.Join(append(notes, c.T("The prompt is the same as before; nothing is lost of the provider's cache.")), "\n"), nil
	}
	if r.Prompt, err = json.Marshal(next); err != nil {
		return nil, "", fmt.Errorf("encode prompt of %s: %w", rec.ID, err)
	}
	r.Break = cmp.Or(r.Break, rec.PendingBreak, reason)
	return r, strings.Join(append(notes, c.T("The prompt is built again: %s.", c.describeDifferences(old, next))), "\n"), nil
}

// describeDifferences returns a list of the layers and tools in which two prompts
// differ.
func (c *claim) describeDifferences(a, b prompt.Prefix) string {
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
			parts = append(parts, c.T("%s is new", l.Name))
		case text != l.Text:
			parts = append(parts, c.T("%s has changed", l.Name))
		}
	}
	for _, l := range a.Layers() {
		if _, has := after[l.Name]; !has {
			parts = append(parts, c.T("%s is gone", l.Name))
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
			parts = append(parts, c.T("the tool %s is new", n))
		}
	}
	for _, n := range oldTools {
		if !slices.Contains(newTools, n) {
			parts = append(parts, c.T("the tool %s is gone", n))
		}
	}
	if len(parts) == 0 {
		return c.T("the tools are described differently")
	}
	return strings.Join(parts, ", ")
}
