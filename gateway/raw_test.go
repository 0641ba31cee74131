package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/internal/secret"
)

// A rawAdapter is a platform whose clients read Markdown and wait for answers.
type rawAdapter struct {
	*fakeAdapter
	mu    sync.Mutex // guards the fields below
	shown []chat.Outbound
}

func (r *rawAdapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 10, TextSize: func(t chat.RichText) int { return len(t.Text) }, EditInterval: 50 * time.Millisecond, RawMarkdown: true}
}

func (r *rawAdapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	r.note(m)
	return r.fakeAdapter.Send(ctx, m)
}

func (r *rawAdapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	r.note(m)
	return r.fakeAdapter.Edit(ctx, id, m)
}

func (r *rawAdapter) note(m chat.Outbound) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = append(r.shown, m)
}

// playRaw sends one message to the scripted model and returns the outbound messages of
// a raw platform, in order.
func playRaw(t *testing.T, masker *secret.Masker, answers ...llmtest.Answer) []chat.Outbound {
	t.Helper()
	w := newHarness(t, answers...)
	raw := &rawAdapter{fakeAdapter: w.adapter}
	w.tools = []tool.Tool{lookupTool{}}
	w.configure = func(o *gatewaytest.Options) {
		o.Accounts, o.Masker, o.Progress = accountsOf(raw), masker, "all"
	}
	w.start()
	w.sendText("7", "hello")
	w.advance(time.Hour)
	w.stop()
	return raw.shown
}

func TestRawPreviewsArePrefixesOfFinalText(t *testing.T) {
	const md = "# Title\n\n**bold** and `code`, *much* longer than ten bytes\n\n- one\n- two"
	synctest.Test(t, func(t *testing.T) {
		shown := playRaw(t, nil,
			llmtest.Answer{Text: "Let me *look*.", Delay: 400 * time.Millisecond, Calls: []llmtest.Call{{Name: "lookup", Input: `{"what":"x"}`}}},
			llmtest.Answer{Text: md, Delay: 90 * time.Millisecond, Usage: llm.Usage{Input: 50, CacheRead: 30, Output: 20}})
		final := shown[len(shown)-1]
		if want := "Let me *look*.\n\n" + md; final.Text.Text != want || len(final.Text.Spans) > 0 {
			t.Errorf("final %q, want %q", final.Text.Text, want)
		}
		if d := cmp.Diff(&chat.ReplyContext{Purpose: chat.PurposeAnswer, IDs: []string{"1"}, Usage: &chat.Usage{Prompt: 90, Cached: 30, Output: 24}}, final.ReplyContext); d != "" {
			t.Error(d)
		}
		if len(shown) < 4 {
			t.Errorf("%d previews are not a stream", len(shown)-1)
		}
		for i, m := range shown[:len(shown)-1] {
			if m.ReplyContext.Purpose != chat.PurposePreview || !strings.HasPrefix(final.Text.Text, m.Text.Text) {
				t.Errorf("preview %d (%s) %q is not a beginning of the final text", i, m.ReplyContext.Purpose, m.Text.Text)
			}
			if i > 0 && len(m.Text.Text) <= len(shown[i-1].Text.Text) {
				t.Errorf("preview %d %q brings nothing new", i, m.Text.Text)
			}
		}
	})
}

func TestRawPreviewStopsBeforeSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &secret.Masker{}
		m.Add("sk-verysecret-0123456789")
		shown := playRaw(t, m, llmtest.Answer{Text: "The key is sk-verysecret-0123456789, and sk-very is a beginning.", Delay: 200 * time.Millisecond})
		const want = "The key is <secret>, and sk-very is a beginning."
		for _, o := range shown {
			if !strings.HasPrefix(want, o.Text.Text) {
				t.Errorf("shown: %q", o.Text.Text)
			}
		}
		if got := shown[len(shown)-1].Text.Text; got != want {
			t.Errorf("final %q", got)
		}
	})
}

func TestRawFailureHasPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := playRaw(t, nil, llmtest.Fail(llm.Auth))
		if len(shown) != 1 || shown[0].ReplyContext.Purpose != chat.PurposeFailure || shown[0].ReplyContext.IDs[0] != "1" || !strings.Contains(shown[0].Text.Text, "refuses the key") {
			t.Errorf("got %+v", shown)
		}
	})
}

func TestRawContextIsAbsentElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("hi"))
		w.start()
		w.sendText("7", "hello")
		w.advance(time.Minute)
		rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
		if err != nil || len(rows) != 1 || rows[0].Msg.ReplyContext != nil || rows[0].Role != outbox.Reply {
			t.Errorf("rows %+v, %v", rows, err)
		}
		w.stop()
	})
}
