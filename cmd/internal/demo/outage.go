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

// tell prints what happens on a platform, with the time since the part began.
func (t *tour) tell(p chat.Platform, format string, args ...any) {
	t.event(title(p), fmt.Sprintf(format, args...))
}

// self prints what happens to the daemon.
func (t *tour) self(format string, args ...any) {
	t.event(bold.Render("hermesd"), fmt.Sprintf(format, args...))
}

func (t *tour) event(who, what string) { t.print(t.line(who, what)) }

func (t *tour) line(who, what string) string {
	at := faint.Render(fmt.Sprintf("%5.2f s", time.Since(t.begun).Seconds()))
	return hang(at+"  "+lipgloss.NewStyle().Width(len(chat.Telegram)+2).Render(who), plain, what, t.width)
}

// spoken prints what Ann has said.
func (t *tour) spoken(r room, m message) {
	t.tell(r.platform(), "› %s", bold.Render(saying{text: m.text}.short()))
}

// heard prints what the bot has said since the last time.
func (t *tour) heard(r room) {
	for _, one := range t.news(r) {
		t.tell(r.platform(), "  %s", one.short())
	}
}

// killed ends the daemon by SIGKILL while it works on a message, and lets Ann
// speak on all platforms while it is gone.
func (t *tour) killed(ctx context.Context) error {
	t.head("kill -9 in the middle of a turn")
	r := t.room(chat.Telegram)
	m := r.say(t.number("please read file shopping.txt and think about it for a while"))
	t.spoken(r, m)
	if err := t.typing(ctx); err != nil {
		return err
	}
	if err := t.count(ctx); err != nil {
		return err
	}
	t.Kill()
	t.self("%s gone in the middle of the turn. Ann goes on, on all three", bad.Render("✗ kill -9:"))
	late := make([]message, len(t.rooms))
	for i, r := range t.rooms {
		late[i] = r.say(t.number(fmt.Sprintf("what is %d + 2?", i+2)))
		t.spoken(r, late[i])
	}
	begin := time.Now()
	if err := t.up(ctx); err != nil {
		return err
	}
	t.self("%s started again, connected to all three after %d ms", good.Render("●"), time.Since(begin).Milliseconds())
	return t.together(func(i int, r room) error {
		if r.platform() == chat.Telegram {
			if err := t.answered(ctx, m); err != nil {
				return err
			}
		}
		if err := t.answered(ctx, late[i]); err != nil {
			return err
		}
		t.heard(r)
		return nil
	})
}

// typing waits until the daemon shows on Telegram that it works.
func (t *tour) typing(ctx context.Context) error {
	seen := t.Telegram.Ledger().Counts().ByMethod["sendchataction"]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return t.Telegram.Ledger().WaitFor(ctx, func(l *telegram.Ledger) bool { return l.Counts().ByMethod["sendchataction"] > seen })
}

// outages are trouble on Discord and on Slack, at the same time.
func (t *tour) outages(ctx context.Context) error {
	t.head("Discord forgets the session; Slack loses an acknowledgement")
	meanwhile := t.fill(ctx)
	err := t.together(func(_ int, r room) error {
		switch r.platform() {
		case chat.Discord:
			return t.forgotten(ctx, r)
		case chat.Slack:
			return t.unheard(ctx, r)
		}
		return nil
	})
	return errors.Join(err, t.told(meanwhile))
}

// forgotten: Discord has lost the session, so what is said then reaches nobody,
// and there is nothing to resume.
func (t *tour) forgotten(ctx context.Context, r room) error {
	before := t.discord.Ledger().Counts()
	t.discord.ForgetSessions()
	t.tell(chat.Discord, "%s what Ann says now reaches nobody, and no session can be resumed", bad.Render("✗ session forgotten:"))
	var said []message
	for _, text := range []string{"what is 20 / 4?", "what is 20 / 5?"} {
		said = append(said, r.say(t.number(text)))
		t.spoken(r, said[len(said)-1])
	}
	t.discord.CloseAll(discord.CloseSessionTimedOut)
	for _, m := range said {
		if err := t.answered(ctx, m); err != nil {
			return err
		}
	}
	after := t.discord.Ledger().Counts()
	missed := 0
	for _, o := range t.discord.Ledger().Offers("MESSAGE_CREATE") {
		if o.Sessions == 0 && slices.ContainsFunc(said, func(m message) bool { return m.id == o.Message }) {
			missed++
		}
	}
	if missed != len(said) || after.Identifies == before.Identifies || after.Resumes != before.Resumes {
		return fmt.Errorf("the outage on Discord did not happen: %d of %d messages missed, %d new sessions, %d resumed",
			missed, len(said), after.Identifies-before.Identifies, after.Resumes-before.Resumes)
	}
	t.tell(chat.Discord, "%s a new session; %d messages that no event told of were read from the history", good.Render("●"), missed)
	t.heard(r)
	return nil
}

// unheard: Slack does not get the acknowledgement of an event, and sends it
// again.
func (t *tour) unheard(ctx context.Context, r room) error {
	text := t.number("what is 6 * 9?")
	mine := func(o slack.Offer) bool { return o.Kind == "message" && strings.Contains(o.Text, text) }
	t.app.Spoil(slack.LoseAck, 1, mine)
	m := r.say(text)
	t.spoken(r, m)
	if err := t.answered(ctx, m); err != nil {
		return err
	}
	t.heard(r)
	t.tell(chat.Slack, "%s the event was answered, but Slack has not heard so and waits 3 s", bad.Render("✗ acknowledgement lost:"))
	var offer slack.Offer
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	err := t.slack.Ledger().WaitFor(ctx, func(l *slack.Ledger) bool {
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
	if again := t.news(r); len(again) > 0 {
		return errors.New("the event that Slack sent again was answered again: " + again[0].text)
	}
	t.tell(chat.Slack, "%s sent %d times, known by its key, acknowledged now: one turn, one answer", good.Render("●"), len(offer.Deliveries))
	return nil
}
