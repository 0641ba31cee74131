package tokens_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

func TestPrefixAndSuffixHaveAtMostTheTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "text"), rapid.IntRange(0, 30).Draw(t, "tokens")
		head, tail := tokens.Prefix(s, n), tokens.Suffix(s, n)
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || utf8.ValidString(s) && (!utf8.ValidString(head) || !utf8.ValidString(tail)) {
			t.Fatalf("%q and %q of %q", head, tail, s)
		}
		if utf8.RuneCountInString(head) > 1 && tokens.Text(head) > n || tokens.Text(tail) > n || tokens.Text(s) <= n && (head != s || tail != s) {
			t.Fatalf("%d and %d tokens of %d, want at most %d", tokens.Text(head), tokens.Text(tail), tokens.Text(s), n)
		}
		if len(head) < len(s) {
			_, size := utf8.DecodeRuneInString(s[len(head):])
			if tokens.Text(s[:len(head)+size]) <= n {
				t.Fatalf("%q is too short", head)
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestText(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 1, "abcd": 1, "abcde": 2, "日本語": 3, "한국어": 3, "、。": 2, "héllo wörld!": 3, "привет": 3, "🙂": 2, "👩‍👩‍👧": 7,
		"\xff\xfe": 1, "a日": 2,
	} {
		if got := tokens.Text(in); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	text := func(n int) llm.Block { return llm.Block{Type: llm.Text, Text: strings.Repeat("x", n)} }
	for name, c := range map[string]struct {
		blocks []llm.Block
		want   int
	}{
		"nothing":          {nil, 5},
		"text":             {[]llm.Block{text(400)}, 105},
		"picture":          {[]llm.Block{{Type: llm.Image, Path: "/a/picture/of/a/megabyte.png"}}, 1505},
		"call":             {[]llm.Block{{Type: llm.ToolUse, ID: "1234", Name: "read", Input: json.RawMessage(`{"a":"12"}`)}}, 18},
		"result":           {[]llm.Block{{Type: llm.ToolResult, ID: "1234", Text: "12345678"}}, 16},
		"a signed thought": {[]llm.Block{{Type: llm.Thinking, Text: "hm, well"}}, 7},
	} {
		m := llm.Message{Role: llm.User, Blocks: c.blocks, Dialect: "anthropic", Raw: json.RawMessage(`[{"signature":"` + strings.Repeat("s", 4000) + `"}]`)}
		if got := tokens.Message(m); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestRequestIsSumOfParts(t *testing.T) {
	r := &llm.Request{
		System: strings.Repeat("s", 400), SystemOverlay: strings.Repeat("o", 40), Overlay: strings.Repeat("v", 80),
		Tools:   []llm.Tool{{Name: "read", Description: strings.Repeat("d", 96), Schema: json.RawMessage(`{"type":"object"}   `)}},
		Prefill: []llm.Message{llm.UserText("12345678")}, Turn: &llm.TurnOverlay{Text: "1234"},
		Transcript: llm.NewTranscript(llm.UserText("12345678"), llm.UserText("1234")),
	}
	if got, want := tokens.Request(r), 100+10+20+38+7+1+7+6; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got := tokens.Since(r.Transcript, 1); got != 6 {
		t.Errorf("since message 1: got %d, want 6", got)
	}
}

// TestTranscriptIsSumOfMessages also checks that more text never lowers the estimate.
func TestTranscriptIsSumOfMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := llm.NewTranscript()
		want := 0
		for _, s := range rapid.SliceOf(rapid.String()).Draw(t, "texts") {
			m := llm.UserText(s)
			if tokens.Message(m) < 5 || tokens.Text(s+"x") < tokens.Text(s) {
				t.Fatalf("%q counts too little", s)
			}
			want += tokens.Message(m)
			tr.Append(m)
			if got := tokens.Transcript(tr, tr.Len()); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
		}
	})
}

// samples are texts of the kinds found in conversations.
func samples(t testing.TB) map[string]string {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var rows []string
	for i := range 60 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"name":"order %d","total":%d.%02d,"paid":%t,"at":"2026-03-%02dT08:%02d:00Z"}`, i, i*7, i*13, i, i%2 == 0, i%28+1, i))
	}
	return map[string]string{
		"prose":    read("../../../docs/caching.md"),
		"speech":   strings.Repeat("Could you please look at the report that came in this morning and tell me whether anything in it needs an answer before Friday? I would rather not call them again. ", 8),
		"code":     read("tokens.go"),
		"JSON":     "[" + strings.Join(rows, ",") + "]",
		"Chinese":  strings.Repeat("今天早上收到的报告里,有没有什么需要在星期五之前回复的内容?如果有的话,请把要点整理出来,并且告诉我应该先联系谁。", 8),
		"Japanese": strings.Repeat("今朝届いた報告書の中に、金曜日までに返事をしなければならないものがあるかどうか確認していただけますか。もう一度電話するのは避けたいです。", 8),
		"Korean":   strings.Repeat("오늘 아침에 도착한 보고서에 금요일 전에 답해야 할 내용이 있는지 확인해 주시겠어요? 다시 전화하고 싶지는 않습니다. ", 8),
		"Russian":  strings.Repeat("Посмотрите, пожалуйста, есть ли в утреннем отчёте что-нибудь, на что нужно ответить до пятницы. ", 8),
		"emoji":    strings.Repeat("🎉🚀 great 👍🏽 see you 👋 😂😂 ❤️ ", 8),
	}
}

// TestEstimateErrorBounds compares with a real tokenizer and prints the error of the estimate.
func TestEstimateErrorBounds(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	// The allowed error of each kind, in percent.
	bounds := map[string][2]int{
		"prose": {-40, 30}, "speech": {-5, 40}, "code": {-35, 0}, "JSON": {-50, -20}, "Chinese": {10, 60}, "Japanese": {0, 60}, "Korean": {0, 60}, "Russian": {0, 100}, "emoji": {-40, 60},
	}
	for kind, text := range samples(t) {
		real, err := codec.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		got := tokens.Text(text)
		off := 100 * (got - real) / real
		naive := 100 * (utf8.RuneCountInString(text)/4 - real) / real
		t.Logf("%-9s %6d tokens, estimate %6d: %+4d %% (characters/4 alone: %+4d %%)", kind, real, got, off, naive)
		if b := bounds[kind]; off < b[0] || off > b[1] {
			t.Errorf("%s is off by %d %%, outside %v", kind, off, b)
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	for kind, text := range samples(b) {
		if kind != "speech" && kind != "Chinese" && kind != "JSON" {
			continue
		}
		b.Run(kind, func(b *testing.B) {
			for len(text) > 500 {
				text = text[:500]
			}
			m := llm.UserText(text)
			for b.Loop() {
				tokens.Message(m)
			}
		})
	}
}

// BenchmarkTranscript adds one message to a transcript of 100,000 and computes the sum.
func BenchmarkTranscript(b *testing.B) {
	tr := llm.NewTranscript()
	for range 100_000 {
		tr.Append(llm.UserText("a short message of a conversation"))
	}
	tokens.Transcript(tr, tr.Len())
	more := llm.UserText(strings.Repeat("more words ", 40))
	b.ReportAllocs()
	for b.Loop() {
		tr.Append(more)
		tokens.Transcript(tr, tr.Len())
		tr.Truncate(100_000)
	}
}
