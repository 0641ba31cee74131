package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermesd/agent"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/tokens"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
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

// describeContext describes what fills the context of the model.
func (ctl *Control) describeContext(ctx context.Context, c command.Call) (string, error) {
	if c.Session.ID == "" {
		return c.T(noSessionYet), nil
	}
	p, err := store.LoadPrompt(ctx, ctl.parts.Store, c.Session.ID)
	if err != nil {
		return "", err
	}
	messages, err := store.LoadMessages(ctx, ctl.parts.Store, c.Session.ID, c.Session.Active())
	if err != nil {
		return "", err
	}
	messageTokens := 0
	for _, m := range messages {
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
	fmt.Fprintln(&b, c.T("- messages: %d, about %d tokens", len(messages), messageTokens))
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
	calls, err := store.LoadCalls(ctx, ctl.parts.Store, r.ID, 0)
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
	if !ctl.parts.Options.Compression.Enabled {
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
	engine, err := ctl.parts.Options.Compression.Engine(r, model, state)
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
