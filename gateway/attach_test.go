package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/reply"
)

func TestAnswerSendsLinkedPictures(t *testing.T) {
	answer := "See ![the plan](/w/a.png) and ![](file:///w/b.png), not ![web](https://x.test/c.png)\nnor `![code](/w/d.png)`."
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say(answer))
		w.configure = func(o *gatewaytest.Options) {
			o.Attach = func(path string, _ reply.AttachScope) (chat.File, error) {
				return chat.File{Kind: chat.Photo, Name: path, Path: path}, nil
			}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		w.advance(time.Minute)
		want := []string{"See the plan and , not web\nnor ![code](/w/d.png).", "file /w/a.png", "file /w/b.png"}
		if d := cmp.Diff(want, w.adapter.visible("7")); d != "" {
			t.Error(d)
		}
	})
}

func TestAnswerSendsAttachedFiles(t *testing.T) {
	answer := "Here is the plan.\n\nMEDIA:/w/plan.pdf\nMEDIA: `/w/plan.pdf`\n  MEDIA:/etc/passwd\n\n```\nMEDIA:/in/code\n```\nand MEDIA:/in/text"
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say(answer), llmtest.Say("MEDIA:/w/plan.pdf"), llmtest.Say(strings.Repeat("MEDIA:/w/plan.pdf\n", 3)+"MEDIA:/w/a\nMEDIA:/w/b"))
		w.configure = func(o *gatewaytest.Options) {
			o.Attach = func(path string, _ reply.AttachScope) (chat.File, error) {
				if !strings.HasPrefix(path, "/w/") {
					return chat.File{}, errors.New("only files in /w can be sent")
				}
				return chat.File{Kind: chat.Document, Name: path, Path: path}, nil
			}
		}
		w.start()
		defer w.stop()
		for _, text := range []string{"one", "two", "three"} {
			w.sendText("7", text)
			w.advance(time.Minute)
		}
		want := []string{
			"Here is the plan.\n\nMEDIA:/in/code\nand MEDIA:/in/text\n\n⚠️ I could not attach /etc/passwd: only files in /w can be sent.",
			"file /w/plan.pdf", "file /w/plan.pdf", "file /w/plan.pdf", "file /w/a", "file /w/b",
		}
		if d := cmp.Diff(want, w.adapter.visible("7")); d != "" {
			t.Error(d)
		}
		if got := w.transcript()[1].Text(); got != answer {
			t.Errorf("the transcript holds %q", got)
		}
	})
}

// Files above the limit are reported as omitted.
func TestAnswerSendsAtMostTenFiles(t *testing.T) {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "MEDIA:/w/%d\n", i)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say(b.String()))
		w.configure = func(o *gatewaytest.Options) {
			o.Attach = func(path string, _ reply.AttachScope) (chat.File, error) {
				return chat.File{Kind: chat.Document, Name: path, Path: path}, nil
			}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "all of them")
		w.advance(time.Minute)
		seen := w.adapter.visible("7")
		if len(seen) != 11 || seen[0] != "⚠️ I could not attach /w/10: an answer carries 10 files at most." || seen[10] != "file /w/9" {
			t.Errorf("seen: %q", seen)
		}
	})
}

// A silent answer is allowed only for scheduled prompts: a user gets some message.
func TestAnswerIsNeverSilentForUsers(t *testing.T) {
	for _, word := range []string{"[SILENT]", "NO_REPLY"} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Say(word))
			w.start()
			defer w.stop()
			key := w.sendText("7", "hello")
			w.advance(time.Minute)
			if seen := w.adapter.visible("7"); len(seen) != 1 || w.outcome("7:"+key) != "replied" {
				t.Errorf("%s: seen %q", word, seen)
			}
		})
	}
}
