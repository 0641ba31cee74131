package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	agentllm "hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/cmd/internal/app"
	"hermesd/gateway/session"
	"hermesd/internal/sim/llm"
)

// promptSize returns the estimated tokens of the prompt and of the tools of a request.
func promptSize(r llm.Entry) (system, tools int) {
	var ts []agentllm.Tool
	for _, t := range r.Tools {
		ts = append(ts, agentllm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return tokens.Text(r.System), tokens.Tools(ts)
}

func toolNames(r llm.Entry) string {
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const smallTools = "memory read_file session_search terminal write_file"

// turns returns the recorded requests of turns.
func (w *harness) turnRequests() (rs []llm.Entry) {
	for _, r := range w.model.Requests() {
		if len(r.Tools) > 0 {
			rs = append(rs, r)
		}
	}
	return rs
}

// TestSmallWindowsWork has a conversation with tools in windows in which the prompt and all
// tools would leave little room. The service refuses what is longer.
func TestSmallWindowsWork(t *testing.T) {
	t.Parallel()
	for _, window := range []int{8000, 16_000, 24_000} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			w := newFormatHarness(t, "", strings.NewReplacer("\n  api_key", fmt.Sprintf("\n  context_length: %d\n  api_key", window)), llm.Options{ContextTokens: window})
			w.start()
			w.writeFile("workspace/AGENTS.md", strings.Repeat("Be kind to everybody. ", 1500))
			for i := range 4 {
				w.askConsole(fmt.Sprintf("hello %d", i), fmt.Sprintf("hello %d", i))
			}
			if n := w.countLogs("small toolset is used"); n != 1 {
				t.Errorf("said %d times", n)
			}
			if n := w.countLogs("🧰 conversations get the toolset small"); n != 1 {
				t.Errorf("the start says so %d times", n)
			}
			w.stop()
			for _, r := range w.turnRequests() {
				system, tools := promptSize(r)
				if got := toolNames(r); got != smallTools || r.Status == 400 {
					t.Errorf("status %d with %s", r.Status, got)
				}
				_, rest, _ := strings.Cut(r.System, "\n\n# Project Context")
				if project := tokens.Text(rest); system+tools-project > 2300 || project > window/10 {
					t.Errorf("%d tokens of prompt and %d of tools, %d of the project", system, tools, project)
				}
				if !strings.Contains(r.System, "[...truncated AGENTS.md: kept ") {
					t.Error("the project file is whole")
				}
			}
		})
	}
}

// TestToolsetThatIsWrittenHolds: nothing is chosen where something is written.
func TestToolsetThatIsWrittenHolds(t *testing.T) {
	for config, want := range map[string]string{
		"toolsets: [all]\n":         "",
		"toolsets: [hermes-cli]\n":  "",
		"toolsets: [todo, small]\n": "memory read_file session_search terminal todo write_file",
		"":                          smallTools,
	} {
		w := newFormatHarness(t, config, strings.NewReplacer("\n  api_key", "\n  context_length: 24000\n  api_key"), llm.Options{})
		w.start()
		w.askConsole("hello", "hello")
		w.stop()
		r := w.turnRequests()[0]
		if got := toolNames(r); want == "" && len(r.Tools) < 12 || want != "" && got != want {
			t.Errorf("%q: got %s", config, got)
		}
		if short := !strings.Contains(r.System, "It describes the present situation"); short != (want != "") {
			t.Errorf("%q: short guidance: %t", config, short)
		}
		if said := w.countLogs("small toolset is used") > 0; said != (config == "") {
			t.Errorf("%q: said: %t", config, said)
		}
	}
}

// TestSmallToolsetTakes2000Tokens measures the toolset with its guidance, also that for models
// that are told to use tools.
func TestSmallToolsetTakes2000Tokens(t *testing.T) {
	w := newFormatHarness(t, "toolsets: [small]\n", strings.NewReplacer("claude-sonnet-4-5", "gemma-claude"), llm.Options{})
	w.start()
	w.askConsole("hello", "hello")
	w.stop()
	r := w.turnRequests()[0]
	_, tools := promptSize(r)
	_, guidance, _ := strings.Cut(r.System, "Text between <gateway-context>")
	guidance, _, _ = strings.Cut(guidance, "\n\nConversation started:")
	if n := tools + tokens.Text(guidance); n > 2000 || n < 1000 {
		t.Errorf("%d tokens of tools, %d of guidance", tools, tokens.Text(guidance))
	}
}

// TestUsualPrompt checks the figure that doctor uses without a daemon.
func TestUsualPrompt(t *testing.T) {
	w := newFormatHarness(t, "", strings.NewReplacer(), llm.Options{})
	w.start()
	w.askConsole("hello", "hello")
	w.stop()
	system, tools := promptSize(w.turnRequests()[0])
	if n := system + tools; n < app.UsualPrompt*9/10 || n > app.UsualPrompt*11/10 {
		t.Errorf("the prompt has %d tokens, UsualPrompt says %d", n, app.UsualPrompt)
	}
}

// TestSkillsGetTheirShareOfTheWindow has more skills than a small window has room for.
func TestSkillsGetTheirShareOfTheWindow(t *testing.T) {
	t.Parallel()
	skills := filepath.Join(t.TempDir(), "skills")
	for i := range 300 {
		dir := filepath.Join(skills, fmt.Sprintf("skill-with-a-long-name-%03d", i))
		text := fmt.Sprintf("---\nname: skill-with-a-long-name-%03d\ndescription: %s\n---\n\nCook.\n", i, strings.Repeat("Cooks well. ", 15))
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for window, most := range map[int]int{8000: 3000, 16_000: 6000, 32_000: 12_000, 64_000: 24_000} {
		c, report, home := configured(t, fmt.Sprintf("model: {provider: demo, default: demo, context_length: %d}\ntoolsets: [skills]\n", window))
		if err := os.Rename(skills, filepath.Join(home, "skills")); err != nil { // from the home before
			t.Fatal(err)
		}
		skills = filepath.Join(home, "skills")
		build, err := app.Prompts(c, report, home)
		if err != nil {
			t.Fatal(err)
		}
		_, index, _ := strings.Cut(build(session.Record{ID: "s"}).System(), "## Skills (mandatory)")
		index, _, closed := strings.Cut(index, "</available_skills>")
		first, last := strings.Contains(index, "name-000"), strings.Contains(index, "name-299")
		if n := len(index); n > most || n < most*3/10 || !first || !last || !closed {
			t.Errorf("window %d: an index of %d characters, first %t, last %t, closed %t", window, n, first, last, closed)
		}
		if cut := strings.Contains(index, "[...truncated the index of skills: kept "); cut != (window < 32_000) {
			t.Errorf("window %d: truncated: %t", window, cut)
		}
	}
}
