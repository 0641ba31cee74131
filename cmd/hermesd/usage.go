package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
)

func (c *cli) usageCmd() *cobra.Command {
	var since, by string
	cmd := &cobra.Command{
		Use: "usage", Short: "Show tokens and costs, split into input, cache read, cache write and output", Args: args(0, 0),
		Long: `Show tokens and costs, split into input, cache read, cache write and output; what
the same calls would have cost without a cache, and the minimum: each token written
to the cache once and read from it afterwards.

Calls that make summaries for a compression are not counted but listed by
conversation, those of conversations that were deleted not at all. Models without a known price are named.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch by {
			case "session", "platform", "model":
			default:
				return &usageError{fmt.Sprintf("--by is %q; it must be session, platform or model", by)}
			}
			from, err := sinceWhen(since, time.Now())
			if err != nil {
				return &usageError{err.Error()}
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Usage, error) {
				return client.Usage(ctx, from, by)
			}, usageText)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only calls from then on: `7d`, 12h, or a date such as 2026-01-31")
	cmd.Flags().StringVar(&by, "by", "session", "one row for each `session`, platform or model")
	return cmd
}

// sinceWhen parses a duration before now (12h, 7d, 2w) or a date; "" is the zero
// time.
func sinceWhen(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{}, nil
	}
	wrong := fmt.Errorf("--since is %q; write a span such as 12h, 7d or 2w, or a date such as %s", s, now.Format(time.DateOnly))
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			k, err := strconv.Atoi(n)
			if err != nil || k < 0 || k > 10_000 {
				return time.Time{}, wrong
			}
			return now.AddDate(0, 0, -k*days), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return time.Time{}, wrong
	}
	return now.Add(-d), nil
}

func usageText(u admin.Usage) string {
	if len(u.Rows) == 0 {
		if u.Since.IsZero() {
			return "No model was called yet.\n"
		}
		return "No model was called since " + u.Since.Local().Format(time.DateTime) + ".\n"
	}
	rows := make([][]string, 0, len(u.Rows)+1)
	for _, s := range append(u.Rows, u.Total) {
		name := s.Name
		if s.Title != "" {
			name += " " + text.Cut(s.Title, 30)
		}
		n := strconv.Itoa
		rows = append(rows, []string{
			name, n(s.Calls), n(s.Usage.Input), n(s.Usage.CacheRead), n(s.Usage.CacheWrite), n(s.Usage.Output), fmt.Sprintf("%.0f %%", s.Reuse),
			money(s, s.Costs.Paid), money(s, s.Costs.Uncached), money(s, min(s.Costs.Floor, s.Costs.Paid)),
		})
	}
	out := text.Table([]string{strings.ToUpper(u.By), "CALLS", "INPUT", "READ", "WRITE", "OUTPUT", "REUSE", "COST", "COST WITHOUT CACHE", "MINIMUM"}, rows)
	if len(u.Compacted) > 0 {
		out += "\n" + compactedTable(u.Compacted)
	}
	t := u.Total
	if t.Unpriced < t.Calls {
		out += fmt.Sprintf("\nPaid %s: input %s, cache read %s, cache write %s, output %s.\n",
			t.Costs.Paid, t.Costs.Input, t.Costs.CacheRead, t.Costs.CacheWrite, t.Costs.Output)
		out += "Prices of " + text.Line(u.Prices) + ".\n"
	}
	if t.Unpriced > 0 {
		out += fmt.Sprintf("\nThe price of %s is not known: %d of %s %s in no cost.\n", text.Line(strings.Join(t.Unknown, ", ")), t.Unpriced, text.Count(t.Calls, "call"), text.Form(t.Unpriced, "is", "are"))
	}
	return out
}

// compactedTable lists the conversations that were compacted.
func compactedTable(all []admin.Compacted) string {
	rows := make([][]string, len(all))
	for i, c := range all {
		summaries := "unknown"
		if c.Summaries != nil {
			summaries = fmt.Sprintf("%d in, %d out", c.Summaries.Input, c.Summaries.Output)
		}
		rows[i] = []string{string(c.Session) + " " + text.Cut(c.Title, 30), strconv.Itoa(c.Context), strconv.Itoa(c.Compactions), strconv.Itoa(c.Archived), summaries}
	}
	return text.Table([]string{"SESSION", "CONTEXT", "COMPACTIONS", "ARCHIVED", "SUMMARY TOKENS"}, rows)
}

// money formats the cost of calls, marked if some are unknown.
func money(s admin.UsageRow, d pricing.USD) string {
	switch s.Unpriced {
	case 0:
		return d.String()
	case s.Calls:
		return "unknown"
	}
	return d.String() + " + unknown"
}
