package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (c *cli) manCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man [COMMAND...]", Short: "Print a manual page, or write all of them", Args: args(0, 10),
		Long: `Print a manual page, or write all of them.

  hermesd man | man -l -
  hermesd man --dir ~/.local/share/man/man1`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if dir != "" {
				if len(names) > 0 {
					return &usageError{"--dir writes all pages; name no command"}
				}
				return manAll(cmd.Root(), dir)
			}
			page, err := find(cmd.Root(), names)
			if err != nil {
				return err
			}
			return c.print(manPage(page))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write every page into this `directory`")
	return cmd
}

// helpCmd replaces cobra's, which prints the help of the program for an unknown command.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Help about any command", Args: args(0, 10),
		RunE: func(cmd *cobra.Command, names []string) error {
			about, err := find(cmd.Root(), names)
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// find returns the command that names name.
func find(root *cobra.Command, names []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(names)
	if err != nil || len(rest) > 0 {
		return nil, &usageError{fmt.Sprintf("there is no command %q; `%s --help` lists them", strings.Join(names, " "), root.CommandPath())}
	}
	return cmd, nil
}

// manAll writes the pages of cmd and of all its subcommands into dir.
func manAll(cmd *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := writeFile(filepath.Join(dir, name), manPage(cmd)); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	for _, sub := range shown(cmd) {
		if err := manAll(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path, s string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.WriteString(f, s)
	return err
}

func shown(cmd *cobra.Command) []*cobra.Command {
	var subs []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			subs = append(subs, sub)
		}
	}
	return subs
}

// plain escapes the characters that the formatter would replace: quotes that a
// shell does not accept, a tilde that becomes an accent.
var plain = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`)

// roff escapes text so that the formatter sees no requests in it. The result is
// ASCII, which the formatter reads in every locale.
func roff(s string) string {
	lines := strings.Split(plain.Replace(s), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	var b strings.Builder
	for _, r := range strings.Join(lines, "\n") {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	path := cmd.CommandPath()
	day, _, _ := strings.Cut(date, "T")
	p(`.TH "%s" "1" "%s" "hermesd %s" "hermesd"`, strings.ToUpper(strings.ReplaceAll(path, " ", "-")), day, version)
	p(".SH NAME\n%s \\- %s", roff(strings.ReplaceAll(path, " ", "-")), roff(cmd.Short))
	p(".SH SYNOPSIS\n.B %s", roff(cmd.UseLine()))
	if cmd.Long != "" {
		p(".SH DESCRIPTION\n.nf\n%s\n.fi", roff(cmd.Long))
	}
	manFlags(p, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(p, "COMMON OPTIONS", cmd.InheritedFlags())
	if subs := shown(cmd); len(subs) > 0 {
		p(".SH COMMANDS")
		for _, sub := range subs {
			p(".TP\n.B %s\n%s", roff(strings.TrimPrefix(sub.UseLine(), cmd.CommandPath()+" ")), roff(sub.Short))
		}
	}
	if !cmd.HasParent() {
		p(".SH EXIT STATUS\n0 done; 1 failed; 2 wrong usage; 75 please restart me; 78 configuration error, do not restart.")
		p(".SH FILES\n.TP\n.I \\(ti/.hermes\nthe home directory: config.yaml, .env, hermesd.db, hermesd.sock")
		p(".SH ENVIRONMENT\n.TP\n.B HERMES_HOME\nthe home directory")
	}
	if cmd.HasParent() {
		p(".SH SEE ALSO\n.BR %s (1)", roff(strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}

func manFlags(p func(string, ...any), title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		p(".TP\n.B %s\n%s", roff(strings.TrimSpace(name+" "+arg)), roff(usage))
	})
}
