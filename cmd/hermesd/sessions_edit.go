package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/session"
)

// A folder is the directory of received files, used if no daemon is running.
type folder string

func (f folder) Dir() string { return string(f) }

func (f folder) Remove(path string) error {
	if err := os.Remove(filepath.Join(string(f), filepath.Base(path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove file of conversation: %w", err)
	}
	return nil
}

func (c *cli) renameCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rename SESSION [TITLE]", Short: "Set or clear the title of a conversation", Args: args(1, 100),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) (session.Record, error) {
				return client.Rename(ctx, args[0], strings.Join(args[1:], " "))
			}, func(rec session.Record) string {
				if rec.Title == "" {
					return fmt.Sprintf("%s has no name now.\n", rec.ID)
				}
				return fmt.Sprintf("%s is called %s now.\n", rec.ID, text.Line(rec.Title))
			})
		},
	}
}

func (c *cli) exportCmd() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use: "export SESSION", Short: "Export a conversation, archived messages included", Args: args(1, 1),
		Long: `Export a conversation, archived messages included: as Markdown to read, or as
JSONL, one object a line. What the model thought is left out, and secrets are
masked. A file is made for you alone, and none that exists is written over.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "markdown" && format != "jsonl" {
				return &usageError{fmt.Sprintf("--format is %q; it must be markdown or jsonl", format)}
			}
			return c.withClient(cmd.Context(), func(client *admin.Client) error {
				e, err := client.Export(cmd.Context(), args[0], format)
				if err != nil {
					return err
				}
				return c.written(e, format, output)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or jsonl")
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write; empty: standard output")
	return cmd
}

// written writes an export to a file or to the output.
func (c *cli) written(e admin.Exported, format, output string) error {
	if output == "" {
		if c.json {
			return c.show(e, nil)
		}
		if format == "markdown" && isTerminal(c.out) {
			e.Text = text.Clean(e.Text)
		}
		return c.print(e.Text)
	}
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; choose another name", output)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	_, err = io.WriteString(f, e.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("export: %w", errors.Join(err, os.Remove(output)))
	}
	return c.show(map[string]any{"session": e.Session, "file": output, "bytes": len(e.Text)}, func() string {
		return fmt.Sprintf("%s is written to %s, %s.\n", e.Session, text.Line(output), text.Bytes(int64(len(e.Text))))
	})
}

// afterwards is printed after conversations were deleted.
const afterwards = "`hermesd compact` gives their space back and takes their bytes out of the file. Backups that were made before still hold them, and so do the platforms.\n"

func (c *cli) deleteCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete SESSION...", Short: "Delete conversations: messages, archive, search index, files and what was accepted and sent", Args: args(1, 1000),
		Long: `Delete conversations: their messages, archived ones included, prompts, what the
search index has of them, the files that only they use, and the texts that were
accepted and sent. What is still to be sent is sent first. There is no way back.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			return c.withClient(cmd.Context(), func(client *admin.Client) error {
				var names []string
				for _, id := range ids { // all must exist, or none is deleted
					s, err := client.Session(cmd.Context(), id, 1<<30, false)
					if err != nil {
						return err
					}
					names = append(names, sessionName(s.Record))
					ids[len(names)-1] = string(s.Record.ID)
				}
				if err := c.confirm(yes, fmt.Sprintf("Delete %s for good?", strings.Join(names, ", "))); err != nil {
					return err
				}
				return c.deleted(cmd.Context(), client, ids)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func sessionName(r session.Record) string {
	s := fmt.Sprintf("%s (%s", r.ID, text.Count(r.Messages+r.Archived(), "message"))
	if r.Title != "" {
		s += ", " + text.Cut(r.Title, 40)
	}
	return s + ")"
}

// deleted deletes conversations one by one and prints the result.
func (c *cli) deleted(ctx context.Context, client *admin.Client, ids []string) error {
	done := []session.Deleted{}
	var failed []error
	for _, id := range ids {
		gone, err := client.Delete(ctx, id)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		done = append(done, gone)
	}
	err := c.show(done, func() string {
		if len(done) == 0 {
			return ""
		}
		var b strings.Builder
		stays := ""
		for _, g := range done {
			fmt.Fprintf(&b, "%s is deleted: %s, %s.\n", g.ID, text.Count(g.Messages, "message"), text.Count(len(g.Files), "file"))
			stays = cmp.Or(stays, g.Stays)
		}
		if stays != "" {
			b.WriteString("The external memory is told to delete it too. It cannot delete: " + text.Line(stays) + ".\n")
		}
		b.WriteString(afterwards)
		return b.String()
	})
	return errors.Join(append(failed, err)...)
}

func (c *cli) pruneCmd() *cobra.Command {
	var days int
	var yes, dry bool
	cmd := &cobra.Command{
		Use: "prune --days N", Short: "Delete the conversations that were not used for some days", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 1 || days > 36500 {
				return &usageError{"--days says for how many days a conversation was not used, from 1 to 36500"}
			}
			return c.withClient(cmd.Context(), func(client *admin.Client) error {
				ids, err := client.Expired(cmd.Context(), time.Now().AddDate(0, 0, -days))
				if err != nil {
					return err
				}
				if dry || len(ids) == 0 {
					return c.show(ids, func() string { return expiredText(ids, days) })
				}
				if err := c.confirm(yes, fmt.Sprintf("Delete %s not used for %s, for good?", text.Count(len(ids), "conversation"), text.Count(days, "day"))); err != nil {
					return err
				}
				names := make([]string, len(ids))
				for i, id := range ids {
					names[i] = string(id)
				}
				return c.deleted(cmd.Context(), client, names)
			})
		},
	}
	cmd.Flags().IntVar(&days, "days", 0, "for how many days a conversation was not used")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say which")
	return cmd
}

func expiredText(ids []session.ID, days int) string {
	if len(ids) == 0 {
		return fmt.Sprintf("Every conversation was used in the last %s.\n", text.Count(days, "day"))
	}
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(string(id) + "\n")
	}
	fmt.Fprintf(&b, "%s not used for %s.\n", text.Count(len(ids), "conversation"), text.Count(days, "day"))
	return b.String()
}

// confirm asks for confirmation at a terminal before an irreversible operation.
// Without a terminal, --yes is required.
func (c *cli) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(c.in) {
		return &usageError{question + " Say --yes: nobody is here to be asked"}
	}
	if _, err := fmt.Fprintf(c.errs, "%s [y/N] ", text.Line(question)); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	line, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("ask: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted")
}
