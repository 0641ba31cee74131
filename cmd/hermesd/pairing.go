package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
	"hermesd/gateway/outbox"
	"hermesd/storage/bolt"
)

func (c *cli) pairingCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "pairing", Short: "Manage access requests from users who are not on an allowlist"})
	cmd.Long = `Manage access requests from users who are not on an allowlist.

Somebody unknown who writes to the bot directly is told a code, which holds for an
hour. They give it to you, by another way, and you approve it. Five wrong codes in
a row lock the platform for an hour.`
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List who is paired and who waits for approval", Args: args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return ask(cmd.Context(), c, (*admin.Client).Pairings, func(l pairing.List) string { return pairingText(l, time.Now()) })
			},
		},
		c.approveCmd(),
		&cobra.Command{
			Use: "revoke PLATFORM ID", Short: "Revoke the access of an approved user", Args: args(2, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (pairing.Person, error) {
					return client.Revoke(ctx, args[0], args[1])
				}, func(p pairing.Person) string { return named(p) + " is no longer paired.\n" })
			},
		},
		&cobra.Command{
			Use: "clear-pending", Short: "Invalidate all pending pairing codes", Args: args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return ask(cmd.Context(), c, (*admin.Client).ClearPending, func(gone []pairing.Person) string {
					return text.Count(len(gone), "code") + text.Form(len(gone), " was out; it is", " were out; they are") + " worthless now.\n"
				})
			},
		},
	)
	return cmd
}

func (c *cli) approveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "approve PLATFORM CODE", Short: "Let in the person who was told CODE", Args: args(2, 9),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Approved, error) {
				return client.Approve(ctx, args[0], strings.Join(args[1:], ""))
			}, func(p admin.Approved) string {
				s := named(p.Person) + " is paired, as a member.\n"
				if !p.Notified {
					s += "The person could not be told; the log says why.\n"
				}
				return s
			})
		},
	}
}

func named(p pairing.Person) string {
	s := string(p.Platform) + ":" + text.Line(p.ID)
	if p.Name != "" {
		s += " (" + text.Line(p.Name) + ")"
	}
	return s
}

func pairingText(l pairing.List, now time.Time) string {
	var b strings.Builder
	if len(l.Pending)+len(l.Paired) == 0 {
		b.WriteString("Nobody is paired, and nobody waits.\n")
	} else {
		var rows [][]string
		for state, people := range map[string][]pairing.Person{"waits": l.Pending, "paired": l.Paired} {
			for _, p := range people {
				rows = append(rows, []string{state, string(p.Platform), text.Line(p.ID), text.Cut(p.Name, 40), text.Ago(p.At, now)})
			}
		}
		slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(b[0], a[0]) }) // pending requests first
		b.WriteString(text.Table([]string{"STATE", "PLATFORM", "ID", "NAME", "SINCE"}, rows))
	}
	for _, p := range slices.Sorted(maps.Keys(l.Locked)) {
		fmt.Fprintf(&b, "%s is locked until %s: too many wrong codes were entered.\n", p, l.Locked[p].Local().Format(time.DateTime))
	}
	return b.String()
}

// later delays the delivery of a stored message so that not this process, which
// ends soon, but the next daemon sends it.
const later = 2 * time.Second

// tellLater returns a function that stores a message for the next daemon to send.
func tellLater(store *bolt.Store) func(context.Context, chat.Address, string) error {
	return func(ctx context.Context, to chat.Address, say string) error {
		row := outbox.Row{Role: outbox.Notice, Msg: chat.Outbound{To: to, Text: markup.Parse(say)}, NextAttempt: time.Now().Add(later)}
		_, err := store.Enqueue(ctx, []outbox.Row{row})
		return err
	}
}
