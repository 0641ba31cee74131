package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup/yamledit"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/memory"
	"hermesd/internal/atomicfile"
)

// memoryLine describes the external memory in one line.
func memoryLine(s memory.Status) string {
	line := s.Provider
	if s.Mode != "" {
		line += " (" + s.Mode + ")"
	}
	if s.Place != "" {
		line += ", " + s.Place
	}
	if !s.Up {
		line += "; it does not answer: " + errorOf(s)
	}
	if n := s.Queue.Waiting; n > 0 {
		line += fmt.Sprintf("; %s waiting, the oldest for %s", text.Count(n, "event"), text.Span(time.Duration(s.Queue.Oldest)*time.Second))
	}
	if n := s.Queue.Aside; n > 0 {
		line += fmt.Sprintf("; %s set aside, see `hermesd memory queue`", text.Count(n, "event"))
	}
	return line
}

// errorOf returns the last error of a provider that does not answer.
func errorOf(s memory.Status) string {
	if s.Recall.LastError != "" {
		return s.Recall.LastError
	}
	return s.Sync.LastError
}

func memoryStatusText(s memory.Status, now time.Time) string {
	if s.Provider == "" {
		return "There is no external memory; `hermesd memory setup` configures one.\n"
	}
	b := sheet{width: 9}
	b.line("provider", "%s", s.Provider)
	b.optional("mode", s.Mode)
	b.optional("place", s.Place)
	b.optional("owner", s.Identity)
	if len(s.Earlier) > 0 {
		b.line("earlier", "%s: what owners said before they were owners; `hermesd memory forget --person NAME` deletes it there", strings.Join(s.Earlier, ", "))
	}
	b.optional("version", s.Version)
	b.optional("detail", s.Detail)
	state := "answers"
	if !s.Up {
		state = "does not answer"
	}
	if s.Breaker != "closed" {
		state += "; calls are held back (" + s.Breaker + ")"
	}
	b.line("state", "%s", state)
	side := func(name string, at time.Time, problem, more string) {
		when := "never since the start"
		if !at.IsZero() {
			when = text.Ago(at, now)
		}
		b.line(name, "last success %s%s", when, more)
		if problem != "" {
			b.line("", "last error %s", problem)
		}
	}
	side("recall", s.Recall.LastOK, s.Recall.LastError, fmt.Sprintf("; half within %d ms, 95 %% within %d ms, %d late", s.Recall.P50, s.Recall.P95, s.Recall.Late))
	side("sync", s.Sync.LastOK, s.Sync.LastError, "")
	b.line("queue", "%d wait, %d set aside", s.Queue.Waiting, s.Queue.Aside)
	if s.Queue.Waiting > 0 {
		b.line("", "the oldest for %s; ends of conversations wait 30 minutes", text.Span(time.Duration(s.Queue.Oldest)*time.Second))
	}
	return b.String()
}

// memoryProviderCmds returns the commands for the external memory.
func (c *cli) memoryProviderCmds() []*cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the external memory: whether it answers, and what waits for it", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDaemon(cmd.Context(), func(client *admin.Client) error {
				s, err := client.Status(cmd.Context())
				if err != nil {
					return err
				}
				if s.Memory == nil {
					s.Memory = new(memory.Status)
				}
				return c.show(*s.Memory, func() string { return memoryStatusText(*s.Memory, time.Now()) })
			})
		},
	}
	return []*cobra.Command{status, c.memorySetupCmd(), c.memoryOffCmd(), c.memoryQueueCmd(), c.memoryForgetCmd()}
}

// changeMemory changes the configuration file.
func changeMemory(report config.Report, change func(*yamledit.Doc) error) error {
	file := cmp.Or(report.File, report.Missing)
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	doc, err := yamledit.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := change(doc); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return atomicfile.Replace(file, doc.Bytes(), 0o600)
}

func (c *cli) memoryOffCmd() *cobra.Command {
	var drop bool
	cmd := &cobra.Command{
		Use: "off", Short: "Use no external memory; what waits for it stays, unless --drop is given", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, report, err := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env})
			if err != nil {
				return err
			}
			n := 0
			if drop {
				err = c.withClient(cmd.Context(), func(client *admin.Client) (err error) {
					n, err = client.DropMemoryEvents(cmd.Context())
					return err
				})
			}
			if err != nil {
				return fmt.Errorf("the waiting events cannot be deleted: %w; the configuration is as it was: try again, or stop the daemon first, or leave --drop out", err)
			}
			if err := changeMemory(report, func(doc *yamledit.Doc) error { return doc.Set("", "memory", "provider") }); err != nil {
				return err
			}
			return c.show(map[string]int{"dropped": n}, func() string {
				s := "There is no external memory from the next start of the daemon on. Nothing was deleted at the provider.\n"
				if drop {
					s += text.Count(n, "waiting event") + " dropped.\n"
				}
				return s
			})
		},
	}
	cmd.Flags().BoolVar(&drop, "drop", false, "delete the events that wait for the provider")
	return cmd
}

