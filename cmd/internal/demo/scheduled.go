package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// dueIn is the delay of the prompt that the demo schedules.
const dueIn = 2 * time.Second

// showSchedule lets Ann schedule a prompt and shows its single occurrence.
func (t *demoRun) showSchedule(ctx context.Context) error {
	r := t.conversation(chat.Telegram)
	t.heading("A prompt that comes by itself")
	t.paragraph("Ann, on Telegram, asks for something in %d seconds, as she would for \"every weekday at 9am\". It runs in a conversation of its own, and its answer comes to her chat:", int(dueIn.Seconds()))
	due := time.Now().Add(dueIn).UTC()
	said, err := t.ask(ctx, r, fmt.Sprintf("/cron add %s what is 6 * 7?", due.Format("2006-01-02T15:04:05Z")))
	if err != nil {
		return err
	}
	var record schedule.Occurrence
	err = t.retry(ctx, "the scheduled prompt", func(ctx context.Context) error {
		return t.daemon(ctx, func(c *admin.Client) error {
			slots, err := c.Slots(ctx, "", 10)
			switch {
			case err != nil:
				return err
			case len(slots) != 1 || slots[0].Delivery != schedule.Delivered:
				return errors.New("scheduled prompt has not run")
			}
			record = slots[0]
			return nil
		})
	})
	if err != nil {
		return err
	}
	came := t.newAnswers(r)
	for _, one := range append(said, came...) {
		who := "  "
		if !one.bot {
			who = "› "
		}
		t.print(t.line(title(chat.Telegram), who+one.short()))
	}
	if len(came) != 1 || !strings.Contains(came[0].text, "42") {
		return fmt.Errorf("a scheduled prompt was to come once: %d messages came", len(came))
	}
	t.print("")
	t.print("  " + bold.Render("$ hermesd cron history"))
	t.print(indent("  ", faint, fmt.Sprintf("%s  %s %s, %d ms late", record.DueAt.Local().Format(time.DateTime), record.State, record.Result, record.Began.Sub(record.DueAt).Milliseconds()), t.width))
	return nil
}
