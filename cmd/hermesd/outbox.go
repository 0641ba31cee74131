package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/outbox"
)

func (c *cli) outboxCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "outbox", Short: "Show what waits to be delivered, try it again, give it up"})
	var all bool
	list := &cobra.Command{
		Use: "list", Short: "List what is not delivered, and why", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Outbox, error) {
				return client.Outbox(ctx, all)
			}, func(box admin.Outbox) string { return outboxText(box, time.Now()) })
		},
	}
	list.Flags().BoolVar(&all, "all", false, "also what was delivered and is still kept")
	cmd.AddCommand(list, c.showRowsCmd(),
		c.rowChangeCmd("retry ID...", "Try a message again now", (*admin.Client).Retry, "is tried again now", "is tried again when the daemon starts"),
		c.rowChangeCmd("drop ID...", "Give a message up", (*admin.Client).Drop, "is given up", "is given up"))
	return cmd
}

// each returns an operation of ask that calls do for each id, until one fails.
func each[T any](ids []string, do func(*admin.Client, context.Context, string) (T, error)) func(*admin.Client, context.Context) ([]T, error) {
	return func(client *admin.Client, ctx context.Context) ([]T, error) {
		var done []T
		for _, id := range ids {
			v, err := do(client, ctx, id)
			if err != nil {
				return nil, err
			}
			done = append(done, v)
		}
		return done, nil
	}
}

// rowChangeCmd returns a command that calls do for each row in its arguments.
func (c *cli) rowChangeCmd(use, short string, do func(*admin.Client, context.Context, string) (admin.RowChange, error), live, later string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args(1, 1000),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return ask(cmd.Context(), c, each(ids, do), func(done []admin.RowChange) string {
				var b strings.Builder
				for _, ch := range done {
					what := later
					if ch.DaemonRunning {
						what = live
					}
					fmt.Fprintf(&b, "%s %s.\n", ch.ID, what)
				}
				return b.String()
			})
		},
	}
}

func outboxText(box admin.Outbox, now time.Time) string {
	if len(box.Rows) == 0 {
		return "Nothing waits to be delivered.\n"
	}
	rows := make([][]string, len(box.Rows))
	for i, r := range box.Rows {
		due := "-"
		if !r.Terminal() && !r.NextAttempt.IsZero() {
			due = text.Ago(r.NextAttempt, now)
		}
		rows[i] = []string{
			r.ID.String(), string(r.State), r.Msg.To.String(), string(r.Role), strconv.Itoa(r.Attempts), text.Ago(r.Created, now), due,
			text.Cut(r.Reason, 50), text.Cut(r.Msg.Text.Text, 40),
		}
	}
	s := text.Table([]string{"ID", "STATE", "TO", "ROLE", "ATTEMPTS", "CREATED", "NEXT", "PROBLEM", "TEXT"}, rows)
	if box.Omitted > 0 {
		s += fmt.Sprintf("%s not shown.\n", text.Count(box.Omitted, "older message"))
	}
	return s
}

// showRowsCmd prints messages in full, so that an operator can read a dead letter
// before retrying or dropping it.
func (c *cli) showRowsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show ID...", Short: "Show messages in full: what they say, and what has become of them", Args: args(1, 1000),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return ask(cmd.Context(), c, each(ids, (*admin.Client).Row), func(rows []outbox.Row) string {
				shown := make([]string, len(rows))
				for i, r := range rows {
					shown[i] = rowText(r, time.Now())
				}
				return strings.Join(shown, "\n")
			})
		},
	}
}

func rowText(r outbox.Row, now time.Time) string {
	b := sheet{width: 9}
	b.line(r.ID.String(), "%s to %s: %s", r.Role, r.Msg.To, r.State)
	b.line("created", "%s, tried %s", text.Ago(r.Created, now), text.Count(r.Attempts, "time"))
	if !r.Terminal() && !r.NextAttempt.IsZero() {
		b.line("next", "%s", text.Ago(r.NextAttempt, now))
	}
	b.optional("problem", r.Reason)
	b.optional("turn", r.Turn)
	if r.Receipt != nil {
		b.line("receipt", "%s, %s", r.Receipt.ID, text.Ago(r.Settled, now))
	}
	if f := r.Msg.File; f != nil {
		b.line("file", "%s, %s, %s", f.Name, f.MIME, text.Bytes(f.Size))
	}
	for _, button := range slices.Concat(r.Msg.Buttons...) {
		b.line("button", "%s: %s", button.Label, button.Data)
	}
	switch said := text.Render(r.Msg.Text, text.Source, 0); {
	case said != "":
		b.WriteString("\n" + said + "\n")
	case r.RedactWhenDone:
		b.WriteString("\nWhat it said is deleted.\n")
	case r.Delete != 0:
		fmt.Fprintf(&b, "\nIt takes %s back.\n", r.Delete)
	}
	return b.String()
}
