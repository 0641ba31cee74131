package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hermesd/cmd/internal/admin"
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
			return c.withClient(cmd.Context(), func(client *admin.Client) error {
				list, err := do(client, cmd.Context(), args[0], job)
				if err != nil {
					return err
				}
				return c.show(list, func() string {
					var b strings.Builder
					for _, r := range list {
						b.WriteString(said + ": " + text.Line(r.Shape) + ", " + approvalScope(r) + "\n")
					}
					return b.String()
				})
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
