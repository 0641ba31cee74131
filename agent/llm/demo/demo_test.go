package demo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/llm"
	"hermesd/agent/llm/demo"
	"hermesd/agent/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	llmtest.Suite(t, func(*testing.T) llmtest.Subject {
		return llmtest.Subject{Provider: demo.New(demo.Options{}), Model: demo.Model}
	})
}

func tool(name, schema string) llm.Tool {
	return llm.Tool{Name: name, Description: "does " + name, Schema: json.RawMessage(schema)}
}

var tools = []llm.Tool{
	tool("memory", `{"type":"object","properties":{"action":{"type":"string","enum":["add","replace","remove"]},"target":{"type":"string","enum":["memory","user"]},"content":{"type":"string"}},"required":["action","target","content"]}`),
	tool("read_file", `{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"}},"required":["path"]}`),
	tool("session_search", `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}}}`),
	tool("todo", `{"type":"object","properties":{"todos":{"type":"array","items":{"type":"object","properties":{"content":{"type":"string"},"status":{"enum":["pending","done"]},"n":{"type":"integer"}},"required":["content","status","n"]}}},"required":["todos"]}`),
}

func ask(t *testing.T, r *llm.Request) llm.Done {
	t.Helper()
	got := llmtest.Collect(demo.New(demo.Options{}).Stream(t.Context(), r))
	if got.Err != nil || got.Done == nil {
		t.Fatalf("no answer: %v", got.Err)
	}
	return *got.Done
}

func TestAnswers(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                                "Hello! I am the built-in demo model",
		"Hi there":                             "Hello!",
		"what is 12 * (3 + 4)?":                "makes 84.",
		"7/2":                                  "makes 3.5.",
		"1/0":                                  "You said: “1/0”",
		"2026-11-05 is a date":                 "You said: “2026-11-05 is a date”",
		"-":                                    "You said",
		"tell me of [[a b]] and #77 please":    "[[a b]]",
		"what is 2+2? #9":                      "makes 4.",
		"[ann] what is 2+2? #9":                "makes 4.",
		"[ann] thank you":                      "You said: “thank you”",
		strings.Repeat("word ", 400) + "[[z]]": "[[z]]",
		"please use nothing":                   "You said: “please use nothing”",
	} {
		got := ask(t, &llm.Request{Transcript: llm.NewTranscript(llm.UserText(in))}).Message.Text()
		if !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q in it", in, got, want)
		}
	}
	r := &llm.Request{Transcript: llm.NewTranscript(llm.UserText("a"), llm.AssistantText("b"), llm.UserText("c"))}
	if got := ask(t, r).Message.Text(); !strings.Contains(got, "3 messages") {
		t.Errorf("got %q", got)
	}
}

func TestCallsTools(t *testing.T) {
	for in, want := range map[string]string{
		"please use todo to buy 3 eggs":              `todo {"todos":[{"content":"buy 3 eggs","status":"pending","n":3}]}`,
		"use the tool session_search for old plans.": `session_search {"query":"old plans"}`,
		`use read_file {"path": "a b"} now`:          `read_file {"path": "a b"}`,
		"read the file /etc/hosts please":            `read_file {"path":"/etc/hosts"}`,
		"Search for green tea":                       `session_search {"query":"green tea"}`,
		"remember that I like tea":                   `memory {"action":"add","target":"memory","content":"I like tea"}`,
		"todo: {\"todos\": []}\nmemory: {\"a\":1}":   `todo {"todos": []} memory {"a":1}`,
		"nosuch: {\"a\":1}":                          "",
		"todo: {broken":                              "",
		"use a spoon, then use todo":                 `todo {"todos":[{"content":"","status":"pending","n":1}]}`,
		"I never use anything":                       "",
		"run the command ls":                         "", // there is no such tool
	} {
		d := ask(t, &llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText(in))})
		var got []string
		for _, c := range d.Message.ToolUses() {
			if !llm.ValidInput(c.Input) {
				t.Errorf("%q: input %s", in, c.Input)
			}
			got = append(got, c.Name, string(c.Input))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: got %s, want %s", in, s, want)
		}
		if (d.Stop == llm.CallTools) != (want != "") {
			t.Errorf("%q: stop %s", in, d.Stop)
		}
	}
	d := ask(t, &llm.Request{Tools: tools, NoTools: true, Transcript: llm.NewTranscript(llm.UserText("use todo"))})
	if len(d.Message.ToolUses()) != 0 {
		t.Error("called a tool that was forbidden")
	}
}

func TestUsesResults(t *testing.T) {
	r := &llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText("please use todo for tea [[q7]]"))}
	for range 3 {
		d := ask(t, r)
		calls := d.Message.ToolUses()
		if len(calls) != 1 {
			t.Fatalf("got %+v", d.Message)
		}
		r.Transcript.Append(d.Message, llm.Message{Role: llm.User, Blocks: []llm.Block{
			{Type: llm.ToolResult, ID: calls[0].ID, Text: "3 items now"},
		}})
		d = ask(t, r)
		if got := d.Message.Text(); !strings.Contains(got, "todo said: “3 items now”") || !strings.Contains(got, "[[q7]]") {
			t.Errorf("got %q", got)
		}
		r.Transcript.Append(d.Message, llm.UserText("please use todo for tea [[q7]]"))
	}
	if err := llm.ValidateMessages(r.Transcript.Since(0)[:r.Transcript.Len()-1]); err != nil {
		t.Error(err)
	}
}

