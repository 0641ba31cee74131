package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hermesd/agent/injection"
)

func (c *cli) injectionCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "injection", Short: "Scan untrusted text for prompt injection"})
	cmd.AddCommand(c.injectionScanCmd())
	return cmd
}

func (c *cli) injectionScanCmd() *cobra.Command {
	var lines bool
	cmd := &cobra.Command{
		Use: "scan [FILE]", Short: "Print what the scan of untrusted text decides about a file: pass or block", Args: args(0, 1),
		Long: `Print what the scan of untrusted text decides about a file, or about standard input
if FILE is - or missing: pass or block. It is the scan of project files, SOUL.md,
skills, memory entries and web pages. (Memory entries that contain authorized_keys
are blocked too, and a web page is marked, not blocked.)

  hermesd injection scan AGENTS.md
  hermesd injection scan --batch < corpus.jsonl

With --batch each line is an object {"text": "…"}, and the output has one object for
each line, in the same order. rule names what was found, reason quotes it.

The exit code is 0 whatever the decision is; it is another one only after an error. No
home directory is needed or read.`,
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := c.input(args)
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }() // the file was only read
			if lines {
				return batch(c, in, func(line textLine) (any, error) {
					if line.Text == nil {
						return nil, errors.New(`there is no "text"`)
					}
					return scanText(*line.Text), nil
				})
			}
			raw, err := io.ReadAll(in)
			if err != nil {
				return fmt.Errorf("read text: %w", err)
			}
			s := scanText(string(raw))
			return c.show(s, s.text)
		},
	}
	cmd.Flags().BoolVar(&lines, "batch", false, "read JSON lines, and print a line of JSON for each")
	return cmd
}

// input opens the file that args name, or standard input.
func (c *cli) input(args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(c.in), nil
	}
	return os.Open(args[0])
}

// A textLine is a line of the input of `injection scan --batch`.
type textLine struct {
	Text *string `json:"text"`
}

// A scanResult is the output of `injection scan`.
type scanResult struct {
	Decision string `json:"decision"` // pass or block
	Rule     string `json:"rule"`     // the IDs of the findings, separated by ", "
	Reason   string `json:"reason"`   // the first match of each
}

func scanText(s string) scanResult {
	found := injection.Scan(strings.ToValidUTF8(s, "\uFFFD")) // as project files are read
	if len(found) == 0 {
		return scanResult{Decision: "pass"}
	}
	var reasons []string
	for _, f := range found {
		reasons = append(reasons, fmt.Sprintf("%s: %q", f.ID, f.Excerpt))
	}
	return scanResult{"block", injection.JoinIDs(found), strings.Join(reasons, "; ")}
}

func (s scanResult) text() string {
	b := sheet{width: 9}
	b.line("decision", "%s", s.Decision)
	b.optional("rule", s.Rule)
	b.optional("reason", s.Reason)
	return b.String()
}
