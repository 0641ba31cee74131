package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/internal/secret"
)

func TestPreviewOfSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: strings.Repeat("more and more words ", 10) + "end", Delay: 2 * time.Second})
		w.start()
		defer w.stop()
		w.sendText("7", "tell me")
		w.advance(10 * time.Minute)
		if n := len(w.adapter.messages); n != 1 || w.adapter.messages[0].edits == 0 || w.adapter.typingCalls == 0 {
			t.Errorf("%d messages, %+v, typing %d times\n%s", n, w.adapter.messages, w.adapter.typingCalls, w.adapter.history())
		}
		if got := w.adapter.visible("7"); len(got) != 1 || !strings.HasSuffix(got[0], "end") {
			t.Errorf("in the end a person sees %q", got)
		}
	})
}

var noEdits = &chat.SendError{Outcome: chat.Permanent, Reason: "messages of this chat are not changed"}

func TestPreviewFaultsKeepFinalTextOnce(t *testing.T) {
	faults := map[string][]fault{
		"refused":                {{op: "send", before: rateLimitError(0)}},
		"unanswered":             {{op: "send", after: errors.New("connection cut")}},
		"edits refused":          {{op: "edit", before: rateLimitError(0)}, {op: "edit", before: rateLimitError(0)}, {op: "edit", before: rateLimitError(0)}},
		"flood control":          {{op: "edit", before: rateLimitError(40 * time.Second)}},
		"edit hangs":             {{op: "edit", delay: time.Hour}},
		"edit unclear":           {{op: "edit", after: errors.New("connection cut")}},
		"edits refused for ever": {{op: "edit", before: noEdits}, {op: "edit", before: noEdits}},
		"message gone":           {{op: "edit", before: fmt.Errorf("deleted: %w", chat.ErrGone)}, {op: "edit", before: fmt.Errorf("deleted: %w", chat.ErrGone)}},
		"preview is slow":        {{op: "send", delay: 20 * time.Second}},
	}
	for name, fs := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 3 * time.Second})
				w.adapter.addFaults(fs...)
				w.start()
				defer w.stop()
				w.sendText("7", "tell me")
				w.advance(3 * time.Hour)
				n := 0
				for _, text := range w.adapter.visible("7") {
					if strings.HasSuffix(text, "end") {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the answer is there %d times:\n%s", n, w.adapter.history())
				}
				if _, rows := w.unfinished(); len(rows) != 0 {
					for _, r := range rows {
						if r.Role == outbox.Reply {
							t.Errorf("left in the outbox: %+v", r)
						}
					}
				}
			})
		})
	}
}

// A preview never shows the beginning of a secret.
func TestPreviewStopsBeforeSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "The key is sk-verysecret-0123456789, and that is all.", Delay: 6 * time.Second})
		w.configure = func(o *gatewaytest.Options) {
			o.Masker = &secret.Masker{}
			o.Masker.Add("sk-verysecret-0123456789")
		}
		w.start()
		defer w.stop()
		w.sendText("7", "tell me")
		w.advance(time.Minute)
		if all := w.adapter.history(); strings.Contains(all, "sk-") || strings.Count(all, "7 <") != 1 || !strings.Contains(all, "The key is <secret>, and that is all.") {
			t.Errorf("shown:\n%s", all)
		}
	})
}

// A preview that arrived without a receipt stays. The answer repeats it, unless it shows no
// part of the answer.
func TestAnswerAfterLostPreviewIsMarked(t *testing.T) {
	for _, editFirst := range []bool{false, true} {
		t.Run(fmt.Sprint("edit_first ", editFirst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 3 * time.Second})
				w.configure = func(o *gatewaytest.Options) { o.EditFirst = editFirst }
				w.adapter.addFaults(fault{op: "send", after: errors.New("connection cut")})
				w.start()
				defer w.stop()
				w.sendText("7", "tell me")
				w.advance(time.Hour)
				got := w.adapter.visible("7")
				if len(got) != 2 || !strings.HasSuffix(got[1], "end") || strings.HasPrefix(got[1], outbox.RepeatNotice) == editFirst {
					t.Errorf("a person sees %q", got)
				}
			})
		})
	}
}

// The answer does not become an edit of a preview while activity is being shown, but it
// follows it.
func TestAnswerAfterLostBusyPreviewIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 5500 * time.Millisecond})
		hang := fault{op: "typing", delay: time.Minute}
		w.adapter.addFaults(fault{op: "send", after: errors.New("connection cut")}, hang, hang, hang)
		w.start()
		defer w.stop()
		w.sendText("7", "tell me")
		w.advance(time.Hour)
		got := w.adapter.visible("7")
		if len(got) != 2 || !strings.HasPrefix(got[1], outbox.RepeatNotice) || !strings.HasSuffix(got[1], "end") {
			t.Errorf("a person sees\n%s", w.adapter.history())
		}
	})
}

// A preview repeats an earlier one of the same messages that arrived without a receipt.
func TestPreviewAfterLostPreviewIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := llmtest.Answer{Text: strings.Repeat("word ", 2000) + "end", Delay: 3 * time.Second}
		w := newHarness(t, slow, slow, llmtest.Say("word end"))
		lost := fault{op: "send", after: errors.New("connection cut")}
		w.adapter.addFaults(lost, lost)
		w.start()
		defer w.stop()
		for _, text := range []string{"one", "two", "three"} {
			w.sendText("7", text)
			w.advance(5 * time.Second)
		}
		w.advance(time.Hour)
		got := w.adapter.visible("7")
		if len(got) != 3 {
			t.Fatalf("a person sees\n%s", w.adapter.history())
		}
		for i, text := range got {
			if len(text) > 4096 || strings.HasPrefix(text, outbox.RepeatNotice+"\nword ") != (i > 0) || strings.HasSuffix(text, "end") != (i == 2) {
				t.Errorf("message %d has %d bytes: %.40q", i, len(text), text)
			}
		}
	})
}

// Edits of such a preview keep the mark. A status in it is no repeat.
func TestEditsAfterLostPreviewAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 3 * time.Second}
		w := newHarness(t, slow, llmtest.Use("lookup", `{"query":"trains"}`), slow)
		w.tools = []tool.Tool{lookupTool{}}
		w.configure = func(o *gatewaytest.Options) { o.Progress = "new" }
		w.adapter.addFaults(fault{op: "send", after: errors.New("connection cut")})
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		w.advance(5 * time.Second)
		w.sendText("7", "two")
		w.advance(time.Hour)
		log := w.adapter.history()
		if got := w.adapter.visible("7"); len(got) != 2 || !strings.HasSuffix(got[1], "end") {
			t.Errorf("a person sees %q", got)
		}
		if n := strings.Count(log, " ~ "); n < 2 || n != strings.Count(log, " ~ "+outbox.RepeatNotice+" | word ") || !strings.Contains(log, "< 🔧 lookup\n") {
			t.Errorf("edits without a mark:\n%s", log)
		}
	})
}