var headings = []string{
	"## Goal", "## Constraints & Preferences", "## Progress", "### Done", "### In Progress", "### Blocked",
	"## Key Decisions", "## Relevant Files", "## Next Steps", "## Critical Context",
}

func TestWritesSummaries(t *testing.T) {
	prompt := "Write a summary with these headings:\n" + strings.Join(headings, "\n") +
		"\n\nuser: build the shed #12\nassistant: yes\nuser: paint it, see plan/shed.md [[red]]\n"
	got := ask(t, &llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText(prompt))}).Message.Text()
	at := -1
	for _, h := range headings {
		i := strings.Index("\n"+got, "\n"+h+"\n")
		if i <= at {
			t.Errorf("%s does not stand where it should", h)
		}
		at = i
	}
	for _, fact := range []string{"#12", "[[red]]", "plan/shed.md", "build the shed"} {
		if !strings.Contains(got, fact) {
			t.Errorf("%q is lost in\n%s", fact, got)
		}
	}
}

func TestStreamsInDelayedPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &llm.Request{Effort: "low", Transcript: llm.NewTranscript(llm.UserText("tell me about the weather"))}
		got := llmtest.Collect(demo.New(demo.Options{Delay: 10 * time.Millisecond}).Stream(t.Context(), r))
		if n := len(got.Events); n < 6 || time.Since(start) != time.Duration(n-1)*10*time.Millisecond {
			t.Errorf("%d events in %v", len(got.Events), time.Since(start))
		}
		if got.Thinking == "" {
			t.Error("no thinking although it was asked for")
		}
	})
}

func TestUsageReportsCachedPrefixes(t *testing.T) {
	p := demo.New(demo.Options{})
	r := &llm.Request{System: strings.Repeat("system ", 100), Tools: tools, Transcript: llm.NewTranscript()}
	before := 0
	for i := range 5 {
		r.Transcript.Append(llm.UserText(fmt.Sprintf("turn %d %s", i, strings.Repeat("x", 400))))
		d := llmtest.Collect(p.Stream(t.Context(), r)).Done
		if i > 0 && d.Usage.CacheRead != before {
			t.Errorf("turn %d: read %d, want the %d tokens of the prompt before", i, d.Usage.CacheRead, before)
		}
		before = d.Usage.Prompt()
		r.Transcript.Append(d.Message)
	}
	for i := range 20_000 { // more than the memory holds
		llmtest.Collect(p.Stream(t.Context(), &llm.Request{System: fmt.Sprint(i), Transcript: llm.NewTranscript(llm.UserText("x"))}))
	}
	r.Transcript.Append(llm.UserText("again"))
	if d := llmtest.Collect(p.Stream(t.Context(), r)).Done; d.Usage.CacheRead != 0 {
		t.Errorf("a prefix of long ago is still known: %+v", d.Usage)
	}
}

func TestAnswersAreDeterministic(t *testing.T) {
	r := &llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText("use todo for tea"))}
	if a, b := fmt.Sprint(ask(t, r)), fmt.Sprint(ask(t, r)); a != b {
		t.Errorf("got\n%s\nand\n%s", a, b)
	}
}

func FuzzArithmeticAndTools(f *testing.F) {
	f.Add("what is ((((1+2)*3")
	f.Add(`todo: {"a":{"b":[`)
	f.Fuzz(func(t *testing.T, in string) {
		r := &llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText(in))}
		d := ask(t, r)
		for _, c := range d.Message.ToolUses() {
			if !llm.ValidInput(c.Input) || !llm.ValidToolCallID(c.ID) {
				t.Errorf("%q: %+v", in, c)
			}
		}
	})
}

// TestAnswersContainNumberOnce checks that the number of a question is once in the
// answer, and not in the text before a tool call, which may become a message of its own.
func TestAnswersContainNumberOnce(t *testing.T) {
	r := &llm.Request{Model: "demo", Transcript: llm.NewTranscript(llm.UserText("please read file shopping.txt #7")), Tools: []llm.Tool{{Name: "read_file", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}}}
	said := func() (text string, calls []llm.Block) {
		t.Helper()
		got := llmtest.Collect(demo.New(demo.Options{}).Stream(t.Context(), r))
		if got.Done == nil {
			t.Fatal(got.Err)
		}
		m := got.Done.Message
		r.Transcript.Append(m)
		return m.Text(), m.ToolUses()
	}
	ahead, calls := said()
	if len(calls) != 1 || strings.Contains(ahead, "#7") {
		t.Fatalf("%q, %d calls", ahead, len(calls))
	}
	r.Transcript.Append(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: calls[0].ID, Text: "milk"}}})
	if text, _ := said(); !strings.Contains(text, "milk") || strings.Count(text, "#7") != 1 {
		t.Errorf("%q", text)
	}
}
