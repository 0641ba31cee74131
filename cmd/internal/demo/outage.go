package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

// printPlatformEvent prints an event of a platform, with the time since the part began.
func (t *demoRun) printPlatformEvent(p chat.Platform, format string, args ...any) {
	t.printEvent(title(p), fmt.Sprintf(format, args...))
}

// printDaemonEvent prints an event of the daemon.
func (t *demoRun) printDaemonEvent(format string, args ...any) {
	t.printEvent(bold.Render("hermesd"), fmt.Sprintf(format, args...))
}

func (t *demoRun) printEvent(who, what string) { t.print(t.line(who, what)) }

func (t *demoRun) line(who, what string) string {
	at := faint.Render(fmt.Sprintf("%5.2f s", time.Since(t.partStart).Seconds()))
	return indent(at+"  "+lipgloss.NewStyle().Width(len(chat.Telegram)+2).Render(who), plain, what, t.width)
}

// printMessage prints a message of Ann.
func (t *demoRun) printMessage(r conversation, m message) {
	t.printPlatformEvent(r.platform(), "› %s", bold.Render(printedMessage{text: m.text}.short()))
}

// printAnswers prints the new messages of the bot.
func (t *demoRun) printAnswers(r conversation) {
	for _, one := range t.newAnswers(r) {
		t.printPlatformEvent(r.platform(), "  %s", one.short())
	}
}

// showCrash kills the daemon by SIGKILL while it works on a message, and sends messages
// from Ann on all platforms while it is down.
func (t *demoRun) showCrash(ctx context.Context) error {
	t.heading("kill -9 in the middle of a turn")
	r := t.conversation(chat.Telegram)
	m := r.say(t.number("please read file shopping.txt and think about it for a while"))
	t.printMessage(r, m)
	if err := t.typing(ctx); err != nil {
		return err
	}
	if err := t.addBreaks(ctx); err != nil {
		return err
	}
	t.Kill()
	t.printDaemonEvent("%s gone in the middle of the turn. Ann goes on, on all three", bad.Render("✗ kill -9:"))
	late := make([]message, len(t.conversations))
	for i, r := range t.conversations {
		late[i] = r.say(t.number(fmt.Sprintf("what is %d + 2?", i+2)))
		t.printMessage(r, late[i])
	}
	begin := time.Now()
	if err := t.startDaemon(ctx); err != nil {
		return err
	}
	t.printDaemonEvent("%s started again, connected to all three after %d ms", good.Render("●"), time.Since(begin).Milliseconds())
	return t.forEach(func(i int, r conversation) error {
		if r.platform() == chat.Telegram {
			if err := t.waitAnswered(ctx, m); err != nil {
				return err
			}
		}
		if err := t.waitAnswered(ctx, late[i]); err != nil {
			return err
		}
		t.printAnswers(r)
		return nil
	})
}

// typing waits until the daemon shows on Telegram that it is working.
func (t *demoRun) typing(ctx context.Context) error {
	seen := t.Telegram.Recorder().Counts().ByMethod["sendchataction"]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return t.Telegram.Recorder().WaitFor(ctx, func(l *telegram.Recorder) bool { return l.Counts().ByMethod["sendchataction"] > seen })
}

// showOutages shows outages of Discord and Slack at the same time.
func (t *demoRun) showOutages(ctx context.Context) error {
	t.heading("Discord forgets the session; Slack loses an acknowledgement")
	meanwhile := t.startFilling(ctx)
	err := t.forEach(func(_ int, r conversation) error {
		switch r.platform() {
		case chat.Discord:
			return t.showLostSession(ctx, r)
		case chat.Slack:
			return t.showLostAck(ctx, r)
		}
		return nil
	})
	return errors.Join(err, t.printFilling(meanwhile))
}

// showLostSession shows a lost session of Discord: no event reports the messages sent
// meanwhile, and the session cannot be resumed.
func (t *demoRun) showLostSession(ctx context.Context, r conversation) error {
	before := t.discord.Recorder().Counts()
	t.discord.ForgetSessions()
	t.printPlatformEvent(chat.Discord, "%s what Ann says now reaches nobody, and no session can be resumed", bad.Render("✗ session forgotten:"))
	var said []message
	for _, text := range []string{"what is 20 / 4?", "what is 20 / 5?"} {
		said = append(said, r.say(t.number(text)))
		t.printMessage(r, said[len(said)-1])
	}
	t.discord.CloseAll(discord.CloseSessionTimedOut)
	for _, m := range said {
		if err := t.waitAnswered(ctx, m); err != nil {
			return err
		}
	}
	after := t.discord.Recorder().Counts()
	missed := 0
	for _, o := range t.discord.Recorder().Offers("MESSAGE_CREATE") {
		if o.Sessions == 0 && slices.ContainsFunc(said, func(m message) bool { return m.id == o.Message }) {
			missed++
		}
	}
	if missed != len(said) || after.Identifies == before.Identifies || after.Resumes != before.Resumes {
		return fmt.Errorf("the outage on Discord did not happen: %d of %d messages missed, %d new sessions, %d resumed",
			missed, len(said), after.Identifies-before.Identifies, after.Resumes-before.Resumes)
	}
	t.printPlatformEvent(chat.Discord, "%s a new session; %d messages that no event told of were read from the history", good.Render("●"), missed)
	t.printAnswers(r)
	return nil
}

// showLostAck shows a lost acknowledgement of Slack, which sends the event again.
func (t *demoRun) showLostAck(ctx context.Context, r conversation) error {
	text := t.number("what is 6 * 9?")
	mine := func(o slack.Offer) bool { return o.Kind == "message" && strings.Contains(o.Text, text) }
	t.app.Spoil(slack.LoseAck, 1, mine)
	m := r.say(text)
	t.printMessage(r, m)
	if err := t.waitAnswered(ctx, m); err != nil {
		return err
	}
	t.printAnswers(r)
	t.printPlatformEvent(chat.Slack, "%s the event was answered, but Slack has not heard so and waits 3 s", bad.Render("✗ acknowledgement lost:"))
	var offer slack.Offer
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	err := t.slack.Recorder().WaitFor(ctx, func(l *slack.Recorder) bool {
		i := slices.IndexFunc(l.Offers("message"), mine)
		if i < 0 {
			return false
		}
		offer = l.Offers("message")[i]
		return !offer.Acked.IsZero()
	})
	if err != nil {
		return fmt.Errorf("slack did not send the event again: %w", err)
	}
	if n := len(offer.Deliveries); n < 2 {
		return fmt.Errorf("the outage on Slack did not happen: the event was sent %d times", n)
	}
	if again := t.newAnswers(r); len(again) > 0 {
		return errors.New("the event that Slack sent again was answered again: " + again[0].text)
	}
	t.printPlatformEvent(chat.Slack, "%s sent %d times, known by its key, acknowledged now: one turn, one answer", good.Render("●"), len(offer.Deliveries))
	return nil
}
