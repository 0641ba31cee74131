package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/outbox"
	"hermesd/gateway/target"
)

func (c *cli) sendCmd() *cobra.Command {
	var list bool
	var files []string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "send TARGET [TEXT]", Short: "Say something in a chat, as the agent", Args: args(0, 2),
		Long: `Say something in a chat, as the agent: its conversation there knows of it, so
that people can answer. The text is Markdown; - reads it from the input.

  hermesd send telegram "The backup is done."
  hermesd send discord:#general,slack:C0123 --file report.pdf
  uptime | hermesd send all -

TARGET is a platform (its home channel), PLATFORM:CHAT[:THREAD], PLATFORM:#NAME,
all (every home channel), or several with commas between; --list shows what is
known. It is sent like every answer: in order, once, and again after a failure.
The exit code is 1 if it was given up; what still waits after --wait the daemon
goes on trying.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if list {
				return c.withDaemon(ctx, func(client *admin.Client) error {
					all, err := client.Destinations(ctx)
					if err != nil {
						return err
					}
					return c.show(all, func() string { return destinationsText(all) })
				})
			}
			m, err := c.message(args)
			if err != nil {
				return err
			}
			if m.Text == "" && len(files) == 0 {
				return &usageError{"there is nothing to send: give a text, - or --file"}
			}
			return c.withDaemon(ctx, func(client *admin.Client) error { return c.send(ctx, client, m, files, wait) })
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "show the places that are known")
	cmd.Flags().StringArrayVar(&files, "file", nil, "`path` of a file to send; may be given several times")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait until it has been sent; 0: not at all")
	return cmd
}

// message returns the message of the arguments, with the text from standard input
// if they ask for it.
func (c *cli) message(args []string) (m admin.Message, err error) {
	if len(args) == 0 {
		return m, &usageError{"say where: hermesd send TARGET [TEXT]; `hermesd send --list` shows what is known"}
	}
	m.To = args[0]
	if len(args) < 2 {
		return m, nil
	}
	m.Text = args[1]
	if m.Text == "-" {
		raw, err := io.ReadAll(io.LimitReader(c.in, 1<<20))
		if err != nil {
			return m, fmt.Errorf("read text: %w", err)
		}
		m.Text = string(raw)
	}
	m.Text = strings.TrimSpace(strings.ToValidUTF8(m.Text, "\uFFFD"))
	return m, nil
}

func (c *cli) send(ctx context.Context, client *admin.Client, m admin.Message, files []string, wait time.Duration) error {
	for _, path := range files {
		kept, err := uploadFile(ctx, client, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		m.Files = append(m.Files, admin.File{Path: kept, Name: filepath.Base(path)})
	}
	rows, err := client.Send(ctx, m, wait)
	if err != nil {
		return err
	}
	if err := c.show(rows, func() string { return sentText(rows) }); err != nil {
		return err
	}
	for _, r := range rows {
		if r.State == outbox.Dead {
			return &exitError{exitFailed}
		}
	}
	return nil
}

// uploadFile uploads a file to the daemon, which may not have access to it.
func uploadFile(ctx context.Context, client *admin.Client, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a file")
	}
	return client.Keep(ctx, filepath.Base(path), f)
}

// sentText describes the delivery state of each row.
func sentText(rows []outbox.Row) string {
	var b strings.Builder
	for _, r := range rows {
		why := text.Cut(r.Reason, 100)
		switch r.State {
		case outbox.Sent:
			fmt.Fprintf(&b, "%s is sent to %s.\n", r.ID, r.Msg.To)
		case outbox.Dead:
			fmt.Fprintf(&b, "%s is given up, not sent to %s: %s\n", r.ID, r.Msg.To, why)
		default:
			if why != "" {
				why = ": " + why
			}
			fmt.Fprintf(&b, "%s is on its way to %s%s\n", r.ID, r.Msg.To, why)
		}
	}
	return b.String()
}

func destinationsText(all []target.Info) string {
	if len(all) == 0 {
		return "No chat is known yet. `/sethome` in a chat makes it the home channel of its platform.\n"
	}
	rows := make([][]string, len(all))
	for i, d := range all {
		rows[i] = []string{d.Name, d.Note}
	}
	return text.Table([]string{"TARGET", "DESCRIPTION"}, rows)
}
