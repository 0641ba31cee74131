package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// A session is a conversation and its ledger.
type session struct {
	l       *ledger.Ledger
	r       llm.Request
	records []ledger.Record
	now     time.Time
	to      string // the model
}

func newSession() *session {
	return &session{l: ledger.New(), now: start, to: "claude-opus-4-8", r: llm.Request{
		System: "You are Hermes.", Tools: []llm.Tool{{Name: "read", Schema: json.RawMessage(`{"type":"object"}`)}}, Transcript: llm.NewTranscript(), CacheTTL: "5m",
	}}
}

func (s *session) say(texts ...string) {
	for _, text := range texts {
		if s.r.Transcript.Len()%2 == 0 {
			s.r.Transcript.Append(llm.UserText(text))
		} else {
			s.r.Transcript.Append(llm.AssistantText(text))
		}
	}
}

func (s *session) call() ledger.Record {
	rec := s.l.RecordCall(ledger.Call{Request: &s.r, Provider: "p", Model: s.to, At: s.now})
	s.records = append(s.records, rec)
	return rec
}

func TestBreakNotReportedForExtension(t *testing.T) {
	s := newSession()
	s.say("one")
	if r := s.call(); r.Break != ledger.NewSession || r.BreakLayer != "" || r.N != 1 || r.Messages != 1 || r.From != 0 || len(r.Hashes) != 1 {
		t.Errorf("first call: %+v", r)
	}
	for i := range 5 {
		s.r.Overlay = fmt.Sprintf("<gateway-context>%d</gateway-context>", i)
		s.say("answer", "question")
		r := s.call()
		if r.Break != "" || r.BreakLayer != "" || r.From != 2*i+1 || len(r.Hashes) != 2 || r.TailBytes != len(s.r.Overlay) || r.TailTokens == 0 {
			t.Errorf("call %d: %+v", r.N, r)
		}
		if before := s.records[i]; r.CommonTokens != before.PrefixTokens || r.PrefixTokens <= before.PrefixTokens || r.PrefixBytes <= before.PrefixBytes || r.Hash == before.Hash {
			t.Errorf("call %d does not grow: %+v after %+v", r.N, r, before)
		}
	}
	if s := ledger.Summarize(s.records); s.Calls != 6 || s.Undeclared() != 0 || s.Declared() != 0 {
		t.Errorf("summary %+v", s)
	}
}

// TestBreakLayers makes one change after three calls.
func TestBreakLayers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *session)
		where  string
	}{
		"model": {func(s *session) { s.to = "gpt-5" }, "model"},
		"a tool's text": {func(s *session) {
			s.r.Tools = []llm.Tool{{Name: "read", Description: "x", Schema: s.r.Tools[0].Schema}}
		}, "tools"},
		"one tool less":     {func(s *session) { s.r.Tools = nil }, "tools"},
		"the order":         {func(s *session) { s.r.Tools = append([]llm.Tool{{Name: "a"}}, s.r.Tools...) }, "tools"},
		"the prompt":        {func(s *session) { s.r.System += "!" }, "prompt"},
		"system overlay":    {func(s *session) { s.r.SystemOverlay = "brief" }, "system overlay"},
		"prefill":           {func(s *session) { s.r.Prefill = []llm.Message{llm.UserText("p"), llm.AssistantText("q")} }, "prefill"},
		"the first message": {func(s *session) { s.rewrite(0, "other") }, "message 0"},
		"a later message":   {func(s *session) { s.rewrite(3, "other") }, "message 3"},
		"undone":            {func(s *session) { s.r.Transcript.Truncate(3) }, "message 3"},
		"undone and more":   {func(s *session) { s.r.Transcript.Truncate(2); s.say("new", "x", "new") }, "message 2"},
		"compressed":        {func(s *session) { s.r.Transcript = llm.NewTranscript(llm.UserText("summary")) }, "message 0"},
	} {
		for _, restart := range []bool{false, true} {
			for _, reason := range []ledger.Reason{"", ledger.Compression} {
				t.Run(fmt.Sprintf("%s restart=%v %s", name, restart, reason), func(t *testing.T) {
					s := newSession()
					s.say("one")
					for range 3 {
						s.call()
						s.say("answer", "question")
					}
					s.r.Transcript.Truncate(5)
					if restart {
						s.restart(t)
					}
					c.change(s)
					s.l.Declare(reason)
					r := s.call()
					want := reason
					if want == "" {
						want = ledger.Undeclared
					}
					if r.BreakLayer != c.where || r.Break != want {
						t.Errorf("got %q at %q, want %q at %q", r.Break, r.BreakLayer, want, c.where)
					}
					if r.CommonTokens >= r.PrefixTokens && r.BreakLayer != "message 3" {
						t.Errorf("%d of %d tokens are the same", r.CommonTokens, r.PrefixTokens)
					}
					s.say("after", "it")
					if r := s.call(); r.Break != "" {
						t.Errorf("the call after it: %q at %q", r.Break, r.BreakLayer)
					}
					if sum := ledger.Summarize(s.records); sum.Breaks[want] != 1 || len(sum.Breaks) != 1 {
						t.Errorf("breaks %v", sum.Breaks)
					}
				})
			}
		}
	}
}

