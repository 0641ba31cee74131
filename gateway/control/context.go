package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// CallStats sums up the model calls since the start of the daemon.
type CallStats struct {
	Calls  int `json:"calls"`
	Prompt int `json:"prompt_tokens"`
	Read   int `json:"cache_read_tokens"` // of Prompt
	Missed int `json:"missed_tokens"`     // should have been read from a cache
	Output int `json:"output_tokens"`
	// Percent is the share of Read in Prompt, 0 to 100.
	Percent float64 `json:"percent"`
	// Paid is in US dollars, without the calls of the models in Unknown, whose price is
	// not known.
	Paid    pricing.USD `json:"paid_usd"`
	Unknown []string    `json:"unknown_prices"`
}

// callStats returns the sum of all calls.
func (ctl *Control) callStats() CallStats {
	var all ledger.Summary
	r := CallStats{Unknown: []string{}}
	usage := ctl.parts.Runtime.Usage.ByModel()
	for _, model := range slices.Sorted(maps.Keys(usage)) {
		sum := usage[model]
		all.Calls, all.Missed, all.Usage = all.Calls+sum.Calls, all.Missed+sum.Missed, all.Usage.Add(sum.Usage)
		if p, ok := ctl.parts.Options.Prices.Price(model); ok {
			r.Paid += p.Cost(sum.Usage)
		} else {
			if provider, name, _ := strings.Cut(model, "/"); provider == name {
				model = name
			}
			r.Unknown = append(r.Unknown, model)
		}
	}
	r.Calls, r.Missed, r.Percent = all.Calls, all.Missed, all.Reuse()
	r.Prompt, r.Read, r.Output = all.Usage.Prompt(), all.Usage.CacheRead, all.Usage.Output
	return r
}

// loadPrompt loads the frozen prompt of a session.
func (ctl *Control) loadPrompt(ctx context.Context, id session.ID) (p prompt.Prefix, err error) {
	raw, err := ctl.parts.Store.Prompt(ctx, id)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("load prompt of %s: %w", id, err)
	}
	return p, nil
}

// loadCalls loads the ledger of a session, as far as it is still stored.
func (ctl *Control) loadCalls(ctx context.Context, id session.ID) ([]ledger.Record, error) {
	rows, err := ctl.parts.Store.Calls(ctx, id, 0)
	if err != nil {
		return nil, fmt.Errorf("load ledger of %s: %w", id, err)
	}
	records := make([]ledger.Record, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &records[i]); err != nil {
			return nil, fmt.Errorf("decode ledger of %s, call %d: %w", id, i+1, err)
		}
	}
	return records, nil
}

// describeContext describes what fills the context of the model.
func (ctl *Control) describeContext(ctx context.Context, c command.Call) (string, error) {
	if c.Session.ID == "" {
		return c.T(noSessionYet), nil
	}
	p, err := ctl.loadPrompt(ctx, c.Session.ID)
	if err != nil {
		return "", err
	}
	rows, err := ctl.parts.Store.Rows(ctx, c.Session.ID, c.Session.Active())
	if err != nil {
		return "", fmt.Errorf("load transcript of %s: %w", c.Session.ID, err)
	}
	messageTokens := 0
	for i, row := range rows {
		var m llm.Message
		if err := json.Unmarshal(row, &m); err != nil {
			return "", fmt.Errorf("decode transcript of %s, message %d: %w", c.Session.ID, i, err)
		}
		messageTokens += tokens.Message(m)
	}
	var b strings.Builder
	window := ctl.contextLength(c.Session)
	b.WriteString(c.T("**Context of this conversation**") + "\n\n")
	length := c.T("the length of its window is not known")
	if window > 0 {
		length = c.T("a window of %d tokens", window)
	}
	fmt.Fprintln(&b, c.T("- model: `%s`, %s", ctl.parts.Models.Name(c.Session.Settings), length))
	if n := c.Session.PromptTokens; n > 0 {
		fmt.Fprintln(&b, c.T("- last call: %d tokens%s", n, formatShare(c.Printer, n, window)))
	}
	var layers []string
	promptTokens := 0
	for _, l := range p.Layers() {
		n := tokens.Text(l.Text)
		promptTokens += n
		layers = append(layers, fmt.Sprintf("%s %d", l.Name, n))
	}
	toolTokens := tokens.Tools(p.Tools())
	fmt.Fprintln(&b, c.T("- prompt: about %d tokens (%s)", promptTokens, strings.Join(layers, ", ")))
	fmt.Fprintln(&b, c.T("- tools: %d, about %d tokens", len(p.Tools()), toolTokens))
	fmt.Fprintln(&b, c.T("- messages: %d, about %d tokens", len(rows), messageTokens))
	total := promptTokens + toolTokens + messageTokens
	fmt.Fprintln(&b, c.T("- together: about %d tokens%s", total, formatShare(c.Printer, total, window)))
	if err := ctl.writeCompactions(ctx, &b, c); err != nil {
		return "", err
	}
	if line := ctl.parts.Runtime.Turns.Compactions().Describe(c.Printer); line != "" {
		fmt.Fprintln(&b, c.T("- of all conversations: %s", line))
	}
	return b.String(), nil
}

func formatShare(p i18n.Printer, n, window int) string {
	if window <= 0 {
		return ""
	}
	return p.T(", %d %% of the window", n*100/window)
}

// contextLength returns the context length of the model of a session; 0 if unknown.
func (ctl *Control) contextLength(r session.Record) int {
	c, err := ctl.parts.Models.Choose(r.Settings)
	if err == nil && c.Window > 0 {
		return c.Window
	}
	n, _ := tokens.Builtin().Context(ctl.parts.Models.Name(r.Settings))
	return n
}

// writeCompactions writes the number of compactions and archived messages of a session,
// the next threshold and the result of the last compaction.
func (ctl *Control) writeCompactions(ctx context.Context, b *strings.Builder, c command.Call) error {
	r := c.Session
	calls, err := ctl.loadCalls(ctx, r.ID)
	if err != nil {
		return err
	}
	n := 0
	for _, call := range calls {
		if call.Break == ledger.Compression || call.Break == ledger.Hygiene {
			n++
		}
	}
	switch {
	case n == 0 && r.Archived() == 0:
		fmt.Fprintln(b, c.T("- compactions: none yet"))
	default:
		fmt.Fprintln(b, c.T("- compactions: %d, %d messages are archived and can still be found", n, r.Archived()))
	}
	build := ctl.parts.Options.Engine
	if build == nil {
		fmt.Fprintln(b, c.T("- compression is switched off (`compression.enabled`)"))
		return nil
	}
	model, err := ctl.parts.Models.Choose(r.Settings)
	if err != nil {
		return nil // /model reports the error
	}
	state, err := ctl.parts.Store.Engine(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("load context engine of %s: %w", r.ID, err)
	}
	engine, err := build(r, model, state)
	if err != nil {
		return fmt.Errorf("create context engine: %w", err)
	}
	if l, ok := engine.(agent.Lifecycle); ok {
		defer l.End()
	}
	s := engine.Status()
	if s.Threshold > 0 {
		fmt.Fprintln(b, c.T("- the next one comes at about %d tokens (%s)", s.Threshold, s.Engine))
	}
	if s.Last != "" {
		fmt.Fprintln(b, c.T("- the last one: %s", inlineCode(s.Last)))
	}
	if s.Cooldown != "" {
		fmt.Fprintln(b, c.T("- automatic compression rests: %s", inlineCode(s.Cooldown)))
	}
	return nil
}

// inlineCode renders untrusted text as one line of inline code, so that it cannot become
// markup.
func inlineCode(s string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'") + "`"
}
