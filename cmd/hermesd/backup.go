package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/backup"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui/text"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// staleCopyAge is the age from which an abandoned copy of the store is removed.
const staleCopyAge = time.Hour

func (c *cli) backupCmd() *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use: "backup [FILE]", Short: "Write the conversations, memories, skills and settings into one archive, also while the daemon runs", Args: args(0, 1),
		Long: `Write the conversations, memories, skills and settings into one archive, also
while the daemon runs: the copy of the store is of one moment.

Without --with-secrets the archive holds no .env, and config.yaml without its
secrets and those of memory providers. Not in it: the workspace, logs, files that
people have sent, the search index, which is rebuilt, and what the server of a
memory provider keeps.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.backup(cmd, strings.Join(args, ""), secrets)
		},
	}
	cmd.Flags().BoolVar(&secrets, "with-secrets", false, "also .env, the keys of the HTTP API and the metrics, the files of memory providers with keys, and config.yaml as it stands")
	return cmd
}

// backedUp is the output of `backup --json`.
type backedUp struct {
	File string `json:"file"`
	Size int64  `json:"size"`
	backup.Manifest
}

func (c *cli) backup(cmd *cobra.Command, name string, secrets bool) error {
	home, err := config.ResolveHome(c.home, c.env)
	if err != nil {
		return err
	}
	if err := c.isHome(home); err != nil {
		return err
	}
	name = cmp.Or(name, "hermesd-"+time.Now().Format("20060102-150405")+".tar.gz")
	_, report, _ := config.Load(config.Options{Home: c.home, File: c.file, Env: c.env}) // only for masking; errors do not matter
	o := backup.Options{
		Home: home, Secrets: secrets, Mask: report.Secrets.Mask, Masked: secret.Value("any").String(),
		Manifest: backup.Manifest{Made: time.Now().UTC().Truncate(time.Second), Version: version, Schema: bolt.SchemaNow()},
	}
	spare, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return err
	}
	sweepCopies(home, time.Now())
	if _, err := os.Stat(filepath.Join(home, dbName)); err == nil {
		err := c.withClient(cmd.Context(), func(client *admin.Client) error {
			made, err := client.Backup(cmd.Context(), spare)
			o.Store, o.Manifest.Waiting, o.Manifest.Outbox = made.Path, made.Stats.Waiting+made.Stats.Claimed, made.Stats.Outbox
			return err
		})
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(filepath.Dir(o.Store)) }() // leftovers are removed by the next backup
	}
	m, err := backup.Write(cmd.Context(), name, o)
	if err != nil {
		return err
	}
	done := backedUp{File: name, Manifest: m}
	if info, err := os.Stat(name); err == nil {
		done.Size = info.Size()
	}
	return c.show(done, func() string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s holds %s, %s.\n", name, text.Count(len(m.Files), "file"), text.Bytes(done.Size))
		for _, s := range m.Skipped {
			fmt.Fprintf(&b, "Not in it: %s.\n", text.Line(s))
		}
		if secrets {
			b.WriteString("It holds your keys and tokens: keep it where nobody else can read it.\n")
		} else {
			b.WriteString("Keys and tokens of .env are not in it (--with-secrets).\n")
		}
		return b.String()
	})
}

// sweepCopies removes abandoned copies of the store.
func sweepCopies(home string, now time.Time) {
	entries, err := os.ReadDir(home)
	if err != nil {
		return // the backup reports it
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), admin.BackupDir) && now.Sub(info.ModTime()) > staleCopyAge {
			_ = os.RemoveAll(filepath.Join(home, e.Name())) // the next backup tries again
		}
	}
}

func (c *cli) restoreCmd() *cobra.Command {
	return &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup; the current files are kept in before-restore-*. Stop the daemon first", Args: args(1, 1),
		Long: `Restore a backup. The archive is read and checked
whole, with the store in it, before anything is changed. What was there is kept
in before-restore-… in the home. A restore that is cut off goes on when it is
called again, or when the daemon starts.

Messages that waited for an answer when the backup was made wait again, and those
that were not delivered will be.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := config.ResolveHome(c.home, c.env)
			if err != nil {
				return err
			}
			r, err := backup.Restore(cmd.Context(), home, args[0], time.Now())
			if err != nil {
				return err
			}
			return c.show(r, func() string { return restoredText(home, r) })
		},
	}
}

func restoredText(home string, r backup.Report) string {
	var b strings.Builder
	m := r.Manifest
	fmt.Fprintf(&b, "%s is as it was on %s: %s, made by hermesd %s.\n", home, m.Made.Local().Format("2006-01-02 15:04"), text.Count(len(m.Files), "file"), text.Line(m.Version))
	if _, err := os.Stat(r.Aside); err == nil {
		fmt.Fprintf(&b, "What was there before is in %s; remove it when you do not need it any more.\n", r.Aside)
	}
	if !m.Secrets {
		b.WriteString("Keys and tokens were not in it: those in .env stay as they are; `hermesd config check` says what is missing.\n")
	}
	if m.Waiting+m.Outbox > 0 {
		fmt.Fprintf(&b, "%s to be answered again and %d to be delivered, as they did then: `hermesd outbox list` and `drop` before you start the daemon.\n", text.Count(m.Waiting, "message")+text.Form(m.Waiting, " waits", " wait"), m.Outbox)
	}
	return b.String()
}

func (c *cli) compactCmd() *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Reclaim disk space after deletions; works while the daemon runs", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd.Context(), c, (*admin.Client).Compact, func(done admin.Compaction) string {
				return fmt.Sprintf("The store had %s and has %s.\n", text.Bytes(done.Before), text.Bytes(done.After))
			})
		},
	}
}

// resume completes an interrupted restore before the store is opened.
func (c *cli) resume(home string) error {
	done, err := backup.Resume(home)
	if done {
		c.printNote("a restore that was cut off is finished now")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no home yet
	}
	return err
}
