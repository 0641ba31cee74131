package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
)

// runRestart requests a restart, presses the button and is killed at one point. It
// returns the number of points passed.
func runRestart(t *testing.T, at int) (points int) {
	synctest.Test(t, func(t *testing.T) {
		restarts := 0
		s := newKillSweep(t, at)
		set := s.configure
		s.configure = func(o *gatewaytest.Options) {
			set(o)
			o.Access, o.Host = ownerChecker(t), &fakeHost{restart: func() { restarts++ }}
		}
		s.start()
		s.offered = append(s.offered, s.newMessage("7", "/restart"))
		s.deliver(s.offered[0])
		s.advance(time.Second)
		if len(s.adapter.buttons) > 0 && !s.reaper.killed() {
			press := s.newMessage("7", s.adapter.buttons[0][0].Data)
			press.IdempotencyKey, press.Kind = "press", chat.Callback
			s.offered = append(s.offered, press)
			s.deliver(press)
			s.advance(time.Second)
		}
		points = s.reaper.n
		if s.reaper.killed() {
			s.restart()
		}
		for _, m := range s.offered {
			if o := s.outcome(m.IdempotencyKey); o != "replied" {
				t.Errorf("%q ended %s", m.Text, o)
			}
		}
		plain := map[string]int{}
		for _, text := range s.adapter.visible("7") {
			plain[text]++
		}
		for text, n := range plain {
			if n > 1 && !strings.HasPrefix(text, "(may be a repeat)") {
				t.Errorf("%q is shown %d times", text, n)
			}
		}
		if restarts > 1 || at == 0 && restarts != 1 {
			t.Errorf("%d restarts", restarts)
		}
		if lanes, rows := s.unfinished(); len(lanes)+len(rows) != 0 {
			t.Errorf("left open: %v, %+v", lanes, rows)
		}
		if t.Failed() {
			t.Logf("died %s\n%s", s.reaper.diedAt, s.adapter.history())
		}
		s.stop()
	})
	return points
}

func TestKillAtAnyPointOfRestart(t *testing.T) {
	points := runRestart(t, 0)
	if points < 10 {
		t.Fatalf("only %d points", points)
	}
	for k := 1; k <= points; k++ {
		t.Run(fmt.Sprint("point ", k), func(t *testing.T) { runRestart(t, k) })
	}
}
