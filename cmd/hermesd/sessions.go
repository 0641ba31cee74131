package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/agent/llm"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/session"
)

func (c *cli) sessionsCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "sessions", Short: "Show, name, write down and delete stored conversations"})
	var most int
	list := &cobra.Command{
		Use: "list", Short: "List conversations, newest first", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 || most > 1000 {
				return &usageError{fmt.Sprintf("--limit is %d; it must be from 1 to 1000", most)}
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) ([]session.Record, error) {
				return client.Sessions(ctx, most)
			}, func(all []session.Record) string { return sessionsText(all, time.Now()) })
		},
	}
	list.Flags().IntVar(&most, "limit", 50, "how many, from 1 to 1000")
	cmd.AddCommand(list, c.sessionCmd(), c.searchCmd(), c.renameCmd(), c.exportCmd(), c.deleteCmd(), c.pruneCmd())
	return cmd
}

func (c *cli) searchCmd() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "search QUERY", Short: "Find messages of all conversations, archived ones included", Args: args(1, 100),
		Long: `Find messages of all conversations, archived ones included.

All words must be there; "a phrase", a OR b, NOT a and begin* are understood. If
nothing has all of it, what has any of it is shown.`,
		RunE: func(cmd *cobra.Command, words []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) ([]admin.Found, error) {
				return client.Search(ctx, strings.Join(words, " "), most)
			}, func(found []admin.Found) string { return foundText(found, time.Now()) })
		},
	}
	cmd.Flags().IntVar(&most, "limit", 20, "how many, from 1 to 200")
	return cmd
}

func foundText(found []admin.Found, now time.Time) string {
	if len(found) == 0 {
		return "Nothing was found.\n"
	}
	rows := make([][]string, len(found))
	for i, f := range found {
		rows[i] = []string{string(f.Session), strconv.Itoa(f.Row), f.Role, text.Ago(f.Time, now), text.Cut(f.Text, 80)}
	}
	return text.Table([]string{"SESSION", "MESSAGE", "ROLE", "TIME", "TEXT"}, rows)
}

func sessionsText(all []session.Record, now time.Time) string {
	if len(all) == 0 {
		return "There are no conversations yet.\n"
	}
	rows := make([][]string, len(all))
	for i, r := range all {
		rows[i] = []string{
			string(r.ID), r.Address.String(), text.Cut(cmp.Or(r.Title, r.Name), 40), strconv.Itoa(r.Messages), strconv.Itoa(r.Turns), text.Ago(r.Updated, now),
		}
	}
	return text.Table([]string{"ID", "ADDRESS", "NAME", "MESSAGES", "TURNS", "LAST USED"}, rows)
}

func (c *cli) sessionCmd() *cobra.Command {
	var from int
	var full, all bool
	cmd := &cobra.Command{
		Use: "show SESSION", Short: "Show a conversation: its record, its prompt by layer, its messages", Args: args(1, 1),
		Long: `Show a conversation: its record, its prompt by layer, its messages.

SESSION is a session's id, or a beginning or an end of it that only one session
has, its title, or the name that the list shows.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from < 0 {
				return &usageError{"--from cannot be less than 0"}
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Session, error) {
				return client.Session(ctx, args[0], from, all)
			}, func(s admin.Session) string { return sessionText(s, full) })
		},
	}
	cmd.Flags().IntVar(&from, "from", 0, "begin with this message; the first is 0")
	cmd.Flags().BoolVar(&full, "prompt", false, "print the prompt's text too")
	cmd.Flags().BoolVar(&all, "all", false, "with the messages that compactions have archived")
	return cmd
}

func sessionText(s admin.Session, full bool) string {
	b := sheet{width: 10}
	r := s.Record
	b.line("session", "%s", r.ID)
	b.line("key", "%s", r.Key)
	b.line("address", "%s", r.Address)
	b.optional("title", r.Title)
	b.line("created", "%s", r.Created.Local().Format(time.DateTime))
	b.line("last used", "%s", r.Updated.Local().Format(time.DateTime))
	b.line("size", "%s, %d archived, %s", text.Count(r.Messages, "message"), r.Archived(), text.Count(r.Turns, "turn"))
	if u := r.Usage; u != nil {
		b.line("tokens", "%d in, %d cached, %d out", u.Input+u.CacheWrite, u.CacheRead, u.Output)
	}
	b.line("prompt", "%.16s", s.Hash)
	for _, l := range s.Prompt {
		b.line("", "%s, %s", l.Name, text.Count(len([]rune(l.Text)), "character"))
		if full {
			b.WriteString(indent(text.Clean(l.Text)))
		}
	}
	if len(s.Tools) > 0 {
		b.line("tools", "%s", strings.Join(s.Tools, ", "))
	}
	b.WriteString("\n")
	total := r.Messages
	for i, m := range s.Messages {
		name := strconv.Itoa(s.From + i)
		if len(s.Rows) > 0 {
			total = r.Messages + r.Archived()
			if name = strconv.Itoa(s.Rows[i]); s.Rows[i] < r.Start {
				name += " archived"
			}
		}
		fmt.Fprintf(&b, "%s %s\n%s", name, m.Role, indent(messageText(m)))
	}
	if end := s.From + len(s.Messages); end < total && len(s.Messages) > 0 {
		fmt.Fprintf(&b, "%d more: --from %d\n", total-end, end)
	}
	return b.String()
}

// messageText returns the text of a message, with its tool calls and results.
func messageText(m llm.Message) string {
	var parts []string
	for _, bl := range m.Blocks {
		switch bl.Type {
		case llm.Text:
			parts = append(parts, bl.Text)
		case llm.ToolUse:
			parts = append(parts, "[calls "+bl.Name+" "+string(bl.Input)+"]")
		case llm.ToolResult:
			state := "result"
			if bl.Failed {
				state = "failed"
			}
			parts = append(parts, "["+state+"] "+bl.Text)
		case llm.Image:
			parts = append(parts, "[image "+bl.MIME+"]")
		case llm.Thinking: // never shown
		}
	}
	return text.Clean(strings.Join(parts, "\n"))
}

func indent(s string) string {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
}
