package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sim "hermesd/internal/sim/llm"
)

// A part is one text block of a request with the lifetime of its cache_control
// marker.
type part struct {
	text, ttl string
}

func (p part) json() string {
	switch p.ttl {
	case "":
		return fmt.Sprintf(`{"type":"text","text":%q}`, p.text)
	case "5m":
		return fmt.Sprintf(`{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}`, p.text)
	}
	return fmt.Sprintf(`{"type":"text","text":%q,"cache_control":{"type":"ephemeral","ttl":%q}}`, p.text, p.ttl)
}

func list(ps []part) string {
	var all []string
	for _, p := range ps {
		all = append(all, p.json())
	}
	return "[" + strings.Join(all, ",") + "]"
}

// words returns a text of about n tokens.
func words(n int) string { return strings.Repeat("word", n) }

// An ask is a request with one message.
type ask struct {
	model  string
	extra  string // further members, each followed by a comma
	system []part
	user   []part
}

func (a ask) messages() string {
	if a.model == "" {
		a.model = "claude-opus-4-8"
	}
	system := ""
	if a.system != nil {
		system = `"system":` + list(a.system) + `,`
	}
	return `{"model":"` + a.model + `","max_tokens":10,` + a.extra + system + `"messages":[{"role":"user","content":` + list(a.user) + `}]}`
}

type usage struct {
	Input    int `json:"input_tokens"`
	Write    int `json:"cache_creation_input_tokens"`
	Read     int `json:"cache_read_input_tokens"`
	Creation struct {
		Five int `json:"ephemeral_5m_input_tokens"`
		Hour int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Prompt  int `json:"prompt_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
		Write  int `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u usage) String() string {
	return fmt.Sprintf("read %d, write %d (%d+%d), input %d", u.Read, u.Write, u.Creation.Five, u.Creation.Hour, u.Input)
}

func used(t *testing.T, s *sim.Server, path, body string) usage {
	t.Helper()
	status, got, _ := post(t, s, path, body)
	var b struct {
		Usage usage `json:"usage"`
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, got, err)
	}
	return b.Usage
}

