package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

// A memory keeps one value.
type memory struct {
	v      []byte
	writes []time.Time
	err    error
}

func (m *memory) Value(context.Context, string) ([]byte, error) { return m.v, m.err }
func (m *memory) SetValue(_ context.Context, _ string, v []byte) error {
	m.writes = append(m.writes, time.Now())
	if m.err == nil {
		m.v = v
	}
	return m.err
}

func ts(n int) string { return inbound.TS(time.Unix(1_700_000_000+int64(n), 0)) }

// said is a message that is meant for us.
func said(channel, thread string, n int) chat.Inbound {
	at := chat.Address{Platform: chat.Slack, Kind: chat.DM, Chat: channel, Thread: thread}
	if thread != "" {
		at.Kind = chat.Thread
	}
	when, _ := inbound.Time(ts(n))
	return chat.Inbound{ID: ts(n), Kind: chat.Message, Address: at, SentAt: when, Addressed: true}
}

func TestItSurvivesARestart(t *testing.T) {
	m := &memory{}
	p := checkpoint.New("k", m, zap.NewNop())
	p.MarkSeen(said("D1", "", 1))
	p.MarkSeen(said("C1", ts(2), 2)) // opens a thread
	other := said("C1", ts(2), 5)
	other.Addressed, other.IgnoreRule = false, "not_addressed"
	p.MarkSeen(other) // in a thread of ours
	p.MarkSeen(chat.Inbound{Kind: chat.Message, ID: "slash.1", Address: said("C9", "", 1).Address, Addressed: true})
	stranger := said("C2", "", 3)
	stranger.Addressed = false
	p.MarkSeen(stranger)
	p.MarkSpoken(chat.Address{Kind: chat.Thread, Chat: "C3", Thread: ts(4)}, ts(6))
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := checkpoint.New("k", m, zap.NewNop())
	q.Recall(t.Context())
	for thread, want := range map[[2]string]bool{{"C1", ts(2)}: true, {"C3", ts(4)}: true, {"C1", ts(1)}: false, {"D1", ts(1)}: false, {"C2", ts(3)}: false} {
		if q.Joined(thread[0], thread[1]) != want {
			t.Errorf("joined %v: %v", thread, !want)
		}
	}
	if !q.Knows("D1") || q.Knows("C2") || q.Knows("C9") || q.Alive().IsZero() {
		t.Error("the places are not those of before")
	}
	got, left := q.HistoryRequests(time.Unix(1_700_000_000, 0))
	want := []checkpoint.HistoryRequest{
		{Channel: "C3", Kind: "channel", Thread: ts(4), Seen: ts(6)}, {Channel: "C1", Kind: "channel", Thread: ts(2), Seen: ts(5)},
		{Channel: "C1", Kind: "channel", Seen: ts(2)}, {Channel: "D1", Kind: "im", Seen: ts(1)},
	}
	slices.SortFunc(got, func(a, b checkpoint.HistoryRequest) int { return -compare(a.Seen, b.Seen) })
	if !slices.Equal(got, want) || left != 0 {
		t.Errorf("visits %+v, %d left", got, left)
	}
	if got, _ := q.HistoryRequests(time.Now().Add(24 * 365 * 100 * time.Hour)); len(got) != 0 {
		t.Errorf("old places are visited: %v", got)
	}
}

func compare(a, b string) int {
	if inbound.After(a, b) {
		return 1
	}
	return -1
}

func TestItStaysWithinItsBounds(t *testing.T) {
	m := &memory{}
	p := checkpoint.New("k", m, zap.NewNop())
	for i := range 6000 {
		p.MarkSeen(said(fmt.Sprint("C", i%700), ts(i), i))
	}
	for i := range 100 {
		if err := p.Uploading(t.Context(), fmt.Sprint("o", i), fmt.Sprint("F", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil || len(m.v) > 150_000 {
		t.Errorf("%d bytes, %v", len(m.v), err)
	}
	if !p.Joined("C399", ts(5999)) || p.Joined("C0", ts(0)) {
		t.Error("the newest is forgotten before the oldest")
	}
	if v, left := p.HistoryRequests(time.Unix(0, 0)); len(v) > 40 || left == 0 {
		t.Errorf("%d visits, %d left", len(v), left)
	}
	if files, sure := p.Uploaded("o99"); !slices.Equal(files, []string{"F99"}) || sure {
		t.Errorf("%v %v", files, sure)
	}
	if files, sure := p.Uploaded("o0"); files != nil || sure {
		t.Errorf("what may have been forgotten is sure: %v %v", files, sure)
	}
}

func TestItIsWrittenAtMostOnceASecondAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		p := checkpoint.New("k", m, zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Keep(ctx) }() // awaited below
		for i := range 100 {
			p.MarkSeen(said("D1", "", i))
			<-time.After(50 * time.Millisecond)
		}
		p.MarkSeen(said("D1", "", 1000))
		stop()
		<-done
		if n := len(m.writes); n < 5 || n > 7 {
			t.Errorf("%d writes in 5 s", n)
		}
		q := checkpoint.New("k", m, zap.NewNop())
		q.Recall(t.Context())
		if v, _ := q.HistoryRequests(time.Unix(0, 0)); len(v) != 1 || v[0].Seen != ts(1000) {
			t.Errorf("the end is lost: %+v", v)
		}
	})
}

func TestAMemoryThatIsBroken(t *testing.T) {
	for _, m := range []*memory{{err: errors.New("disk")}, {v: []byte("{")}, {v: []byte(`{"places":{"D1":null}}`)}, {v: []byte("null")}} {
		p := checkpoint.New("k", m, zap.NewNop())
		p.Recall(t.Context())
		p.MarkSeen(said("D1", "", 1))
		if !p.Knows("D1") {
			t.Errorf("%q: nothing is remembered", m.v)
		}
		if err := p.Uploading(t.Context(), "o", "F"); (err != nil) != (m.err != nil) {
			t.Errorf("%v", err)
		}
	}
}
