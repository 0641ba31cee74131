package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"hermesd/agent"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// A limitCase is a session with a provider that drops what does not fit into its
// context window, without an error, as some local servers do.
type limitCase struct {
	t        *rapid.T
	window   int
	limit    int
	reports  bool    // the provider reports usage
	factor   float64 // tokens that the provider counts for one of the estimate
	build    func(Setup) agent.Engine
	setup    Setup
	engine   agent.Engine
	agent    *agent.Agent
	prefix   prompt.Prefix
	provider *llmtest.Scripted

	rows   []llm.Message // all of the session, as a store numbers them
	first  int           // number of the first active one
	tr     *llm.Transcript
	w      *agent.ContextWindow
	sent   []llm.Message // of the last request
	texts  []string      // what users sent
	share  int           // size of tool output, in percent of the window
	calls  int           // tool calls left in the turn
	answer int           // size of an answer, in tokens
}

// testLimit sends messages and makes tool calls of any size. No request may have
// more tokens than the limit, no text may be lost, and the context may change
// only by compactions.
func testLimit(t *rapid.T, build func(Setup) agent.Engine) {
	window := rapid.SampledFrom([]int{8_000, 8_000, 16_000, 24_000, 64_000}).Draw(t, "window")
	c := &limitCase{t: t, window: window, limit: window * 85 / 100, build: build, factor: 1}
	if c.reports = rapid.Bool().Draw(t, "reports"); c.reports && rapid.Bool().Draw(t, "counts more") {
		c.factor = 1.3
	}
	c.setup = Setup{Limits: agent.Limits{Window: window}, Session: &Session{}, Summarise: &Clerk{Size: window}}
	if rapid.IntRange(0, 3).Draw(t, "summary model") == 0 {
		c.setup.Summarise = &Clerk{Fail: func(int) (summary.Answer, error) { return summary.Answer{}, errors.New("away") }}
	}
	c.setup.Threshold = rapid.SampledFrom([]float64{0, 0.05, 0.25, 0.8, 0.85}).Draw(t, "threshold")
	c.setup.LastN, c.setup.FirstN = rapid.SampledFrom([]int{0, 1, 200}).Draw(t, "last"), rapid.SampledFrom([]int{0, 1, 50}).Draw(t, "first")
	c.start(rapid.IntRange(100, window/4).Draw(t, "fixed"))
	for range rapid.IntRange(1, 8).Draw(t, "turns") {
		c.turn()
	}
	c.checkTexts()
}

