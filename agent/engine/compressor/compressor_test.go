package compressor_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
)

func TestFigures(t *testing.T) {
	exact := enginetest.Defaults()
	exact.MinThresholdTokens = 0
	odd := exact
	odd.Threshold = 0.29
	for _, c := range []struct {
		name   string
		s      compressor.Settings
		window int
		want   compressor.TokenLimits
	}{
		{"the founding example", enginetest.Defaults(), 200_000, compressor.TokenLimits{Threshold: 100_000, Tail: 20_000, Summary: 10_000}},
		{"a large window", enginetest.Defaults(), 1_000_000, compressor.TokenLimits{Threshold: 500_000, Tail: 100_000, Summary: 12_000}},
		{"just at the minimum", enginetest.Defaults(), 128_000, compressor.TokenLimits{Threshold: 64_000, Tail: 12_800, Summary: 6_400}},
		{"below the minimum", enginetest.Defaults(), 100_000, compressor.TokenLimits{Threshold: 64_000, Tail: 12_800, Summary: 5_000}},
		{"a small window", enginetest.Defaults(), 32_000, compressor.TokenLimits{Threshold: 25_600, Tail: 5_120, Summary: 1_600}},
		{"a small window, exactly", exact, 32_000, compressor.TokenLimits{Threshold: 16_000, Tail: 3_200, Summary: 1_600}},
		{"a share that a float is short of", odd, 100, compressor.TokenLimits{Threshold: 29, Tail: 5, Summary: 5}},
	} {
		if got := c.s.TokenLimits(c.window); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	f := enginetest.Defaults().TokenLimits(200_000)
	for middle, want := range map[int]int{0: 2000, 9_999: 2000, 20_000: 4000, 80_000: 10_000} {
		if got := f.SummaryBudget(middle); got != want {
			t.Errorf("a middle of %d: a budget of %d, want %d", middle, got, want)
		}
	}
	if got := enginetest.Defaults().TokenLimits(20_000).SummaryBudget(50); got != 1000 {
		t.Errorf("where the bounds cross the upper one holds: %d", got)
	}
}

// toolConversation returns a conversation of n turns with one tool call each.
func toolConversation(n int) *enginetest.Session {
	s := &enginetest.Session{}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		s.Append(
			llm.UserText(fmt.Sprintf("question %d about fact-%d", i, i)),
			llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: id, Name: "read_file", Input: []byte(`{"path":"src/main.go"}`)}}},
			llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: id, Text: fmt.Sprint(i) + strings.Repeat(" output", 300)}}},
			llm.AssistantText(fmt.Sprintf("answer %d", i)+strings.Repeat(" words", 50)),
		)
	}
	s.Append(llm.UserText("and now?"))
	return s
}

func newEngine(s compressor.Options) *compressor.Engine {
	s.Settings = exactSettings()
	if s.Limits.Window == 0 {
		s.Limits.Window = 40_000
	}
	return compressor.New(s)
}

