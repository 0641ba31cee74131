package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/agent/llm/ledger"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/control"
	"hermesd/gateway/store"
)

func (c *cli) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the live state of the running daemon", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				s, err := client.Status(cmd.Context())
				if err != nil {
					return err
				}
				return c.show(s, func() string { return statusText(s, time.Now()) })
			})
		},
	}
}

func statusText(s admin.Status, now time.Time) string {
	b := sheet{width: 10}
	b.line("daemon", "hermesd %s, process %d, up %s", s.Version, s.PID, text.Span(now.Sub(s.Started)))
	b.line("home", "%s", s.Home)
	b.optional("workspace", s.Workspace)
	agentLines(&b, s)
	b.line("turns", "%d running, %d waiting for their turn", s.TurnsRunning, s.TurnsQueued)
	b.line("inbox", "%d accepted since the start, %d wait, %d are worked on", s.Store.Accepted, s.Store.Waiting, s.Store.Claimed)
	b.line("outbox", "%d to be delivered, %d given up", s.Store.Outbox, s.Store.Dead)
	b.line("store", "%s, %s in %s", text.Bytes(s.Store.Bytes), text.Count(int(s.Store.Writes), "write"), text.Count(int(s.Store.Commits), "commit"))
	b.line("terminals", "%d attached", s.Terminals)
	if s.Caching != "" {
		b.line("caching", "%s", strings.Replace(s.Caching, "Prompt caching: ", "", 1))
	}
	b.line("reuse", "%s", reuseLine(s.CallStats))
	b.optional("breaks", breaksLine(s.Breaks))
	if counts := s.BackgroundCompactions.String(); counts != "" {
		if s.BackgroundCompactions.Last != "made" && s.BackgroundCompactions.Last != "" {
			counts += "; the last one: " + s.BackgroundCompactions.Last
		}
		b.line("hygiene", "%s", counts)
	}
	if m := s.Memory; m != nil {
		b.line("memory", "%s", memoryLine(*m))
	}
	if f := s.Fallbacks; f.Count > 0 {
		b.line("fallback", "%s answered %s (%s); %s since the start that another model did", f.Model, text.Ago(f.At, now), f.Reason, text.Count(f.Count, "time"))
	}
	if n := s.Breaks[string(ledger.Undeclared)]; n > 0 {
		b.line("PROBLEM", "%s (a bug in hermesd); `hermesd prompt trace SESSION` shows where", text.Count(n, "undeclared prefix break"))
	}
	if s.Store.Error != "" {
		b.line("PROBLEM", "the store cannot be written: %s", s.Store.Error)
		b.line("", "nothing new is taken in meanwhile; `hermesd doctor` looks at the disk, and when it takes writes again the daemon goes on by itself")
	}
	if s.Config.Problem != "" {
		b.line("PROBLEM", "the configuration as it is now is not taken, the one before is in effect: %s", s.Config.Problem)
	}
	if len(s.Config.PendingRestart) > 0 {
		b.line("restart", "needed for changed settings: %s", strings.Join(s.Config.PendingRestart, ", "))
	}
	if s.Store.Outbox+s.Store.Dead > 0 {
		b.line("", "`hermesd outbox list` shows what is not delivered")
	}
	rows := make([][]string, len(s.Accounts))
	for i, a := range s.Accounts {
		rows[i] = []string{string(a.Platform), a.Account.Name, string(a.State), text.Ago(a.Since, now), text.Ago(a.LastContact, now), a.Health.Name, a.Error}
	}
	b.WriteString("\n" + text.Table([]string{"PLATFORM", "ACCOUNT", "STATE", "SINCE", "LAST CONTACT", "NAME", "PROBLEM"}, rows))
	return b.String()
}

// agentLines writes the lines about the model and what it may use.
func agentLines(b *sheet, s admin.Status) {
	b.line("model", "%s", s.Model)
	if s.Toolset.Name != "" {
		b.line("tools", "%s", s.Toolset)
	}
	if s.Sandbox.Mode != "" {
		b.line("sandbox", "%s", s.Sandbox.Describe())
	}
}

// reuseLine returns the share of prompt tokens since the start that came from the
// cache, and the costs.
func reuseLine(r control.CallStats) string {
	if r.Calls == 0 {
		return "no model was called since the start"
	}
	s := fmt.Sprintf("%.0f %% of %d tokens in %s since the start came from the provider's cache", r.Percent, r.Prompt, text.Count(r.Calls, "call"))
	if r.Missed > 0 {
		s += fmt.Sprintf(", %d more should have", r.Missed)
	}
	if r.Paid > 0 {
		s += "; paid " + r.Paid.String()
	}
	if len(r.Unknown) > 0 {
		s += "; the price of " + strings.Join(r.Unknown, ", ") + " is not known"
	}
	return s
}

// breaksLine lists the declared prefix breaks by reason, except new sessions.
func breaksLine(breaks map[string]int) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(breaks)) {
		if why != string(ledger.NewSession) && why != string(ledger.Undeclared) {
			parts = append(parts, fmt.Sprintf("%s %d", why, breaks[why]))
		}
	}
	return strings.Join(parts, ", ")
}

func (c *cli) whyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Tell what became of a message, by its id on the platform, ours (m12, o7), or the ref of an error", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) ([]store.MessageHistory, error) {
				return client.Why(ctx, args[0])
			}, func(chains []store.MessageHistory) string {
				stories := make([]string, len(chains))
				for i, ch := range chains {
					stories[i] = text.Clean(control.FormatHistory(ch))
				}
				return strings.Join(stories, "\n")
			})
		},
	}
}

func (c *cli) metricsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "metrics", Short: "Print what the daemon counts, in the text format of Prometheus", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				text, err := client.Metrics(cmd.Context())
				if err != nil {
					return err
				}
				return c.print(text)
			})
		},
	}
}

func (c *cli) reloadCmd() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Reload the configuration; list the changes applied and those that need a restart", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				done, err := client.Reload(cmd.Context())
				if err != nil {
					return err
				}
				if done.Problem != "" {
					c.printErrors(errors.New(done.Problem))
					c.printNote("the configuration that was read before stays in effect")
					return &exitError{exitConfig}
				}
				return c.show(done, func() string { return reloadText(done) })
			})
		},
	}
}

func reloadText(s admin.Config) string {
	if len(s.Applied)+len(s.PendingRestart) == 0 {
		return "The configuration is what it was when the daemon started.\n"
	}
	out := ""
	if len(s.Applied) > 0 {
		out += "In effect: " + strings.Join(s.Applied, ", ") + ".\n"
	}
	if len(s.PendingRestart) > 0 {
		out += "After a restart: " + strings.Join(s.PendingRestart, ", ") + ".\n"
	}
	return out
}
