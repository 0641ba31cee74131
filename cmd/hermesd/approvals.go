package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/agent/cmdpolicy"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/approval"
)

func (c *cli) approvalsCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "approvals", Short: "List, add and remove permanent approvals; check what needs one"})
	cmd.Long = `List, add and remove permanent approvals.

An approval covers a shape: the program, its subcommand and the folder, with any
arguments, as a question for approval or the refusal of a scheduled run shows it.
It holds in all conversations; with --job it holds in the runs of this job, and
nowhere else. Runs of jobs have only the approvals of their creator and of their job.`
	unknown := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args)
		}
		return ask(cmd.Context(), c, (*admin.Client).Approvals, func(list []approval.Record) string { return approvalsText(list, time.Now()) })
	}
	cmd.AddCommand(
		c.approvalsChangeCmd("add SHAPE", "Approve a shape permanently", "Approved", (*admin.Client).AddApproval),
		c.approvalsChangeCmd("remove SHAPE|N", "Remove the approval with number N, or all of a shape", "Removed", (*admin.Client).RemoveApprovals),
		c.approvalsCheck(),
	)
	return cmd
}

// changeApprovals changes the approvals of a shape, for a job or, if it is "", for all.
type changeApprovals func(client *admin.Client, ctx context.Context, shape, job string) ([]approval.Record, error)

// approvalsChangeCmd returns a command that changes approvals and prints the changed ones
// after said.
func (c *cli) approvalsChangeCmd(use, short, said string, do changeApprovals) *cobra.Command {
	var job string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), c, func(client *admin.Client, ctx context.Context) ([]approval.Record, error) {
				return do(client, ctx, args[0], job)
			}, func(list []approval.Record) string {
				var b strings.Builder
				for _, r := range list {
					b.WriteString(said + ": " + text.Line(r.Shape) + ", " + approvalScope(r) + "\n")
				}
				return b.String()
			})
		},
	}
	cmd.Flags().StringVar(&job, "job", "", "only in the runs of this `job`, by its id or name")
	return cmd
}

// approvalScope says where an approval holds.
func approvalScope(r approval.Record) string {
	switch {
	case r.NoLongerUsed:
		return "no longer used"
	case r.Job != "":
		return "in the runs of " + string(r.Job)
	}
	return "everywhere"
}

func approvalsText(list []approval.Record, now time.Time) string {
	if len(list) == 0 {
		return "There are no permanent approvals.\n"
	}
	rows := make([][]string, len(list))
	for i, r := range list {
		by, since := "", ""
		if !r.NoLongerUsed {
			by, since = string(r.Principal.Platform)+":"+text.Line(r.Principal.ID), text.Ago(r.At, now)
		}
		rows[i] = []string{strconv.Itoa(i + 1), text.Line(r.Shape), approvalScope(r), by, since}
	}
	return text.Table([]string{"N", "SHAPE", "HOLDS", "BY", "SINCE"}, rows)
}

// A commandCheck evaluates commands as `approvals check` does.
type commandCheck struct {
	sandbox, network, dir, approvals string // flags
	batch                            bool

	place cmdpolicy.Place
	deny  []string // approvals.deny
}

