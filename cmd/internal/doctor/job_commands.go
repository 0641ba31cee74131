package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/agent/cmdpolicy"
	"hermesd/agent/llm"
	"hermesd/agent/tools/terminal"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/approval"
	"hermesd/gateway/schedule"
	"hermesd/internal/spawn"
)

// maxRefused limits the findings about the commands of one job.
const maxRefused = 5

// A jobCommand is a terminal call of a scheduled run.
type jobCommand struct {
	Command string `json:"command"`
	Workdir string `json:"workdir"`
}

// checkJobCommands reports the commands of the last run of each job that the next run
// would be refused, because nobody can be asked then.
func (v *checker) checkJobCommands(ctx context.Context, c *admin.Client, jobs []schedule.JobView) {
	if v.o.Config == nil || !v.o.Config.Terminal.Enabled {
		return
	}
	box := v.sandbox()
	if v.status != nil {
		box = v.status.Sandbox // the daemon that runs decides
	}
	if !box.HasTerminal() {
		return // checkSandbox reports it
	}
	approved, err := c.Approvals(ctx)
	if err != nil {
		v.report("cron", Error, "look at the log", "%v", err)
		return
	}
	for _, j := range jobs {
		if !j.Active() || j.ScriptOnly {
			continue
		}
		if err := v.checkCommandsOf(ctx, c, j.Job, spawn.Status{Mechanism: spawn.Mechanism(box.Mechanism)}, approved); err != nil {
			v.report("cron", Error, "look at the log", "the commands of the scheduled prompt %s: %v", j.ID, err)
		}
	}
}

// checkCommandsOf is checkJobCommands for one job.
func (v *checker) checkCommandsOf(ctx context.Context, c *admin.Client, j schedule.Job, box spawn.Status, approved []approval.Record) error {
	commands, err := lastCommands(ctx, c, j.ID)
	if err != nil || len(commands) == 0 {
		return err
	}
	place := app.PolicyPlace(v.o.Config, v.o.Report, v.o.Home, v.o.Config.Workspace(v.o.Home))
	place.Sandbox = app.SandboxKind(box)
	place.NoNetwork = place.Sandbox != cmdpolicy.NoSandbox && !v.o.Config.Terminal.Network
	place.Approved = approval.InRuns(approved, j, j.Creator) // with the level at creation; the daemon may know a lower one
	var seen []string
	refused := 0
	for _, command := range commands {
		place.Dir = v.commandDir(j, command)
		r := cmdpolicy.Evaluate(command.Command, place)
		denied := r.Denied(command.Command, v.o.Config.Approvals.Deny)
		switch {
		case denied != "":
			r.Decision, r.Reasons, r.Shapes = cmdpolicy.Block, []string{"approvals.deny forbids commands like " + denied}, nil
		case r.Decision == cmdpolicy.Run, r.Decision == cmdpolicy.Ask && v.o.Config.Approvals.Mode == "off":
			continue
		}
		what := cmp.Or(strings.Join(r.Shapes, "\n"), command.Command) // one approval would cover all of these
		if slices.Contains(seen, what) {
			continue
		}
		seen = append(seen, what)
		if refused++; refused <= maxRefused {
			v.report("cron", Warning, approvalFix(j, r), "the scheduled prompt %s (%s) would be refused a command of its last run, `%s`: %s",
				j.ID, text.Cut(j.Name, 40), text.Cut(command.Command, 80), strings.Join(r.Reasons, "; "))
		}
	}
	if refused > maxRefused {
		v.report("cron", Warning, "", "the scheduled prompt %s (%s) would be refused %s more of its last run", j.ID, text.Cut(j.Name, 40), text.Count(refused-maxRefused, "command"))
	}
	return nil
}

// lastCommands returns the terminal calls of the last run of a job that is stored.
func lastCommands(ctx context.Context, c *admin.Client, id schedule.JobID) ([]jobCommand, error) {
	const newest = 20
	runs, err := c.Slots(ctx, string(id), newest)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		if run.State != schedule.Ran {
			continue
		}
		messages, err := sessionMessages(ctx, c, string(run.Session()))
		var gone *admin.Error
		if errors.As(err, &gone) && gone.Code == http.StatusNotFound {
			continue // it was a script, or is deleted
		}
		if err != nil {
			return nil, err
		}
		var commands []jobCommand
		for _, b := range slices.Concat(messages...) {
			var call jobCommand
			if b.Type == llm.ToolUse && b.Name == terminal.Name && json.Unmarshal(b.Input, &call) == nil && call.Command != "" {
				commands = append(commands, call)
			}
		}
		return commands, nil
	}
	return nil, nil
}

// sessionMessages returns the blocks of all messages of a session, archived ones included.
func sessionMessages(ctx context.Context, c *admin.Client, id string) (all [][]llm.Block, err error) {
	for {
		s, err := c.Session(ctx, id, len(all), true)
		if err != nil {
			return nil, err
		}
		if len(s.Messages) == 0 {
			return all, nil
		}
		for _, m := range s.Messages {
			all = append(all, m.Blocks)
		}
	}
}

// commandDir returns the directory in which a command of a job runs.
func (v *checker) commandDir(j schedule.Job, c jobCommand) string {
	work := v.o.Config.Workspace(v.o.Home)
	if dir, _, ok := app.JobFolder(work, j.Workdir); ok && c.Workdir == "" {
		return dir
	}
	if filepath.IsAbs(c.Workdir) {
		return c.Workdir
	}
	return filepath.Join(work, c.Workdir)
}

// approvalFix returns what to do about a command that is refused.
func approvalFix(j schedule.Job, r cmdpolicy.Result) string {
	if r.Decision == cmdpolicy.Block || len(r.Shapes) == 0 {
		return fmt.Sprintf("no approval for later runs can cover it: change the prompt with `hermesd cron edit %s`", j.ID)
	}
	var adds []string
	for _, s := range r.Shapes {
		adds = append(adds, fmt.Sprintf("`hermesd approvals add --job %s '%s'`", j.ID, strings.ReplaceAll(s, "'", `'\''`)))
	}
	return strings.Join(adds, " and ")
}
