package conversation

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
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Rebuild builds the prompt of a session again; reason is that of the prefix break
// of the next call. It returns a text for the user.
func (b *Book) Rebuild(ctx context.Context, rec session.Record, reason string) (*store.Rebuild, string, error) {
	old, err := store.LoadPrompt(ctx, b.Store, rec.ID)
	if err != nil {
		b.Options.Log.Error("cannot load old prompt", zap.Error(err))
	}
	next, notes := b.Prefix(rec)
	r := &store.Rebuild{Session: rec.ID}
	switched := reason == string(ledger.ModelSwitch)
	if switched { // another model has none of the prefix cached, even with the same prompt
		r.Break = reason
	}
	if next.Hash() == old.Hash() && switched {
		return r, strings.Join(notes, "\n"), nil
	}
	if next.Hash() == old.Hash() {
		return r, strings.Join(append(notes, b.Options.Printer.T("The prompt is the same as before; nothing is lost of the provider's cache.")), "\n"), nil
	}
	if r.Prompt, err = json.Marshal(next); err != nil {
		return nil, "", fmt.Errorf("encode prompt of %s: %w", rec.ID, err)
	}
	r.Break = cmp.Or(r.Break, rec.PendingBreak, reason)
	return r, strings.Join(append(notes, b.Options.Printer.T("The prompt is built again: %s.", b.describeDifferences(old, next))), "\n"), nil
}

// describeDifferences returns a list of the layers and tools in which two prompts
// differ.
func (b *Book) describeDifferences(old, next prompt.Prefix) string {
	layers := func(p prompt.Prefix) map[string]string {
		m := make(map[string]string)
		for _, l := range p.Layers() {
			m[l.Name] = l.Text
		}
		return m
	}
	var parts []string
	before, after := layers(old), layers(next)
	for _, l := range next.Layers() {
		switch text, had := before[l.Name]; {
		case !had:
			parts = append(parts, b.Options.Printer.T("%s is new", l.Name))
		case text != l.Text:
			parts = append(parts, b.Options.Printer.T("%s has changed", l.Name))
		}
	}
	for _, l := range old.Layers() {
		if _, has := after[l.Name]; !has {
			parts = append(parts, b.Options.Printer.T("%s is gone", l.Name))
		}
	}
	names := func(p prompt.Prefix) (out []string) {
		for _, tool := range p.Tools() {
			out = append(out, tool.Name)
		}
		return out
	}
	oldTools, newTools := names(old), names(next)
	for _, n := range newTools {
		if !slices.Contains(oldTools, n) {
			parts = append(parts, b.Options.Printer.T("the tool %s is new", n))
		}
	}
	for _, n := range oldTools {
		if !slices.Contains(newTools, n) {
			parts = append(parts, b.Options.Printer.T("the tool %s is gone", n))
		}
	}
	if len(parts) == 0 {
		return b.Options.Printer.T("the tools are described differently")
	}
	return strings.Join(parts, ", ")
}
