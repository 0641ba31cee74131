package gateway

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
	"hermesd/agent/memory"
	"hermesd/agent/prompt"
	"hermesd/agent/skills"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// HomeInfo is what commands tell of the home and of prices. What is nil is said to
// be missing.
type HomeInfo struct {
	// Memories returns the memories of a session, and which of them are in use.
	Memories func(session.Record) (s *memory.Store, in []memory.Target)
	// Skills returns the skills as they are now, and the names of those that are
	// turned off.
	Skills func() (c *skills.Catalog, disabled []string)
	// Prices are those of models; nil: those that come with the program.
	Prices *pricing.Table
	// Caching says whether prompts are cached, in one line.
	Caching string
}

func (a HomeInfo) prices() *pricing.Table {
	if a.Prices == nil {
		return pricing.Builtin()
	}
	return a.Prices
}

// CallStats is what model calls came to since the start.
type CallStats struct {
	Calls  int `json:"calls"`
	Prompt int `json:"prompt_tokens"`
	Read   int `json:"cache_read_tokens"` // of Prompt
	Missed int `json:"missed_tokens"`     // should have been read from a cache
	Output int `json:"output_tokens"`
	// Percent is Read as a part of Prompt.
	Percent float64 `json:"percent"`
	// Paid is in dollars, without the calls of models whose price is Unknown.
	Paid    pricing.USD `json:"paid_usd"`
	Unknown []string    `json:"unknown_prices"`
}

func (g *Gateway) reuse() CallStats {
	var all ledger.Summary
	r := CallStats{Unknown: []string{}}
	spent := g.runner.UsageByModel()
	for _, model := range slices.Sorted(maps.Keys(spent)) {
		sum := spent[model]
		all.Calls, all.Missed, all.Usage = all.Calls+sum.Calls, all.Missed+sum.Missed, all.Usage.Add(sum.Usage)
		if p, ok := g.opts.HomeInfo.prices().Price(model); ok {
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

// frozen returns the prompt of a session.
func (e env) frozen(ctx context.Context, id session.ID) (p prompt.Prefix, err error) {
	raw, err := e.g.opts.Store.Prompt(ctx, id)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("prompt of %s: %w", id, err)
	}
	return p, nil
}

// calls returns the ledger of a session, as far as it is kept.
func (e env) calls(ctx context.Context, id session.ID) ([]ledger.Record, error) {
	rows, err := e.g.opts.Store.Calls(ctx, id, 0)
	if err != nil {
		return nil, fmt.Errorf("ledger of %s: %w", id, err)
	}
	records := make([]ledger.Record, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &records[i]); err != nil {
			return nil, fmt.Errorf("ledger of %s, call %d: %w", id, i+1, err)
		}
	}
	return records, nil
}

// Context implements command.Env.
func (e env) Context(ctx context.Context, c command.Call) (string, error) {
	p, err := e.frozen(ctx, c.Session.ID)
	if err != nil {
		return "", err
	}
	rows, err := e.g.opts.Store.Transcript(ctx, c.Session.ID, 0)
	if err != nil {
		return "", fmt.Errorf("transcript of %s: %w", c.Session.ID, err)
	}
	said := 0
	for i, row := range rows {
		var m llm.Message
		if err := json.Unmarshal(row, &m); err != nil {
			return "", fmt.Errorf("transcript of %s, message %d: %w", c.Session.ID, i, err)
		}
		said += tokens.Message(m)
	}
	var b strings.Builder
	window := e.window(c.Session)
	b.WriteString(c.T("**Context of this conversation**") + "\n\n")
	length := c.T("the length of its window is not known")
	if window > 0 {
		length = c.T("a window of %d tokens", window)
	}
	fmt.Fprintln(&b, c.T("- model: `%s`, %s", e.Model(c.Session), length))
	if n := c.Session.PromptTokens; n > 0 {
		fmt.Fprintln(&b, c.T("- last call: %d tokens%s", n, share(c.Printer, n, window)))
	}
	var layers []string
	told := 0
	for _, l := range p.Layers() {
		n := tokens.Text(l.Text)
		told += n
		layers = append(layers, fmt.Sprintf("%s %d", l.Name, n))
	}
	offered := tokens.Tools(p.Tools())
	fmt.Fprintln(&b, c.T("- prompt: about %d tokens (%s)", told, strings.Join(layers, ", ")))
	fmt.Fprintln(&b, c.T("- tools: %d, about %d tokens", len(p.Tools()), offered))
	fmt.Fprintln(&b, c.T("- messages: %d, about %d tokens", len(rows), said))
	fmt.Fprintln(&b, c.T("- together: about %d tokens%s", told+offered+said, share(c.Printer, told+offered+said, window)))
	if err := e.compactions(ctx, &b, c); err != nil {
		return "", err
	}
	if line := e.g.runner.CompactionStats().Describe(c.Printer); line != "" {
		fmt.Fprintln(&b, c.T("- of all conversations: %s", line))
	}
	return b.String(), nil
}

func share(p i18n.Printer, n, window int) string {
	if window <= 0 {
		return ""
	}
	return p.T(", %d %% of the window", n*100/window)
}

// window is how many tokens the model of a session takes; 0 if nobody knows.
func (e env) window(r session.Record) int {
	c, err := e.g.choose(r.Settings)
	if err == nil && c.Window > 0 {
		return c.Window
	}
	n, _ := tokens.Builtin().Context(e.Model(r))
	return n
}

// compactions adds what was archived of a session, and how the last compaction
// ended.
func (e env) compactions(ctx context.Context, b *strings.Builder, c command.Call) error {
	r := c.Session
	calls, err := e.calls(ctx, r.ID)
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
	build := e.g.opts.Compression.Engine
	if build == nil {
		fmt.Fprintln(b, c.T("- compression is switched off (`compression.enabled`)"))
		return nil
	}
	model, err := e.g.choose(r.Settings)
	if err != nil {
		return nil // /model says why
	}
	state, err := e.g.opts.Store.Engine(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("context engine of %s: %w", r.ID, err)
	}
	engine, err := build(r, model, state)
	if err != nil {
		return fmt.Errorf("context engine: %w", err)
	}
	if l, ok := engine.(agent.Lifecycle); ok {
		defer l.End()
	}
	s := engine.Status()
	if s.Threshold > 0 {
		fmt.Fprintln(b, c.T("- the next one comes at about %d tokens (%s)", s.Threshold, s.Engine))
	}
	if s.Last != "" {
		fmt.Fprintln(b, c.T("- the last one: %s", inline(s.Last)))
	}
	if s.Cooldown != "" {
		fmt.Fprintln(b, c.T("- automatic compression rests: %s", inline(s.Cooldown)))
	}
	return nil
}

// inline makes foreign text a line that cannot become markup.
func inline(s string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'") + "`"
}