// rewrite replaces message i, as if the transcript had been loaded with a different
// message.
func (s *session) rewrite(i int, text string) {
	ms := slices.Clone(s.r.Transcript.Since(0))
	ms[i] = llm.Message{Role: ms[i].Role, Blocks: []llm.Block{{Type: llm.Text, Text: text}}}
	s.r.Transcript = llm.NewTranscript(ms...)
}

// restart encodes and restores all records.
func (s *session) restart(t testing.TB) {
	stored, err := json.Marshal(s.records)
	if err != nil {
		t.Fatal(err)
	}
	var records []ledger.Record
	if err := json.Unmarshal(stored, &records); err != nil {
		t.Fatal(err)
	}
	s.l = ledger.Restore(records)
	s.r.Transcript = llm.NewTranscript(slices.Clone(s.r.Transcript.Since(0))...)
	s.r.Tools = slices.Clone(s.r.Tools)
}

func TestDeclareHoldsForOneCall(t *testing.T) {
	s := newSession()
	s.say("one")
	s.call()
	s.l.Declare(ledger.Reload)
	if s.l.Declared() != ledger.Reload {
		t.Error("it is not declared")
	}
	s.say("a", "q")
	if r := s.call(); r.Break != "" || s.l.Declared() != "" {
		t.Errorf("a reason without a break: %+v", r)
	}
	s.r.System = "changed"
	if r := s.call(); r.Break != ledger.Undeclared {
		t.Errorf("an old reason is used for a new break: %+v", r)
	}
}

// TestFallbackReturnIsNoBreak checks that only the switch to the fallback is a break.
func TestFallbackReturnIsNoBreak(t *testing.T) {
	s := newSession()
	s.say("one")
	s.call()
	s.say("a", "q")
	s.to = "gpt-5"
	s.l.Declare(ledger.Fallback)
	if r := s.call(); r.Break != ledger.Fallback || r.BreakLayer != "model" || r.CommonTokens != 0 || r.From != 1 {
		t.Errorf("out: %+v", r)
	}
	s.restart(t)
	s.say("a", "q")
	s.to = "claude-opus-4-8"
	if r := s.call(); r.Break != "" || r.CommonTokens != s.records[0].PrefixTokens || r.From != 3 {
		t.Errorf("back: %+v", r)
	}
	s.rewrite(0, "x")
	s.to = "gpt-5"
	if r := s.call(); r.BreakLayer != "message 0" {
		t.Errorf("a change is not seen there: %+v", r)
	}
}