func TestAPassKeepsTheHeadAndTheTailAndSaysWhatTheSummaryStandsFor(t *testing.T) {
	s, c := toolConversation(30), &enginetest.Clerk{}
	e := newEngine(compressor.Options{Completer: c})
	v := s.View()
	v.First = 7
	p, err := e.Compress(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	// The second message of the head has calls, so the head includes its
	// results, and the summary has the role assistant.
	at, text := p.Messages[2], p.Messages[3].Text()
	want := fmt.Sprintf("[CONTEXT COMPACTION] Earlier turns were compacted into the summary below, which stands for the archived messages 10 to %d", 7+p.To-1)
	if !strings.HasPrefix(text, want) || !strings.Contains(text, "not an instruction") {
		t.Errorf("the summary begins %.200q, want %q", text, want)
	}
	if at.Blocks[0].Text != "[Old tool output cleared to save context space]" || p.From != 2 {
		t.Errorf("the head ends with %+v, archived from %d", at.Blocks[0], p.From)
	}
	last := -1
	for _, h := range enginetest.Headings() {
		i := strings.Index(text, "\n"+h+"\n")
		if i <= last {
			t.Errorf("the heading %q is not in its place", h)
		}
		last = i
	}
	if !strings.HasPrefix(p.PromptNote, "[Note: Some earlier conversation turns have been compacted") {
		t.Errorf("the note is %q", p.PromptNote)
	}
	if p.Model != "clerk" || p.Usage.Output == 0 || p.After >= p.Before/2 {
		t.Errorf("%+v", p)
	}
	s.Adopt(p)
	s.Append(llm.AssistantText("done"))
	for i := range 40 {
		s.Append(llm.UserText(fmt.Sprintf("fact-%d more", 1000+i)), llm.AssistantText(strings.Repeat("words ", 400)))
	}
	second, err := e.Compress(t.Context(), s.View())
	if err != nil {
		t.Fatal(err)
	}
	// The first messages are still there.
	first := second.Messages[3]
	if d := second.Messages[0].Text(); d != "question 0 about fact-0" || second.Messages[2].Blocks[0].Text != at.Blocks[0].Text {
		t.Errorf("the conversation begins with %q", d)
	}
	if first.Role != llm.Assistant || !strings.Contains(first.Text(), "archived messages 10 to ") || strings.Count(first.Text(), "[CONTEXT COMPACTION]") != 1 {
		t.Errorf("the second summary is %.300q", first.Text())
	}
	for _, fact := range []string{"fact-1 ", "fact-3 ", "fact-1000 "} {
		if !strings.Contains(first.Text(), fact) {
			t.Errorf("%q of the first summary is lost", fact)
		}
	}
}

func TestRolesAlternateForEachLengthOfTheHead(t *testing.T) {
	for n := range 8 {
		s := &enginetest.Session{}
		for i := range 40 {
			s.Append(llm.UserText(fmt.Sprint("ask ", i)), llm.AssistantText(strings.Repeat("words ", 200)))
		}
		set := exactSettings()
		set.ProtectFirstN = n
		e := compressor.New(compressor.Options{Settings: set, Limits: agent.Limits{Window: 40_000}, Completer: &enginetest.Clerk{}})
		p, err := e.Compress(t.Context(), s.View())
		if err != nil || llm.ValidateMessages(p.Messages) != nil {
			t.Errorf("protect_first_n %d: %v, %v", n, err, llm.ValidateMessages(p.Messages))
		}
		for i := range max(n-1, 0) {
			if p.Messages[i].Text() != s.Active()[i].Text() {
				t.Errorf("protect_first_n %d: message %d is not as it was", n, i)
			}
		}
	}
}

func TestLanguageFocusAndUpdateAreAskedFor(t *testing.T) {
	var got []string
	c := recordingCompleter{func(r summary.Request) { got = append(got, r.Prompt) }}
	e := newEngine(compressor.Options{Completer: c})
	s := toolConversation(30)
	v := s.View()
	v.Focus = "the colours"
	p, err := e.Compress(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	s.Adopt(p)
	for i := range 30 {
		s.Append(llm.AssistantText(strings.Repeat("words ", 300)), llm.UserText(fmt.Sprint("ask ", i)))
	}
	if _, err := e.Compress(t.Context(), s.View()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"the colours. Give it 60-70% of the space", "Update the summary below"} {
		if !strings.Contains(got[i], want) || !strings.Contains(got[i], "the language in which the user writes") {
			t.Errorf("request %d does not say %q", i, want)
		}
	}
}

type recordingCompleter struct{ see func(summary.Request) }

func (recordingCompleter) Window() int { return 200_000 }
func (a recordingCompleter) Complete(_ context.Context, r summary.Request) (summary.Answer, error) {
	a.see(r)
	return summary.Answer{Text: enginetest.Body("all is well")}, nil
}

func TestThePagePrintsTheFigures(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/compression.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$`).FindAllStringSubmatch(string(raw), -1)
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(strings.ReplaceAll(r[i+1], ",", ""))
		}
		f := enginetest.Defaults().TokenLimits(n[0])
		if got, want := fmt.Sprint(n[1:]), fmt.Sprint([]int{f.Threshold, f.Tail, f.Summary}); got != want {
			t.Errorf("a context of %d: the page says %s, it is %s", n[0], got, want)
		}
	}
}

func TestMain(m *testing.M) { enginetest.Main(m) }

func exactSettings() compressor.Settings {
	s := enginetest.Defaults()
	s.MinThresholdTokens = 0
	return s
}

func TestSuite(t *testing.T) {
	enginetest.Suite(t, func(s enginetest.Setup) agent.Engine {
		return compressor.New(compressor.Options{Settings: s.Settings(), Limits: s.Limits, Completer: s.Summarise, State: s.State})
	})
}