// TestWhatMarksReadAndWrite sends requests one after another, each after a
// pause. Roles and types cost a few tokens, so prefix lengths are sums of the
// constants below.
func TestWhatMarksReadAndWrite(t *testing.T) {
	// In tokens as the server counts them: a system block is "system"+text, a
	// text block "text"+text.
	const (
		sys  = (6 + 4*1500 + 3) / 4
		text = (4 + 4*600 + 3) / 4
	)
	base := []part{{words(1500), "5m"}}
	hour := []part{{words(1500), "1h"}}
	user := func(ps ...part) []part { return ps }
	a, b, c := words(600), "B"+words(600)[1:], "C"+words(600)[1:]
	type step struct {
		after time.Duration
		ask   ask
		want  string
	}
	say := func(read, five, hour, input int) string {
		return fmt.Sprintf("read %d, write %d (%d+%d), input %d", read, five+hour, five, hour, input)
	}
	for name, steps := range map[string][]step{
		"written, then read": {
			{0, ask{system: base, user: user(part{a, "5m"})}, say(0, sys+text, 0, 0)},
			{0, ask{system: base, user: user(part{a, "5m"})}, say(sys+text, 0, 0, 0)},
			{0, ask{system: base, user: user(part{a, ""}, part{b, "5m"})}, say(sys+text, text, 0, 0)},
			{0, ask{system: base, user: user(part{b, "5m"})}, say(sys, text, 0, 0)},
		},
		"what stands behind the last mark is input": {
			{0, ask{system: base, user: user(part{a, "5m"}, part{b, ""})}, say(0, sys+text, 0, text)},
			{0, ask{system: base, user: user(part{a, "5m"}, part{c, ""})}, say(sys+text, 0, 0, text)},
			{0, ask{system: base, user: user(part{a, ""}, part{c, "5m"})}, say(sys+text, text, 0, 0)},
		},
		"only marks write": {
			{0, ask{system: []part{{words(1500), ""}}, user: user(part{a, ""}, part{b, "5m"})}, say(0, sys+2*text, 0, 0)},
			{0, ask{system: []part{{words(1500), ""}}, user: user(part{a, ""}, part{c, "5m"})}, say(0, sys+2*text, 0, 0)},
		},
		"without marks": {
			{0, ask{user: user(part{words(5000), ""})}, say(0, 0, 0, 5001)},
			{0, ask{user: user(part{words(5000), ""})}, say(0, 0, 0, 5001)},
		},
		"shorter than the model keeps": {
			{0, ask{user: user(part{words(1000), "5m"})}, say(0, 0, 0, 1001)},
			{0, ask{user: user(part{words(1000), "5m"})}, say(0, 0, 0, 1001)},
			{0, ask{user: user(part{words(1023), "5m"})}, say(0, 1024, 0, 0)},
			{0, ask{model: "claude-opus-4-6", user: user(part{words(4094), "5m"})}, say(0, 0, 0, 4095)},
			{0, ask{model: "claude-opus-4-6", user: user(part{words(4095), "5m"})}, say(0, 4096, 0, 0)},
			{0, ask{model: "claude-3-haiku", user: user(part{words(2046), "5m"})}, say(0, 0, 0, 2047)},
			{0, ask{model: "claude-3-haiku", user: user(part{words(2047), "5m"})}, say(0, 2048, 0, 0)},
		},
		"each model has its own": {
			{0, ask{user: user(part{words(2000), "5m"})}, say(0, 2001, 0, 0)},
			{0, ask{model: "claude-sonnet-4-5", user: user(part{words(2000), "5m"})}, say(0, 2001, 0, 0)},
		},
		"five minutes from the last use": {
			{0, ask{system: base, user: user(part{a, ""})}, say(0, sys, 0, text)},
			{5 * time.Minute, ask{system: base, user: user(part{a, ""})}, say(sys, 0, 0, text)},
			{5 * time.Minute, ask{system: base, user: user(part{a, ""})}, say(sys, 0, 0, text)},
			{5*time.Minute + 1, ask{system: base, user: user(part{a, ""})}, say(0, sys, 0, text)},
		},
		"the marks of what is read live on too": {
			{0, ask{system: base, user: user(part{a, "5m"})}, say(0, sys+text, 0, 0)},
			{4 * time.Minute, ask{system: base, user: user(part{a, "5m"})}, say(sys+text, 0, 0, 0)},
			{4 * time.Minute, ask{system: base, user: user(part{b, "5m"})}, say(sys, text, 0, 0)},
		},
		"an hour costs a write of its own": {
			{0, ask{system: hour, user: user(part{a, "1h"})}, say(0, 0, sys+text, 0)},
			{59 * time.Minute, ask{system: hour, user: user(part{a, "1h"})}, say(sys+text, 0, 0, 0)},
			{time.Hour, ask{system: hour, user: user(part{a, "1h"})}, say(sys+text, 0, 0, 0)},
			{time.Hour + 1, ask{system: hour, user: user(part{a, "1h"})}, say(0, 0, sys+text, 0)},
		},
		"an hour before five minutes": {
			{0, ask{system: hour, user: user(part{a, "5m"})}, say(0, text, sys, 0)},
			{10 * time.Minute, ask{system: hour, user: user(part{a, "5m"})}, say(sys, text, 0, 0)},
		},
		"another tool choice costs the messages": {
			{0, ask{extra: `"tools":[{"name":"t","input_schema":{"type":"object"}}],`, system: base, user: user(part{a, "5m"})}, say(0, sys+text+6, 0, 0)},
			{0, ask{extra: `"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"},`, system: base, user: user(part{a, "5m"})}, say(sys+6, text, 0, 0)},
			{0, ask{extra: `"tools":[{"name":"u","input_schema":{"type":"object"}}],`, system: base, user: user(part{a, "5m"})}, say(0, sys+text+6, 0, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sim.New(sim.Options{})
				defer s.Close()
				for i, st := range steps {
					<-time.After(st.after)
					if got := used(t, s, messages, st.ask.messages()).String(); got != st.want {
						t.Errorf("request %d: got %s, want %s", i+1, got, st.want)
					}
				}
			})
		})
	}
}

