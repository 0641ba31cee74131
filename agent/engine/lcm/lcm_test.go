package lcm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func options() lcm.Options {
	o := lcm.Options{Settings: enginetest.Defaults()}
	o.Settings.MinThresholdTokens = 0
	return o
}

func TestSuite(t *testing.T) {
	enginetest.Suite(t, func(s enginetest.Setup) agent.Engine {
		o := options()
		o.Settings, o.Limits, o.Completer, o.State = s.Settings(), s.Limits, s.Summarise, s.State
		return lcm.New(o, s.Session)
	})
}

// archivedSession returns a session with many archived messages.
func archivedSession(t *testing.T) (*enginetest.Session, *lcm.Engine, tool.Set) {
	t.Helper()
	s := &enginetest.Session{}
	o := options()
	o.Limits, o.Completer = agent.Limits{Window: 40_000}, &enginetest.Clerk{Extra: strings.Repeat(" more", 300)}
	e := lcm.New(o, s)
	for i := range 400 {
		s.Append(llm.UserText(fmt.Sprintf("fact-%d is told", i)), llm.AssistantText(fmt.Sprintf("answer-%d ", i)+strings.Repeat("무엇이든 words ", 60)))
		if v := s.View(); e.ShouldCompress(v.Tokens) {
			p, err := e.Compress(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			s.Adopt(p)
		}
	}
	set, err := tool.NewSet(e.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return s, e, set
}

func runTool(t *testing.T, set tool.Set, name, input string) (string, error) {
	t.Helper()
	x, ok := set.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	return x.Run(t.Context(), tool.Call{Session: "s", Input: json.RawMessage(input)})
}

func TestEveryArchivedMessageCanBeReadWordForWord(t *testing.T) {
	s, e, set := archivedSession(t)
	if e.Status().Passes < 5 {
		t.Fatalf("only %d passes", e.Status().Passes)
	}
	var all strings.Builder
	next := regexp.MustCompile(`go on with from=(\d+) to=(\d+)\.`)
	input := `{"from":0}`
	for range 1000 {
		out, err := runTool(t, set, "lcm_expand", input)
		if err != nil {
			t.Fatal(err)
		}
		if n := len([]rune(out)); n > 30_000 {
			t.Fatalf("a page of %d characters", n)
		}
		all.WriteString(out)
		m := next.FindStringSubmatch(out)
		if m == nil {
			break
		}
		input = fmt.Sprintf(`{"from":%s,"to":%s}`, m[1], m[2])
	}
	for i, m := range s.Archived() {
		if !strings.Contains(all.String(), strings.TrimSpace(m.Text())) {
			t.Fatalf("archived message %d cannot be read: %.80q", i, m.Text())
		}
	}
}

func TestFactsAreFoundInTheArchive(t *testing.T) {
	s, _, set := archivedSession(t)
	for i := 0; i < 400; i += 9 {
		if enginetest.Holds(s.Active(), fmt.Sprintf("answer-%d ", i)) {
			continue
		}
		out, err := runTool(t, set, "lcm_grep", fmt.Sprintf(`{"pattern":"ANSWER-%d\\b"}`, i))
		if err != nil || !strings.Contains(out, fmt.Sprintf("answer-%d ", i)) {
			t.Fatalf("answer %d: %v, %.200q", i, err, out)
		}
	}
	out, err := runTool(t, set, "lcm_grep", `{"pattern":"무엇"}`)
	if err != nil || strings.Count(out, "\n") > 51 || !strings.Contains(out, "go on with from=") {
		t.Errorf("%v, %d lines", err, strings.Count(out, "\n"))
	}
	if out, err := runTool(t, set, "lcm_grep", `{"pattern":"no such thing ("}`); err != nil || !strings.Contains(out, "No archived message") {
		t.Errorf("a pattern that is no expression: %v, %q", err, out)
	}
	if out, err := runTool(t, set, "lcm_describe", `{}`); err != nil || !strings.Contains(out, "  Summary 0: messages ") {
		t.Errorf("the tree is %v %q", err, out)
	}
	if out, err := runTool(t, set, "lcm_describe", `{"id":0}`); err != nil || !strings.Contains(out, "## Goal") {
		t.Errorf("a summary is %v %q", err, out)
	}
	for name, input := range map[string]string{"lcm_grep": `{}`, "lcm_describe": `{"id":9999}`, "lcm_expand": `{"from":99999999}`} {
		if out, err := runTool(t, set, name, input); err == nil {
			t.Errorf("%s %s: %q", name, input, out)
		}
	}
}

func TestALongMessageComesInPieces(t *testing.T) {
	s := &enginetest.Session{}
	o := options()
	o.Limits, o.Completer = agent.Limits{Window: 40_000}, &enginetest.Clerk{}
	e := lcm.New(o, s)
	s.Append(llm.UserText("a"), llm.AssistantText("b"), llm.UserText(strings.Repeat("日本語", 15_000)+"the end"))
	for range 30 {
		s.Append(llm.AssistantText("ok"), llm.UserText("go on"))
	}
	p, err := e.Compress(t.Context(), s.View())
	if err != nil {
		t.Fatal(err)
	}
	s.Adopt(p)
	set, _ := tool.NewSet(e.Tools()...)
	out, err := runTool(t, set, "lcm_expand", `{"from":2,"to":2}`)
	if err != nil || !strings.Contains(out, "offset=20000") {
		t.Fatalf("%v, it ends with %q", err, out[max(0, len(out)-100):])
	}
	out, err = runTool(t, set, "lcm_expand", `{"from":2,"to":2,"offset":40000}`)
	if err != nil || !strings.Contains(out, "the end") {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}

func TestAnArchiveThatCannotBeReadIsToldToTheModel(t *testing.T) {
	down := lcm.Tools(func(context.Context, string) (json.RawMessage, lcm.Archive, error) {
		return nil, nil, errors.New("disk")
	})
	set, _ := tool.NewSet(down...)
	if _, err := runTool(t, set, "lcm_describe", `{}`); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Error(err)
	}
	e := lcm.New(options(), &enginetest.Session{})
	set, _ = tool.NewSet(e.Tools()...)
	if _, err := runTool(t, set, "lcm_grep", `{"pattern":"x"}`); err == nil || !strings.Contains(err.Error(), "nothing of this conversation is archived") {
		t.Error(err)
	}
}
