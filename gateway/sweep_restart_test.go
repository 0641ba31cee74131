package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway"
	"hermesd/gateway/chat"
)

// restarted asks for a restart, presses the button, and dies at one point of it.
// It returns the points that were passed.
func restarted(t *testing.T, at int) (points int) {
	synctest.Test(t, func(t *testing.T) {
		restarts := 0
		s := newSweep(t, at)
		set := s.set
		s.set = func(o *gateway.Options) {
			set(o)
			o.Access, o.Restart = owned(t), func() { restarts++ }
		}
		s.start()
		s.offered = append(s.offered, s.message("7", "/restart"))
		s.give(s.offered[0])
		s.settle(time.Second)
		if len(s.room.buttons) > 0 && !s.reaper.killed() {
			press := s.message("7", s.room.buttons[0][0].Data)
			press.IdempotencyKey, press.Kind = "press", chat.Callback
			s.offered = append(s.offered, press)
			s.give(press)
			s.settle(time.Second)
		}
		points = s.reaper.n
		if s.reaper.killed() {
			s.resurrect()
		}
		for _, m := range s.offered {
			if o := s.outcome(m.IdempotencyKey); o != "replied" {
				t.Errorf("%q ended %s", m.Text, o)
			}
		}
		plain := map[string]int{}
		for _, text := range s.room.visible("7") {
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
		if lanes, rows := s.open(); len(lanes)+len(rows) != 0 {
			t.Errorf("left open: %v, %+v", lanes, rows)
		}
		if t.Failed() {
			t.Logf("died %s\n%s", s.reaper.diedAt, s.room.history())
		}
		s.stop()
	})
	return points
}

func TestAKillAtAnyPointOfARestartRestartsAtMostOnce(t *testing.T) {
	points := restarted(t, 0)
	if points < 10 {
		t.Fatalf("only %d points", points)
	}
	for k := 1; k <= points; k++ {
		t.Run(fmt.Sprint("point ", k), func(t *testing.T) { restarted(t, k) })
	}
}
