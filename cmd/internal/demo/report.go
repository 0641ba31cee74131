package demo

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

var numbers = regexp.MustCompile(`#[0-9]+\b`)

// A result contains the results of a platform's simulator, in a form that all
// platforms share.
type result struct {
	ok                                                         bool
	wanted, answered, lost, doubled, disorder, strays, repeats int
	words                                                      string
}

// results evaluates the records of the simulators.
func (t *demoRun) results() map[chat.Platform]result {
	tokens := func(s string) []string { return numbers.FindAllString(s, -1) }
	a := telegram.Judge{Tokens: tokens}.Judge(t.Telegram)
	b := discord.Judge{Tokens: tokens}.Judge(t.discord)
	c := slack.Judge{Tokens: tokens}.Judge(t.slack)
	return map[chat.Platform]result{
		chat.Telegram: {a.OK(), a.Offered, a.Answered, len(a.Lost), len(a.Doubled), len(a.Disorder), len(a.Stray), len(a.Repeats), a.String()},
		chat.Discord:  {b.OK(), b.Offered, b.Answered, len(b.Lost), len(b.Doubled), len(b.Disorder), len(b.Stray), len(b.Repeats), b.String()},
		chat.Slack:    {c.OK(), len(c.Cases), len(c.Cases) - len(c.Lost), len(c.Lost), len(c.Doubled), len(c.Disorder), len(c.Stray), len(c.Repeats), c.String()},
	}
}

// showResults prints the results of the simulators and the figures of the daemon.
func (t *demoRun) showResults(ctx context.Context) error {
	t.heading("Result, by the records of the simulators")
	vs := t.results()
	row := func(name string, cell func(result) string) []string {
		cells := []string{name}
		for _, r := range t.conversations {
			cells = append(cells, cell(vs[r.platform()]))
		}
		return cells
	}
	count := func(n func(result) int) func(result) string {
		return func(v result) string { return fmt.Sprint(n(v)) }
	}
	none := func(n func(result) int) func(result) string {
		return func(v result) string {
			if n(v) > 0 {
				return bad.Render(fmt.Sprint(n(v)))
			}
			return "0"
		}
	}
	t.table(t.conversations, [][]string{
		row("messages that want an answer", count(func(v result) int { return v.wanted })),
		row("answered", count(func(v result) int { return v.answered })),
		row("lost", none(func(v result) int { return v.lost })),
		row("doubled", none(func(v result) int { return v.doubled })),
		row("out of order", none(func(v result) int { return v.disorder })),
		row("in the wrong place", none(func(v result) int { return v.strays })),
		row("marked “(may be a repeat)”", count(func(v result) int { return v.repeats })),
		row("verdict", func(v result) string {
			if v.ok && v.wanted > 0 {
				return good.Render("✓ all held")
			}
			return bad.Render("✗ broken")
		}),
	})
	if err := t.addBreaks(ctx); err != nil {
		return err
	}
	if err := checkGuarantees(vs, t.breaks); err != nil {
		return err
	}
	if err := t.prefixes(ctx); err != nil {
		return err
	}
	t.paragraph("\nEverything was answered exactly once and in order. `%s chat` talks to it in this terminal.", t.o.Command)
	return nil
}

// checkGuarantees returns an error if a delivery guarantee was broken.
func checkGuarantees(vs map[chat.Platform]result, breaks map[string]int) error {
	for _, p := range slices.Sorted(maps.Keys(vs)) {
		switch v := vs[p]; {
		case !v.ok:
			return fmt.Errorf("%s simulator reports: %s", p, v.words)
		case v.wanted == 0:
			return fmt.Errorf("no message was sent on %s", p)
		}
	}
	if n := breaks[string(ledger.Undeclared)]; n > 0 {
		return fmt.Errorf("%d undeclared prefix breaks", n)
	}
	return nil
}

// addBreaks adds the prefix breaks of the current run of the daemon to those of the
// earlier runs.
func (t *demoRun) addBreaks(ctx context.Context) error {
	s, err := t.status(ctx)
	for reason, n := range s.Breaks {
		t.breaks[reason] += n
	}
	return err
}

// prefixes prints how much of the prompts came from the model's cache.
func (t *demoRun) prefixes(ctx context.Context) error {
	var sum llm.Usage
	err := t.daemon(ctx, func(c *admin.Client) error {
		recs, err := c.Sessions(ctx, 100)
		for _, r := range recs {
			if r.Usage != nil {
				sum = sum.Add(*r.Usage)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	t.print("")
	t.print(indent("  ", plain, fmt.Sprintf("Prefix reuse: %d %% of %d prompt tokens came from the model's cache, although kill -9 has emptied it: it is a part of the demo model. "+
		"Prefixes that broke: %s; none without a reason.", 100*sum.CacheRead/max(1, sum.Prompt()), sum.Prompt(), formatCounts(t.breaks)), t.width))
	return nil
}

// formatCounts formats counts, sorted by reason.
func formatCounts(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], strings.ReplaceAll(k, "_", " ")))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
