package cron

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
)

const cronUsage = "`/cron` lists the scheduled prompts of this chat. `/cron add \"every weekday at 9am\" <prompt>` makes one; `/cron show|pause|resume|run|remove|history <name>`."

// Handlers returns the handler of the chat command about scheduled prompts.
func (r *Runs) Handlers() map[string]command.Handler {
	return map[string]command.Handler{"cron": command.ReplyWith(r.command)}
}

// command runs the /cron command and returns its reply.
func (r *Runs) command(ctx context.Context, c command.Call) (string, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(c.Args), " ")
	rest = strings.TrimSpace(rest)
	text, err := r.runCommand(ctx, c, strings.ToLower(verb), rest)
	if errors.Is(err, schedule.ErrInvalid) {
		return c.T("That cannot be: %v.", err), nil
	}
	return text, err
}

func (r *Runs) runCommand(ctx context.Context, c command.Call, verb, rest string) (string, error) {
	manager, caller := r.manager, schedule.Caller{Principal: c.Principal, Address: c.Inbound.Address, ChatName: c.Inbound.ChatName}
	var j schedule.JobView
	var err error
	switch verb {
	case "", "list":
		return formatJobList(ctx, c.Printer, manager, caller)
	case "add", "create":
		when, prompt := cutQuoted(rest)
		if when == "" || prompt == "" {
			return c.T(cronUsage), nil
		}
		j, err = manager.Create(ctx, caller, schedule.JobIDFor(c.Inbound.IdempotencyKey), schedule.JobPatch{Schedule: &when, Prompt: &prompt})
	case "show":
		j, err = manager.Find(ctx, caller, rest)
	case "pause":
		j, err = manager.Pause(ctx, caller, rest)
	case "resume":
		j, err = manager.Resume(ctx, caller, rest)
	case "run":
		j, err = manager.Run(ctx, caller, rest, c.Inbound.IdempotencyKey)
	case "remove", "delete":
		if j, err = manager.Remove(ctx, caller, rest); err == nil {
			return c.T("Removed: %s", formatJob(c.Printer, j)), nil
		}
	case "history":
		return formatJobHistory(ctx, c, manager, caller, rest)
	default:
		return c.T(cronUsage), nil
	}
	if err != nil {
		return "", err
	}
	return formatJob(c.Printer, j), nil
}

// cutQuoted splits s after its first word or quoted string: `"a b" c d` into `a b`
// and `c d`.
func cutQuoted(s string) (first, rest string) {
	for _, q := range []string{`"`, "'", "“"} {
		end := q
		if q == "“" {
			end = "”"
		}
		if after, ok := strings.CutPrefix(s, q); ok {
			if first, rest, ok = strings.Cut(after, end); ok {
				return strings.TrimSpace(first), strings.TrimSpace(rest)
			}
		}
	}
	first, rest, _ = strings.Cut(s, " ")
	return first, strings.TrimSpace(rest)
}

// weekdayNames are the short names of the weekdays, indexed by time.Weekday.
var weekdayNames = [...]string{i18n.N("Sun"), i18n.N("Mon"), i18n.N("Tue"), i18n.N("Wed"), i18n.N("Thu"), i18n.N("Fri"), i18n.N("Sat")}

func formatJob(p i18n.Printer, j schedule.JobView) string {
	s := fmt.Sprintf("`%s` **%s**: %s, %s", j.ID, strings.ReplaceAll(j.Name, "*", `\*`), j.Schedule.Text, p.Translate(j.Status))
	var next []string
	for _, t := range j.Next {
		next = append(next, p.Translate(weekdayNames[t.Weekday()])+t.Format(" 2006-01-02 15:04 MST"))
	}
	if len(next) > 0 {
		s += p.T("; next: %s", strings.Join(next, ", "))
	}
	return s + p.T("; goes to %s", strings.Join(j.Deliver, ", "))
}

func formatJobList(ctx context.Context, p i18n.Printer, manager *schedule.Manager, caller schedule.Caller) (string, error) {
	jobs, err := manager.List(ctx, caller)
	if err != nil {
		return "", err
	}
	if len(jobs) == 0 {
		return p.T("No prompt is scheduled here.") + " " + p.T(cronUsage), nil
	}
	var b strings.Builder
	b.WriteString(p.T("**Scheduled prompts**") + "\n\n")
	for _, j := range jobs {
		b.WriteString("- " + formatJob(p, j) + "\n")
	}
	return b.String(), nil
}

func formatJobHistory(ctx context.Context, c command.Call, manager *schedule.Manager, caller schedule.Caller, name string) (string, error) {
	occurrences, err := manager.History(ctx, caller, name, 15)
	if err != nil {
		return "", err
	}
	if len(occurrences) == 0 {
		return c.T("Nothing was due yet."), nil
	}
	var b strings.Builder
	for _, s := range occurrences {
		fmt.Fprintf(&b, "- %s `%s` %s", s.DueAt.Format("2006-01-02 15:04 MST"), s.Job, c.Translate(string(s.State)))
		if s.Result != "" {
			b.WriteString(", " + c.Translate(string(s.Result)))
		}
		if s.Reason != "" {
			b.WriteString(": " + s.Reason)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