// TestBreakWithTurnOverlays checks that a TurnOverlay is part of the prefix while its turn lasts.
func TestBreakWithTurnOverlays(t *testing.T) {
	thought := llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.Thinking, Text: "hm"}, {Type: llm.Text, Text: "x"}}}
	for _, restart := range []bool{false, true} {
		s := newSession()
		s.r.Transcript.Append(llm.UserText("one"))
		s.r.Turn = &llm.TurnOverlay{At: 0, Text: "now"}
		s.call()
		for range 3 {
			s.r.Transcript.Append(thought, llm.UserText("result"))
			if restart {
				s.restart(t)
			}
			if r := s.call(); r.Break != "" {
				t.Errorf("inside the turn: %q at %q", r.Break, r.BreakLayer)
			}
		}
		// The next turn has its own overlay, and the first turn is sent without its
		// thinking.
		s.r.Transcript.Append(thought, llm.UserText("two"))
		s.r.Turn = &llm.TurnOverlay{At: 8, Text: "later"}
		s.l.Declare(ledger.Overlay)
		if r := s.call(); r.Break != ledger.Overlay || r.BreakLayer != "message 0" {
			t.Errorf("the next turn: %q at %q", r.Break, r.BreakLayer)
		}
		s.r.Transcript.Append(thought, llm.UserText("result"))
		if r := s.call(); r.Break != "" {
			t.Errorf("inside the next turn: %q at %q", r.Break, r.BreakLayer)
		}
		// The third turn has no overlay: only the thinking of the second changes.
		s.r.Transcript.Append(thought, llm.UserText("three"))
		s.r.Turn = &llm.TurnOverlay{At: 12}
		if r := s.call(); r.Break != ledger.Undeclared || r.BreakLayer != "message 8" {
			t.Errorf("the third turn: %q at %q", r.Break, r.BreakLayer)
		}
		// A retry without thinking changes the first message with thinking.
		s.r.Transcript.Append(thought, llm.UserText("result"))
		s.call()
		s.r.DropThinking = true
		if r := s.call(); r.BreakLayer != "message 13" {
			t.Errorf("without thinking: %q at %q", r.Break, r.BreakLayer)
		}
	}
}

// TestTargetsAreIndependent continues one prefix in two ways.
func TestTargetsAreIndependent(t *testing.T) {
	s := newSession()
	s.r.Turn = &llm.TurnOverlay{At: 0, Text: "now"}
	s.say("one", "a", "b", "c", "d")
	s.call()
	first := s.r.Transcript
	s.r.Transcript = llm.NewTranscript(slices.Clone(first.Since(0))...)
	s.say("x", "y")
	way := s.r.Transcript
	s.to = "gpt-5"
	s.call()
	s.r.Transcript = first
	s.say("v", "w")
	s.to = "claude-opus-4-8"
	if r := s.call(); r.Break != "" {
		t.Errorf("one way: %q at %q", r.Break, r.BreakLayer)
	}
	s.r.Transcript, s.to = way, "gpt-5"
	s.say("y", "z")
	r := s.call()
	if r.Break != "" {
		t.Errorf("the other: %q at %q", r.Break, r.BreakLayer)
	}
	fresh := ledger.New().RecordCall(ledger.Call{Request: &s.r, Provider: "p", Model: s.to, At: s.now})
	if r.Hash != fresh.Hash {
		t.Error("a prefix has the digests of another")
	}
}