func (c *cli) approvalsCheck() *cobra.Command {
	var check commandCheck
	cmd := &cobra.Command{
		Use: "check -- COMMAND", Short: "Print what the command policy decides about a command: run, ask or block", Args: check.args,
		Long: `Print what the command policy decides about a command: run (without an approval), ask
(somebody has to approve it) or block (it never runs). Nothing is run.

  hermesd approvals check -- 'rm -rf build'
  hermesd approvals check --sandbox full --approvals shapes.txt --batch < corpus.jsonl

rule, reason and details say why; shapes are what an approval for later commands would
cover, one line each for a file of --approvals; network says whether the command would
run with the network. With --batch each line is an object {"command": "…"}, and the output
has one object for each line, in the same order. Several words of COMMAND are joined
by spaces.

The configuration of the home directory is used: the rows of approvals.commands, the
patterns of approvals.deny, and which files belong to the daemon. Without a home
directory the defaults are used. Approvals that the daemon has stored do not count.
The sandbox that the daemon has is not known here: without --sandbox there is none,
which asks most.

The exit code is 0 whatever the decision is; it is another one only after an error.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.preparePlace(&check); err != nil {
				return err
			}
			if check.batch {
				return batch(c, c.in, func(line commandLineInput) (any, error) {
					if line.Command == nil {
						return nil, errors.New(`there is no "command"`)
					}
					return check.evaluate(*line.Command), nil
				})
			}
			d := check.evaluate(strings.Join(args, " "))
			return c.show(d, d.text)
		},
	}
	f := cmd.Flags()
	f.StringVar(&check.sandbox, "sandbox", "none", "the `sandbox` that commands have: none, landlock or full")
	f.StringVar(&check.network, "network", "", "whether commands may have the `network`: open or off (else, in a sandbox, terminal.network)")
	f.StringVar(&check.dir, "dir", "", "the workspace, and the `directory` in which the command runs (else the current one)")
	f.StringVar(&check.approvals, "approvals", "", "`file` with approved shapes, one on each line; # begins a comment")
	f.BoolVar(&check.batch, "batch", false, "read JSON lines from standard input, and print a line of JSON for each")
	return cmd
}

// args validates that there is a command, or none with --batch.
func (check *commandCheck) args(cmd *cobra.Command, words []string) error {
	if check.batch {
		return args(0, 0)(cmd, words)
	}
	return args(1, 1<<20)(cmd, words)
}

// preparePlace sets the place of check from its flags and the configuration.
func (c *cli) preparePlace(check *commandCheck) error {
	sandbox, err := cmdpolicy.ParseSandbox(check.sandbox)
	if err != nil {
		return &usageError{"--sandbox: " + err.Error()}
	}
	if !slices.Contains([]string{"", "open", "off"}, check.network) {
		return &usageError{fmt.Sprintf("--network is %q; it must be open or off", check.network)}
	}
	dir, err := filepath.Abs(cmp.Or(check.dir, "."))
	if err != nil {
		return fmt.Errorf("find the current directory: %w", err)
	}
	shapes, err := readShapes(check.approvals)
	if err != nil {
		return err
	}
	cfg, report, err := c.load()
	if err != nil {
		return err
	}
	cfg.Terminal.CWD = dir
	check.deny = cfg.Approvals.Deny
	check.place = app.PolicyPlace(cfg, report, report.Home, dir)
	check.place.Dir, check.place.Sandbox = dir, sandbox
	check.place.NoNetwork = check.network == "off" || check.network == "" && sandbox != cmdpolicy.NoSandbox && !cfg.Terminal.Network
	check.place.Approved = func(shape string) bool { return shapes[shape] }
	return nil
}

// readShapes returns the shapes in a file; none if path is "".
func readShapes(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	shapes := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			shapes[line] = true
		}
	}
	return shapes, nil
}

// A commandLineInput is a line of the input of `approvals check --batch`.
type commandLineInput struct {
	Command *string `json:"command"`
}

// A decision is the output of `approvals check`.
type decision struct {
	Command  string   `json:"command"`
	Decision string   `json:"decision"` // run, ask or block
	Rule     string   `json:"rule"`     // the names of the rules, separated by ", "
	Reason   string   `json:"reason"`   // one sentence for each rule, separated by "; "
	Details  []string `json:"details"`  // the programs, files and addresses that Reason is about
	Shapes   []string `json:"shapes"`   // what an approval would cover; empty: this command once
	Network  bool     `json:"network"`  // whether it would run with the network
}

func (check *commandCheck) evaluate(command string) decision {
	r := cmdpolicy.Evaluate(command, check.place)
	d := decision{
		Command: command, Decision: r.Decision.String(), Rule: strings.Join(r.Rules, ", "), Reason: strings.Join(r.Reasons, "; "),
		Details: append([]string{}, r.Details...), Shapes: append([]string{}, r.Shapes...), Network: r.Network,
	}
	if p := r.Denied(command, check.deny); p != "" {
		d.Decision, d.Rule, d.Reason, d.Shapes = cmdpolicy.Block.String(), "approvals.deny", "the operator forbids commands like "+p, []string{}
	}
	return d
}

func (d decision) text() string {
	b := sheet{width: 9}
	b.optional("decision", d.Decision)
	b.optional("rule", d.Rule)
	b.optional("reason", d.Reason)
	for _, s := range d.Details {
		b.optional("detail", s)
	}
	for _, s := range d.Shapes {
		b.optional("shape", s)
	}
	b.optional("network", strconv.FormatBool(d.Network))
	return b.String()
}
