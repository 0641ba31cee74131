package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hermesd/gateway/command"
	"hermesd/gateway/schedule"
)

const cronUsage = "`/cron` lists the scheduled prompts of this chat. `/cron add \"every weekday at 9am\" <prompt>` makes one; `/cron show|pause|resume|run|remove|history <name>`."

// Cron does what /cron says, and tells what came of it.
func (e env) Cron(ctx context.Context, c command.Call) (string, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(c.Args), " ")
	rest = strings.TrimSpace(rest)
	text, err := e.cron(ctx, c, strings.ToLower(verb), rest)
	if errors.Is(err, schedule.ErrInvalid) {
		return "That cannot be: " + err.Error() + ".", nil
	}
	return text, err
}

func (e env) cron(ctx context.Context, c command.Call, verb, rest string) (string, error) {
	book, v := e.g.Jobs(), schedule.Viewer{By: c.By, At: c.In.From, AtName: c.In.ChatName}
	var j schedule.View
	var err error
	switch verb {
	case "", "list":
		return cronList(ctx, book, v)
	case "add", "create":
		when, prompt := quotedFirst(rest)
		if when == "" || prompt == "" {
			return cronUsage, nil
		}
		j, err = book.Create(ctx, v, schedule.JobIDFor(c.In.Key), schedule.Draft{Schedule: &when, Prompt: &prompt})
	case "show":
		j, err = book.Find(ctx, v, rest)
	case "pause":
		j, err = book.Pause(ctx, v, rest)
	case "resume":
		j, err = book.Resume(ctx, v, rest)
	case "run":
		j, err = book.Run(ctx, v, rest, c.In.Key)
	case "remove", "delete":
		if j, err = book.Remove(ctx, v, rest); err == nil {
			return "Removed: " + cronLine(j), nil
		}
	case "history":
		return cronHistory(ctx, book, v, rest)
	default:
		return cronUsage, nil
	}
	if err != nil {
		return "", err
	}
	return cronLine(j), nil
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

func cronLine(j schedule.View) string {
	s := fmt.Sprintf("`%s` **%s**: %s, %s", j.ID, strings.ReplaceAll(j.Name, "*", `\*`), j.Schedule.Text, j.Status)
	var next []string
	for _, t := range j.Next {
		next = append(next, t.Format("Mon 2006-01-02 15:04 MST"))
	}
	if len(next) > 0 {
		s += "; next: " + strings.Join(next, ", ")
	}
	return s + "; goes to " + strings.Join(j.Deliver, ", ")
}

func cronList(ctx context.Context, book *schedule.Book, v schedule.Viewer) (string, error) {
	jobs, err := book.List(ctx, v)
	if err != nil {
		return "", err
	}
	if len(jobs) == 0 {
		return "No prompt is scheduled here. " + cronUsage, nil
	}
	var b strings.Builder
	b.WriteString("**Scheduled prompts**\n\n")
	for _, j := range jobs {
		b.WriteString("- " + cronLine(j) + "\n")
	}
	return b.String(), nil
}

func cronHistory(ctx context.Context, book *schedule.Book, v schedule.Viewer, name string) (string, error) {
	slots, err := book.History(ctx, v, name, 15)
	if err != nil {
		return "", err
	}
	if len(slots) == 0 {
		return "Nothing was due yet.", nil
	}
	var b strings.Builder
	for _, s := range slots {
		fmt.Fprintf(&b, "- %s `%s` %s", s.At.Format("2006-01-02 15:04 MST"), s.Job, s.State)
		if s.Result != "" {
			fmt.Fprintf(&b, ", %s", s.Result)
		}
		if s.Why != "" {
			b.WriteString(": " + s.Why)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