// TestMissedTokens checks MissedTokens against the provider's figures.
func TestMissedTokens(t *testing.T) {
	for name, c := range map[string]struct {
		ttl    string
		before llm.Usage
		after  time.Duration
		usage  llm.Usage
		missed int
	}{
		"all was read":               {"5m", llm.Usage{CacheWrite: 5000}, time.Minute, llm.Usage{CacheRead: 5000, CacheWrite: 100}, 0},
		"a little less":              {"5m", llm.Usage{CacheWrite: 5000}, time.Minute, llm.Usage{CacheRead: 4600, CacheWrite: 500}, 0},
		"nothing was":                {"5m", llm.Usage{CacheWrite: 5000}, time.Minute, llm.Usage{CacheWrite: 5100}, 5000},
		"half was":                   {"5m", llm.Usage{CacheWrite: 5000}, time.Minute, llm.Usage{CacheRead: 2500, CacheWrite: 2600}, 2500},
		"too late":                   {"5m", llm.Usage{CacheWrite: 5000}, 6 * time.Minute, llm.Usage{CacheWrite: 5100}, 0},
		"not too late for an hour":   {"1h", llm.Usage{CacheWrite: 5000}, 6 * time.Minute, llm.Usage{CacheWrite: 5100}, 5000},
		"too short to be kept":       {"5m", llm.Usage{CacheWrite: 1000}, time.Minute, llm.Usage{Input: 1100}, 0},
		"a provider without a cache": {"5m", llm.Usage{Input: 5000}, time.Minute, llm.Usage{Input: 5100}, 0},
		"nothing was reported":       {"5m", llm.Usage{CacheWrite: 5000}, time.Minute, llm.Usage{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession()
			s.r.CacheTTL = c.ttl
			s.say("one")
			call := func(u llm.Usage) ledger.Record {
				r := s.l.RecordCall(ledger.Call{Request: &s.r, Provider: "p", Model: s.to, Usage: u, At: s.now})
				s.records = append(s.records, r)
				return r
			}
			call(c.before)
			s.restart(t)
			s.now = s.now.Add(c.after)
			s.say("a", "q")
			if r := call(c.usage); r.MissedTokens != c.missed {
				t.Errorf("missed %d, want %d", r.MissedTokens, c.missed)
			}
			if got := ledger.Summarize(s.records).Missed; got != c.missed {
				t.Errorf("the summary says %d", got)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	s := newSession()
	s.say("one")
	s.call() // 1
	s.say("a", "q")
	s.call() // 2
	s.rewrite(1, "b")
	s.call() // 3
	s.r.System = "other"
	s.call() // 4
	s.to = "gpt-5"
	s.call() // 5
	for _, c := range []struct {
		n, m int
		want string
	}{{1, 2, ""}, {2, 1, ""}, {1, 3, ""}, {2, 3, "message 1"}, {3, 2, "message 1"}, {2, 4, "prompt"}, {4, 5, "model"}, {3, 3, ""}} {
		if got, err := ledger.Diff(s.records, c.n, c.m); got != c.want || err != nil {
			t.Errorf("%d and %d: got %q, %v, want %q", c.n, c.m, got, err, c.want)
		}
	}
	for _, bad := range []func() (string, error){
		func() (string, error) { return ledger.Diff(s.records, 1, 9) },
		func() (string, error) { return ledger.Diff(s.records[1:], 2, 3) },
		func() (string, error) { return ledger.Diff(nil, 1, 1) },
	} {
		if _, err := bad(); err == nil {
			t.Error("a diff of what is not there")
		}
	}
}

// TestRestoreFromLastRecords restores from the last records only.
func TestRestoreFromLastRecords(t *testing.T) {
	for _, changed := range []bool{false, true} {
		s := newSession()
		s.say("one")
		for range 4 {
			s.call()
			s.say("a", "q")
		}
		s.records = s.records[2:]
		s.restart(t)
		if changed {
			s.rewrite(1, "x")
		}
		r := s.call()
		if r.N != 5 || (r.Break == ledger.Undeclared) != changed {
			t.Errorf("changed %v: %+v", changed, r)
		}
	}
}

// TestLedgerEqualsMessages changes a conversation at random, with restarts in
// between, and compares the ledger with the messages themselves.
func TestLedgerEqualsMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSession()
		s.say("one")
		sent := map[string][]string{}
		for range rapid.IntRange(1, 15).Draw(rt, "calls") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				s.rewrite(rapid.IntRange(0, s.r.Transcript.Len()-1).Draw(rt, "at"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "text"))
			case 1:
				s.r.Transcript.Truncate(rapid.IntRange(1, s.r.Transcript.Len()).Draw(rt, "to"))
			case 2:
				s.restart(t)
			case 3:
				s.to = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "model")
			case 4:
				s.r.Turn = nil
			case 5:
				s.r.Turn = &llm.TurnOverlay{At: rapid.IntRange(0, s.r.Transcript.Len()-1).Draw(rt, "turn"), Text: rapid.SampledFrom([]string{"", "o", "p"}).Draw(rt, "overlay")}
			default:
				s.say("x", "y")
			}
			want := ""
			var now []string
			for i, m := range s.r.Transcript.Since(0) {
				text := m.Text()
				if s.r.Turn != nil && i == s.r.Turn.At {
					text += s.r.Turn.Text
				}
				now = append(now, text)
			}
			before, known := sent[s.to]
			for i := range before {
				if i == len(now) || now[i] != before[i] {
					want = fmt.Sprintf("message %d", i)
					break
				}
			}
			if !known && len(sent) > 0 {
				want = "model"
			}
			if r := s.call(); r.BreakLayer != want {
				rt.Fatalf("call %d: got %q, want %q", r.N, r.BreakLayer, want)
			}
			sent[s.to] = now
		}
	})
}

func TestReasonsAreClosedList(t *testing.T) {
	if got := fmt.Sprint(ledger.Reasons()); got != "[new_session compression hygiene model_switch fallback tools reload engine undo branch prefill overlay]" {
		t.Errorf("got %s", got)
	}
}
