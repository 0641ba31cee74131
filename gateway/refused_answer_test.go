package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/gateway/reply"
	"hermesd/gateway/store"
)

// When a platform refuses what an answer contains, its chat is told. When nothing can be
// sent to the chat, only the operator can be.
func TestRefusedAnswerIsReported(t *testing.T) {
	blocked := &chat.SendError{Outcome: chat.Permanent, Refused: true, Reason: "the server's AutoMod has blocked the text"}
	tooBig := &chat.SendError{Outcome: chat.Permanent, Refused: true, Reason: "the file is too big"}
	const notice = "⚠️ I could not send an answer: the server's AutoMod has blocked the text."
	for name, c := range map[string]struct {
		faults []fault
		want   []string
	}{
		"text":              {[]fault{{op: "send", before: blocked}}, []string{"file report.pdf", notice}},
		"file":              {[]fault{{op: "send"}, {op: "send", before: tooBig}}, []string{"Here it is.", "⚠️ I could not send the file report.pdf: the file is too big."}},
		"kind of file":      {[]fault{{op: "send"}, {op: "send", before: &chat.SendError{Outcome: chat.Permanent, Reason: "no files here"}}}, []string{"Here it is.", "⚠️ I could not send the file report.pdf: no files here."}},
		"text and notice":   {[]fault{{op: "send", before: blocked}, {op: "send"}, {op: "send", before: blocked}}, []string{"file report.pdf"}},
		"no longer allowed": {[]fault{{op: "send", before: &chat.SendError{Outcome: chat.Permanent, Reason: "blocked"}}}, []string{"file report.pdf"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("Here it is.\nMEDIA:/work/report.pdf"))
				w.configure = func(o *gatewaytest.Options) {
					o.Streaming = false
					o.Attach = func(string, reply.AttachScope) (chat.File, error) {
						return chat.File{Kind: chat.Document, Name: "report.pdf", Path: "/work/report.pdf"}, nil
					}
				}
				w.adapter.addFaults(c.faults...)
				w.start()
				defer w.stop()
				w.sendText("7", "where is it?")
				w.advance(time.Hour)
				if d := cmp.Diff(c.want, w.adapter.visible("7")); d != "" {
					t.Errorf("a person sees (-want +got):\n%s", d)
				}
			})
		})
	}
}

// The process dies before or after the write that settles a refused answer: its chat is told
// once. The write also registers the attempt to send the notice, hence the mark.
func TestRefusedAnswerIsReportedOnceAcrossCrash(t *testing.T) {
	blocked := fault{op: "send", before: &chat.SendError{Outcome: chat.Permanent, Refused: true, Reason: "blocked"}}
	const notice = "⚠️ I could not send an answer: blocked."
	for stored, want := range map[bool]string{false: notice, true: "(may be a repeat)\n" + notice} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Say("Here it is."))
			w.configure = func(o *gatewaytest.Options) {
				o.Streaming, o.Store, o.Log = false, &lastSettleStore{o.Store, stored}, nil
			}
			w.adapter.addFaults(blocked)
			w.start()
			w.sendText("7", "where is it?")
			w.advance(time.Minute)
			w.kill()
			if !stored { // the answer is sent again
				w.adapter.addFaults(blocked)
			}
			w.configure = func(o *gatewaytest.Options) { o.Streaming = false }
			w.start()
			defer w.stop()
			w.advance(time.Hour)
			if d := cmp.Diff([]string{want}, w.adapter.visible("7")); d != "" {
				t.Errorf("stored %v: a person sees (-want +got):\n%s", stored, d)
			}
		})
	}
}

// A lastSettleStore is the store of a process that dies before or after the write that makes
// a row dead.
type lastSettleStore struct {
	store.Store
	stored bool
}

func (s *lastSettleStore) Settle(ctx context.Context, t outbox.Settlement) error {
	if t.State != outbox.Dead {
		return s.Store.Settle(ctx, t)
	}
	if s.stored {
		if err := s.Store.Settle(ctx, t); err != nil {
			return err
		}
	}
	return chat.ErrOutcomeUnknown
}
