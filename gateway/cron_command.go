package gateway

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

// Cron does what /cron says, and tells what came of it.
func (e env) Cron(ctx context.Context, c command.Call) (string, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(c.Args), " ")
	rest = strings.TrimSpace(rest)
	text, err := e.cron(ctx, c, strings.ToLower(verb), rest)
	if errors.Is(err, schedule.ErrInvalid) {
		return c.T("That cannot be: %v.", err), nil
	}
	return text, err
}

func (e env) cron(ctx context.Context, c command.Call, verb, rest string) (string, error) {
	book, v := e.g.JobManager(), schedule.Caller{Principal: c.Principal, Address: c.Inbound.Address, ChatName: c.Inbound.ChatName}
	var j schedule.JobView
	var err error
	switch verb {
	case "", "list":
		return cronList(ctx, c.Printer, book, v)
	case "add", "create":
		when, prompt := quotedFirst(rest)
		if when == "" || prompt == "" {
			return c.T(cronUsage), nil
		}
		j, err = book.Create(ctx, v, schedule.JobIDFor(c.Inbound.IdempotencyKey), schedule.JobPatch{Schedule: &when, Prompt: &prompt})
	case "show":
		j, err = book.Find(ctx, v, rest)
	case "pause":
		j, err = book.Pause(ctx, v, rest)
	case "resume":
		j, err = book.Resume(ctx, v, rest)
	case "run":
		j, err = book.Run(ctx, v, rest, c.Inbound.IdempotencyKey)
	case "remove", "delete":
		if j, err = book.Remove(ctx, v, rest); err == nil {
			return c.T("Removed: %s", cronLine(c.Printer, j)), nil
		}
	case "history":
		return cronHistory(ctx, c, book, v, rest)
	default:
		return c.T(cronUsage), nil
	}
	if err != nil {
		return "", err
	}
	return cronLine(c.Printer, j), nil
}

// quotedFirst splits `"a b" c d` and `a c d` into the first and the rest.
func quotedFirst(s string) (first, rest string) {
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

// days are the short names of the days of the week.
var days = [...]string{i18n.N("Sun"), i18n.N("Mon"), i18n.N("Tue"), i18n.N("Wed"), i18n.N("Thu"), i18n.N("Fri"), i18n.N("Sat")}

func cronLine(p i18n.Printer, j schedule.JobView) string {
	s := fmt.Sprintf("`%s` **%s**: %s, %s", j.ID, strings.ReplaceAll(j.Name, "*", `\*`), j.Schedule.Text, p.Translate(j.Status))
	var next []string
	for _, t := range j.Next {
		next = append(next, p.Translate(days[t.Weekday()])+t.Format(" 2006-01-02 15:04 MST"))
	}
	if len(next) > 0 {
		s += p.T("; next: %s", strings.Join(next, ", "))
	}
	return s + p.T("; goes to %s", strings.Join(j.Deliver, ", "))
}

func cronList(ctx context.Context, p i18n.Printer, book *schedule.Manager, v schedule.Caller) (string, error) {
	jobs, err := book.List(ctx, v)
	if err != nil {
		return "", err
	}
	if len(jobs) == 0 {
		return p.T("No prompt is scheduled here.") + " " + p.T(cronUsage), nil
	}
	var b strings.Builder
	b.WriteString(p.T("**Scheduled prompts**") + "\n\n")
	for _, j := range jobs {
		b.WriteString("- " + cronLine(p, j) + "\n")
	}
	return b.String(), nil
}

func cronHistory(ctx context.Context, c command.Call, book *schedule.Manager, v schedule.Caller, name string) (string, error) {
	slots, err := book.History(ctx, v, name, 15)
	if err != nil {
		return "", err
	}
	if len(slots) == 0 {
		return c.T("Nothing was due yet."), nil
	}
	var b strings.Builder
	for _, s := range slots {
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
