package gateway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/reply"
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