func (c *limitCase) start(fixed int) {
	c.provider = llmtest.NewScripted()
	c.provider.Default = c.reply
	set, err := tool.NewSet(tool.New(tool.Spec{
		Tool:   llm.Tool{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object"}`)},
		Effect: tool.Pure, MaxResult: 1 << 20,
	}, func(context.Context, tool.Call, struct{}) (string, error) { return c.text("output", c.share), nil }))
	if err != nil {
		c.t.Fatal(err)
	}
	c.agent = agent.New(agent.Config{}, c.provider, set)
	c.prefix = prompt.Build(prompt.Inputs{Soul: strings.Repeat("rule ", fixed*4/5), Tools: set.Tools()})
	c.engine = c.build(c.setup)
	c.tr = llm.NewTranscript()
	c.w = &agent.ContextWindow{Engine: c.engine, Window: c.window, Limit: c.limit}
}

// text returns a text of share percent of the window.
func (c *limitCase) text(kind string, share int) string {
	c.texts = append(c.texts, fmt.Sprintf("%s-%d: ", kind, len(c.texts)))
	n := c.window * share / 100
	return c.texts[len(c.texts)-1] + strings.Repeat("日本 wörd ", n/5) + "end"
}

// reply checks a request and answers it.
func (c *limitCase) reply(r llmtest.Recorded) llmtest.Answer {
	size := tokens.Request(&r.Request) + plan.Tokens(r.Messages)
	if size > c.limit && c.factor == 1 || float64(size)*c.factor > float64(c.window) {
		c.t.Fatalf("a request of %d tokens, counted %.2f times, for a window of %d, limit %d", size, c.factor, c.window, c.limit)
	}
	if n := min(len(c.sent), len(r.Messages)); !slices.EqualFunc(c.sent[:n], r.Messages[:n], plan.Equal) || n < len(c.sent) {
		c.t.Fatal("the context has changed without a compaction")
	}
	c.sent = r.Messages
	var a llmtest.Answer
	if c.calls > 0 {
		c.calls--
		a = llmtest.Use("look", `{"q":"`+strings.Repeat("y", rapid.SampledFrom([]int{1, c.window / 3}).Draw(c.t, "input"))+`"}`)
	} else {
		a = llmtest.Say(strings.Repeat("word ", c.answer))
	}
	a.Usage.Output = 10
	if c.reports {
		a.Usage = llm.Usage{Input: int(float64(size) * c.factor), Output: 10}
	}
	return a
}

func (c *limitCase) turn() {
	c.share = rapid.SampledFrom([]int{1, 13, 60}).Draw(c.t, "output")
	c.calls = rapid.SampledFrom([]int{0, 0, 1, 3, 400_000 / c.window}).Draw(c.t, "calls")
	c.answer = c.window / 5 * rapid.SampledFrom([]int{1, 5, 25}).Draw(c.t, "answer") / 100
	in := llm.UserText(c.text("message", rapid.SampledFrom([]int{1, 13, 30, 60}).Draw(c.t, "size")))
	t := agent.Turn{Prefix: c.prefix, Transcript: c.tr, Model: "m", Session: "s", Input: []llm.Message{in}, ContextWindow: c.w}
	if rapid.IntRange(0, 4).Draw(c.t, "steer") == 0 {
		t.Steer = func() []llm.Block { return []llm.Block{{Type: llm.Text, Text: c.text("steer", 1)}} }
	}
	for ev, err := range c.agent.Run(context.Background(), t) {
		if err != nil {
			c.t.Fatal(err)
		}
		if ev, ok := ev.(agent.Compacted); ok {
			c.adopt(ev)
		}
	}
	c.rows = append(c.rows[:c.first:c.first], c.tr.Since(0)...)
	c.setup.Session.rows = c.rows
}

// adopt stores a compaction.
func (c *limitCase) adopt(ev agent.Compacted) {
	if err := llm.ValidateMessages(ev.Messages); err != nil {
		c.t.Fatal(err)
	}
	v := agent.ContextView{Messages: ev.Replaced}
	p := ev.Compaction
	if !slices.EqualFunc(ev.Replaced[:p.From], p.Messages[:p.From], plan.Equal) {
		c.t.Fatal("what is before the archived messages is not as it was")
	}
	tail := v.Messages[p.To:]
	if !slices.EqualFunc(tail, p.Messages[len(p.Messages)-len(tail):], plan.Equal) {
		c.t.Fatal("the tail is not as it was")
	}
	c.rows = slices.Concat(c.rows[:c.first], ev.Replaced, p.Messages)
	c.first += len(ev.Replaced)
	c.prefix, c.sent = ev.Prefix, nil
	c.setup.Session.rows, c.setup.Session.start = c.rows, c.first
}

// testShortMessages appends messages that truncation cannot shorten, and makes a
// compaction whenever the request is above the limit: it is within it after each.
func testShortMessages(t *rapid.T, build func(Setup) agent.Engine) {
	const window, limit = 8_000, 6_800
	s := &Session{Fixed: rapid.IntRange(100, window/4).Draw(t, "fixed")}
	up := Setup{Limits: agent.Limits{Window: window}, Session: s, Summarise: &Clerk{Size: window}, Threshold: 0.85}
	up.LastN, up.FirstN = rapid.SampledFrom([]int{1, 20, 200}).Draw(t, "last"), rapid.SampledFrom([]int{1, 3, 50}).Draw(t, "first")
	e, noModel := build(up), rapid.Bool().Draw(t, "without a model")
	calls := rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(t, "calls")
	words := rapid.SliceOfN(rapid.IntRange(1, 40), 7, 7).Draw(t, "words")
	for i := range 1000 {
		n := words[i%len(words)]
		if i%(calls+1) == 0 {
			s.Append(llm.UserText(fmt.Sprint("ask ", i, strings.Repeat(" word", n))))
		} else {
			s.Append(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: fmt.Sprint(i - 1), Text: strings.Repeat("out ", n)}}})
		}
		if v := s.View(); v.Tokens > limit {
			v.Limit, v.Force, v.WithoutModel = limit, true, noModel
			p, err := e.Compress(context.Background(), v)
			if err != nil || p.After > limit {
				t.Fatalf("%d messages, %d tokens became %d: %v", len(v.Messages), v.Tokens, p.After, err)
			}
			s.Adopt(p)
		}
		if (i+1)%(calls+1) == 0 {
			s.Append(llm.AssistantText("answer"))
		} else {
			s.Append(llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: fmt.Sprint(i), Name: "look", Input: json.RawMessage(`{"q":"y"}`)}}})
		}
	}
}

var rowPattern = regexp.MustCompile(`characters are left out here; the whole text is row (\d+) of`)

// checkTexts checks that every text is whole in some row, and that notes name
// the row with the whole text.
func (c *limitCase) checkTexts() {
	for _, text := range c.texts {
		if !slices.ContainsFunc(c.rows, func(m llm.Message) bool {
			return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool {
				return strings.Contains(b.Text, text) && !rowPattern.MatchString(b.Text)
			})
		}) {
			c.t.Fatalf("%q is not whole in any row", text)
		}
	}
	for i, m := range c.rows {
		for _, b := range m.Blocks {
			at := rowPattern.FindStringSubmatchIndex(b.Text)
			if at == nil || strings.HasPrefix(b.Text, plan.SummaryHeading) {
				continue
			}
			n, _ := strconv.Atoi(b.Text[at[2]:at[3]])
			begin := b.Text[:strings.Index(b.Text, "\n[…")]
			if n >= i || !Holds(c.rows[n:n+1], begin) || rowPattern.MatchString(fmt.Sprint(c.rows[n].Blocks)) {
				c.t.Fatalf("row %d names row %d for %.40q", i, n, begin)
			}
		}
	}
}
