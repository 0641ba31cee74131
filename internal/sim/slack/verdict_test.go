package slack_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/slack"
)

// TestJudge checks that each fault of an app is found, and nothing else.
func TestJudge(t *testing.T) {
	one, two := slack.Token(1), slack.Token(2)
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, p *place)
		want string // expected Verdict.String, without the examples
	}{
		{"all well", func(t *testing.T, p *place) {
			for _, token := range []string{one, two} {
				m := p.room.Say(p.ann, "hi "+token)
				p.post1(t, p.room, "yes "+token, "thread_ts", m.TS)
			}
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"lost", func(t *testing.T, p *place) {
			p.room.Say(p.ann, one)
			ts := p.post1(t, p.room, one)
			mustOK(t, p.call(t, "chat.delete", "channel", p.room.ID(), "ts", ts))
		}, "1 offered, 0 answered, 1 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"doubled", func(t *testing.T, p *place) {
			p.dm.Say(p.ann, one)
			p.post1(t, p.dm, one)
			p.post1(t, p.dm, one+one)
		}, "1 offered, 1 answered, 0 lost, 1 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"marked as a repeat", func(t *testing.T, p *place) {
			p.dm.Say(p.ann, one)
			p.post1(t, p.dm, one)
			p.post1(t, p.dm, one+" (may be a repeat)")
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 1 repeats, 0 out of order, 0 stray"},
		{"out of order", func(t *testing.T, p *place) {
			p.dm.Say(p.ann, one)
			p.dm.Say(p.ann, two)
			p.post1(t, p.dm, two)
			p.post1(t, p.dm, one)
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 1 out of order, 0 stray"},
		{"two threads have no order", func(t *testing.T, p *place) {
			a, b := p.room.Say(p.ann, one), p.room.Say(p.ann, two)
			p.post1(t, p.room, two, "thread_ts", b.TS)
			p.post1(t, p.room, one, "thread_ts", a.TS)
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"in the wrong thread", func(t *testing.T, p *place) {
			p.room.Say(p.ann, one)
			other := p.room.Say(p.ann, "x")
			p.post1(t, p.room, one, "thread_ts", other.TS)
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray"},
		{"in the wrong channel", func(t *testing.T, p *place) {
			p.room.Say(p.ann, one)
			p.post1(t, p.dm, one)
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray"},
		{"of nobody", func(t *testing.T, p *place) { p.post1(t, p.dm, one) },
			"0 offered, 0 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray"},
		{"what was said first counts", func(t *testing.T, p *place) {
			m := p.dm.Say(p.ann, one)
			_ = p.dm.Edit(m.TS, two)
			ts := p.post1(t, p.dm, "…")
			mustOK(t, p.call(t, "chat.update", "channel", p.dm.ID(), "ts", ts, "markdown_text", "**"+one+"**"))
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
	} {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		tc.do(t, p)
		v := slack.Judge{}.Judge(p.Server)
		got := v.String()
		for strings.Contains(got, " (") {
			open := strings.Index(got, " (")
			got = got[:open] + got[open+strings.Index(got[open:], "])")+2:]
		}
		ok := strings.Contains(tc.want, "0 lost, 0 doubled") && strings.Contains(tc.want, "0 out of order, 0 stray")
		if got != tc.want || v.OK() != ok {
			t.Errorf("%s: %s (ok %v), want %s", tc.name, v, v.OK(), tc.want)
		}
	}
}

func TestJudgeLooksWhereItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		p.dm.Say(p.ann, slack.Token(1))
		p.dm.Say(p.ann, slack.Token(2))
		<-time.After(3 * time.Second)
		p.post1(t, p.dm, slack.Token(2)+" once more")
		p.post1(t, p.dm, slack.Token(1)+" once more")
		p.room.Say(p.ann, slack.Token(3))
		if v := (slack.Judge{Unordered: true, Repeat: "once more"}).Judge(p.Server, p.dm); !v.OK() || v.LongWait != 3*time.Second || len(v.Repeats) != 2 {
			t.Errorf("%s, longest %v", v, v.LongWait)
		}
	})
}