func (c *cli) memoryQueueCmd() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error {
		return ask(cmd.Context(), c, (*admin.Client).MemoryEvents, func(es []memory.QueuedEvent) string { return memoryEventsText(es, time.Now()) })
	}
	change := func(use, short, said string, do func(*admin.Client, context.Context, ...uint64) (int, error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: args(0, 1000),
			RunE: func(cmd *cobra.Command, names []string) error {
				ids := make([]uint64, len(names))
				for i, s := range names {
					var err error
					if ids[i], err = eventID(s); err != nil {
						return err
					}
				}
				return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (map[string]int, error) {
					n, err := do(client, ctx, ids...)
					if err == nil && n < len(ids) {
						err = errors.New("some of these events do not exist any more; `hermesd memory queue` lists what there is")
					}
					return map[string]int{"events": n}, err
				}, func(done map[string]int) string { return text.Count(done["events"], "event") + " " + said + ".\n" })
			},
		}
	}
	show := func(cmd *cobra.Command, names []string) error {
		id, err := eventID(names[0])
		if err != nil {
			return err
		}
		return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (memory.EventText, error) {
			return client.MemoryEvent(ctx, id)
		},
			func(e memory.EventText) string { return memoryEventText(e, time.Now()) })
	}
	cmd := &cobra.Command{Use: "queue", Short: "List the events that wait for the external memory, show one, try them again, drop them", Args: args(0, 0), RunE: list}
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List the events that wait, and those that are set aside", Args: args(0, 0), RunE: list},
		&cobra.Command{Use: "show ID", Short: "Show an event with its text", Args: args(1, 1), RunE: show},
		change("retry [ID...]", "Send events now, also those that are set aside; all if no ID is given", "will be sent now", (*admin.Client).RetryMemoryEvents),
		change("drop [ID...]", "Delete events; all if no ID is given", "dropped", (*admin.Client).DropMemoryEvents),
	)
	return cmd
}

// eventID returns the number of an event.
func eventID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, &usageError{fmt.Sprintf("%q is no number of an event; `hermesd memory queue` lists them", s)}
	}
	return id, nil
}

// memoryEventText shows an event.
func memoryEventText(e memory.EventText, now time.Time) string {
	b := sheet{width: 9}
	b.line("event", "%d, %s, for %s", e.ID, e.Kind, e.Provider)
	b.line("person", "%s", cmp.Or(e.Person, "the owner"))
	b.optional("group", e.Group)
	b.line("added", "%s", text.Ago(e.Added, now))
	b.line("tries", "%d", e.Tries)
	b.optional("problem", e.Aside)
	b.optional(e.Fact.Target, e.Fact.Text)
	for _, m := range e.Messages {
		fmt.Fprintf(&b, "%-9s %s\n", m.Role, text.Clean(m.Text))
	}
	return b.String()
}

func memoryEventsText(es []memory.QueuedEvent, now time.Time) string {
	if len(es) == 0 {
		return "Nothing waits for the external memory.\n"
	}
	rows := make([][]string, len(es))
	for i, e := range es {
		state, due := "waits", text.Ago(e.Due, now)
		if e.Aside != "" {
			state, due = "aside", "-"
		}
		rows[i] = []string{strconv.FormatUint(e.ID, 10), string(e.Kind), state, text.Line(e.Group), text.Ago(e.Added, now), due, strconv.Itoa(e.Tries), text.Cut(e.Aside, 60)}
	}
	return text.Table([]string{"ID", "KIND", "STATE", "GROUP", "ADDED", "DUE", "TRIES", "PROBLEM"}, rows)
}

func (c *cli) memoryForgetCmd() *cobra.Command {
	var person, id string
	var owner, yes bool
	cmd := &cobra.Command{
		Use: "forget", Short: "Have the external memory delete what it knows of a person", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if owner == (person != "") {
				return &usageError{"say whom: --person with the identity that `/memory` shows them, or --owner"}
			}
			if err := c.confirm(yes, fmt.Sprintf("Have the external memory delete what it knows of %s, for good?", cmp.Or(person, "the owner"))); err != nil {
				return err
			}
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (admin.Forgotten, error) {
				return client.ForgetPerson(ctx, person, id)
			}, func(f admin.Forgotten) string {
				s := "The provider will be told; `hermesd memory queue` shows when that is done.\n"
				if f.Cannot != "" {
					s += "It cannot delete: " + text.Line(f.Cannot) + ".\n"
				}
				return s
			})
		},
	}
	cmd.Flags().StringVar(&person, "person", "", "the identity of the `person`, as `/memory` shows it to them")
	cmd.Flags().BoolVar(&owner, "owner", false, "the owner")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&id, "id", "", "with --owner: the owner's `id` on a platform, if the provider has a person for each")
	return cmd
}