// TestTheLookBack appends blocks after one that was written. The marker's own
// block is the first of the twenty that are examined.
func TestTheLookBack(t *testing.T) {
	for added, found := range map[int]bool{1: true, 19: true, 20: false, 30: false} {
		s := sim.New(sim.Options{})
		blocks := []part{{words(2000), "5m"}}
		used(t, s, messages, ask{user: blocks}.messages())
		blocks[0].ttl = ""
		for range added {
			blocks = append(blocks, part{text: "more"})
		}
		blocks[added].ttl = "5m"
		if u := used(t, s, messages, ask{user: blocks}.messages()); (u.Read > 0) != found {
			t.Errorf("%d blocks behind: %v", added, u)
		}
		s.Close()
	}
}

func TestMarksAreJudged(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	order := "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
	for _, c := range []struct {
		ask  ask
		says string
	}{
		{ask{system: []part{{"s", "5m"}}, user: []part{{"a", "1h"}}}, "messages.0.content.0.cache_control.ttl: " + order},
		{ask{extra: `"tools":[{"name":"t","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],`, system: []part{{"s", "1h"}}, user: []part{{"a", ""}}}, "system.0.cache_control.ttl: " + order},
		{ask{system: []part{{"s", "1h"}}, user: []part{{"a", "5m"}, {"b", "5m"}, {"c", "5m"}, {"d", "5m"}}}, "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{ask{user: []part{{"a", "10m"}}}, "Input should be '5m' or '1h'"},
	} {
		if status, got, _ := post(t, s, messages, c.ask.messages()); status != 400 || !strings.Contains(got, c.says) {
			t.Errorf("got %d %s, want %q", status, got, c.says)
		}
	}
	for _, c := range []struct{ content, says string }{
		{list([]part{{"a", "5m"}, {"b", "5m"}, {"c", "5m"}, {"d", "5m"}, {"e", "5m"}}), "Found 5"},
		{list([]part{{"a", "5m"}, {"b", "1h"}}), order},
		{`[{"type":"text","text":"a","cache_control":{"type":"x"}}]`, "Input should be 'ephemeral'"},
	} {
		if status, got, _ := post(t, s, chat, `{"model":"claude","messages":[{"role":"user","content":`+c.content+`}]}`); status != 400 || !strings.Contains(got, c.says) {
			t.Errorf("got %d %s, want %q", status, got, c.says)
		}
	}
	if b := s.Billed(); b != (sim.Bill{}) {
		t.Errorf("refusals were billed: %+v", b)
	}
}

func TestTheAutomaticCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{})
		defer s.Close()
		in := func(model, text string, marks bool) string {
			p := part{text: text}
			if marks {
				p.ttl = "5m"
			}
			return `{"model":"` + model + `","messages":[{"role":"user","content":` + list([]part{p}) + `}]}`
		}
		for i, c := range []struct {
			after  time.Duration
			body   string
			cached int
		}{
			{0, in("gpt", words(3000), false), 0},
			{0, in("gpt", words(3000), false), 2944},
			{0, in("gpt", words(3000)+"and more", false), 2944},
			{0, in("gpt", words(1100)+words(500)[1:], false), 1024},
			{0, in("gpt", words(900)+"x", false), 0}, // known, but shorter than the minimum
			{10 * time.Minute, in("gpt", words(3000), false), 2944},
			{10*time.Minute + 1, in("gpt", words(3000), false), 0},
			{0, in("other", words(3000), false), 0},
			{0, in("anthropic/claude-opus-4.8", words(3000), false), 0},
			{0, in("anthropic/claude-opus-4.8", words(3000), false), 0},
			{0, in("anthropic/claude-opus-4.8", words(3000), true), 0},
			{0, in("anthropic/claude-opus-4.8", words(3000), true), 3001},
		} {
			<-time.After(c.after)
			if u := used(t, s, chat, c.body); u.Details.Cached != c.cached || u.Prompt < c.cached {
				t.Errorf("request %d: cached %d of %d, want %d", i+1, u.Details.Cached, u.Prompt, c.cached)
			}
		}
	})
}

