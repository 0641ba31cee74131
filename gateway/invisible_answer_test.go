package gateway_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
)

// An answer of which nothing would be visible is asked for again; Markdown that renders to
// nothing is shown as it is written. Otherwise a message would be answered with nothing.
func TestInvisibleAnswerIsNotSilent(t *testing.T) {
	const empty = "The model gave an empty answer"
	for answer, want := range map[string]string{
		"[1]: https://example.com/source": "[1]: https://example.com/source",
		"```\n```":                        "```\n```",
		"#":                               "#",
		"&#8203;":                         "&#8203;",
		"\u200b":                          empty,
		"\u200f\u2060\u00ad\u200d":        empty,
		"\x01\x02":                        empty,
		"\u200fשלום":                      "\u200fשלום", // marks stay where there is text
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, slices.Repeat([]llmtest.Answer{llmtest.Say(answer)}, 3)...)
			w.start()
			defer w.stop()
			w.sendText("7", "hello")
			w.advance(time.Minute)
			if got := w.adapter.visible("7"); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("answer %q is shown as %q", answer, got)
			}
		})
	}
}