func TestTheBillIsTheSumOfTheRecords(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	for _, ttl := range []string{"5m", "5m", "1h", ""} {
		used(t, s, messages, ask{user: []part{{ttl + words(2000), ttl}, {"tail", ""}}}.messages())
	}
	b := s.Billed()
	want := sim.Bill{Answers: 4}
	for _, e := range s.Requests() {
		u := e.Usage
		want.Input, want.Read, want.Output = want.Input+u.Input, want.Read+u.CacheRead, want.Output+u.Output
		want.Write1h, want.Write5m = want.Write1h+u.CacheWrite1h, want.Write5m+u.CacheWrite-u.CacheWrite1h
	}
	if b != want || b.Read == 0 || b.Write1h == 0 || b.Output == 0 {
		t.Errorf("got %+v, want %+v", b, want)
	}
	if cost := float64(b.Input) + 0.1*float64(b.Read) + 1.25*float64(b.Write5m) + 2*float64(b.Write1h); b.Cost() != cost {
		t.Errorf("cost %v, want %v", b.Cost(), cost)
	}
	if b.Prompt() != b.Input+b.Read+b.Write5m+b.Write1h {
		t.Errorf("prompt %d", b.Prompt())
	}
}

// TestThinkingIsBoundToWhatStandsBeforeIt gets one answer with thinking and
// sends it back in different positions.
func TestThinkingIsBoundToWhatStandsBeforeIt(t *testing.T) {
	s := sim.New(sim.Options{PrefixCheck: true, Reply: func(sim.Request) sim.Reply { return sim.Reply{Thinking: "hm", Text: "yes"} }})
	defer s.Close()
	in := func(messages string) string {
		return `{"model":"m","max_tokens":10,"system":"s","messages":` + messages + `}`
	}
	_, got, _ := post(t, s, messages, in(`[{"role":"user","content":"a"}]`))
	var b struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"as it was":         {in(`[{"role":"user","content":"a"},{"role":"assistant","content":` + string(b.Content) + `},{"role":"user","content":"b"}]`), 200},
		"other words":       {in(`[{"role":"user","content":"A"},{"role":"assistant","content":` + string(b.Content) + `},{"role":"user","content":"b"}]`), 400},
		"an overlay more":   {in(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"o"}]},{"role":"assistant","content":` + string(b.Content) + `},{"role":"user","content":"b"}]`), 400},
		"other thoughts":    {in(`[{"role":"user","content":"a"},{"role":"assistant","content":` + strings.Replace(string(b.Content), `"hm"`, `"ho"`, 1) + `},{"role":"user","content":"b"}]`), 400},
		"another system":    {strings.Replace(in(`[{"role":"user","content":"a"},{"role":"assistant","content":`+string(b.Content)+`},{"role":"user","content":"b"}]`), `"s"`, `"t"`, 1), 400},
		"without the check": {in(`[{"role":"user","content":"A"},{"role":"assistant","content":[{"type":"text","text":"yes"}]},{"role":"user","content":"b"}]`), 200},
	} {
		if status, got, _ := post(t, s, messages, c.body); status != c.status || status == 400 && !strings.Contains(got, "Invalid `signature` in `thinking` block") {
			t.Errorf("%s: got %d %s", name, status, got)
		}
	}
}
