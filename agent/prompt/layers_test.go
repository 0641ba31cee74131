package prompt_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

var update = flag.Bool("update", false, "update the golden files in testdata")

func namedTools(names ...string) []llm.Tool {
	tools := make([]llm.Tool, len(names))
	for i, n := range names {
		tools[i] = llm.Tool{Name: n, Description: "The tool " + n + ".", Schema: json.RawMessage(`{"type":"object"}`)}
	}
	return tools
}

// fullInputs returns inputs with text for every layer.
func fullInputs(t *testing.T) prompt.Inputs {
	t.Helper()
	in := basicInputs(t)
	in.Soul = "I am Ada, a gardener.\n"
	in.Honcho = "Peer card: prefers short answers."
	in.Memory = strings.Repeat("═", 46) + "\nMEMORY (your personal notes) [1% — 22/2,200 chars]\n" + strings.Repeat("═", 46) + "\nThe shed is in the north."
	in.UserProfile = strings.Repeat("═", 46) + "\nUSER PROFILE (who the user is) [0% — 10/1,375 chars]\n" + strings.Repeat("═", 46) + "\nName: Tom."
	in.ExternalMemory = "What is known besides: nothing."
	in.Skills = "## Skills (mandatory)\nLoad what matches.\n<available_skills>\ngarden:\n- prune: Prunes trees.\n</available_skills>"
	in.ContextFiles = "# Project Context\n\nThe following project context files have been loaded and should be followed:\n\n## AGENTS.md\n\nWater at dawn."
	in.Model = "gpt-5"
	in.Tools = namedTools("memory", "session_search", "skill_manage", "skill_view", "skills_list")
	return in
}

func layerNames(p prompt.Prefix) []string {
	var names []string
	for _, l := range p.Layers() {
		names = append(names, l.Name)
	}
	return names
}

func layerText(p prompt.Prefix, name string) string {
	for _, l := range p.Layers() {
		if l.Name == name {
			return l.Text
		}
	}
	return ""
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; every stored session's next rebuild would too. If that is meant, run with -update:\n%s", path, d)
	}
}

func TestPrefixWithAllLayers(t *testing.T) {
	p := prompt.Build(fullInputs(t))
	want := []string{
		prompt.LayerIdentity, prompt.LayerGuidance, prompt.LayerHoncho, prompt.LayerSystemMessage, prompt.LayerMemory,
		prompt.LayerUserProfile, prompt.LayerExternalMemory, prompt.LayerSkills, prompt.LayerContextFiles, prompt.LayerSession, prompt.LayerPlatform,
	}
	if d := cmp.Diff(want, layerNames(p)); d != "" {
		t.Error(d)
	}
	checkGolden(t, "full.golden", p.System()+"\n\n--- tools "+p.Hash()+"\n"+prompt.Show(p.Layers(), false))
}

// Version 1 of the stored form must restore the same bytes.
func TestPrefixReadsStoredVersion1(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "version1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p prompt.Prefix
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"identity", "guidance", "system message", "session", "platform"}, layerNames(p)); d != "" {
		t.Error(d)
	}
	if got := p.System(); !strings.HasPrefix(got, "You are Hermes, ") || !strings.Contains(got, "\n\nBe kind.\n\nConversation started: ") {
		t.Errorf("got %q", got)
	}
	again, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSpace(string(raw)), string(again)); d != "" {
		t.Error(d)
	}
}

func TestGuidanceDependsOnOfferedTools(t *testing.T) {
	marks := map[string]string{
		"memory": "Use the memory tool without being asked", "session_search": "searched with session_search", "skill_manage": "with skill_manage",
	}
	for tool, mark := range marks {
		got := layerText(prompt.Build(prompt.Inputs{Tools: namedTools(tool)}), prompt.LayerGuidance)
		for other, m := range marks {
			if strings.Contains(got, m) != (other == tool) {
				t.Errorf("with %s offered, the guidance for %s is there: %v", tool, other, strings.Contains(got, m))
			}
		}
		if strings.Contains(layerText(prompt.Build(prompt.Inputs{}), prompt.LayerGuidance), mark) {
			t.Errorf("the guidance for %s is there without the tool", tool)
		}
		if !strings.HasPrefix(got, "Text between <gateway-context>") {
			t.Errorf("the note on the gateway's blocks is not there: %q", got)
		}
	}
}

const enforcementText = "Use your tools to act."

func TestEnforcementDependsOnModelName(t *testing.T) {
	for _, c := range []struct {
		setting []string
		model   string
		want    bool
	}{
		{nil, "openai/GPT-5.2", true},
		{nil, "gpt-5-codex", true},
		{[]string{"auto"}, "gemini-3-pro", true},
		{[]string{"auto"}, "gemma-3", true},
		{[]string{"Auto"}, "x-ai/grok-4", true},
		{[]string{"auto"}, "claude-opus-4-8", false},
		{[]string{""}, "", false},
		{[]string{"on"}, "claude-opus-4-8", true},
		{[]string{"true"}, "", true},
		{[]string{"never"}, "gpt-5", false},
		{[]string{"false"}, "gpt-5", false},
		{[]string{"qwen", "Claude"}, "claude-opus-4-8", true},
		{[]string{"qwen"}, "gpt-5", false},
	} {
		e, err := prompt.ParseEnforcement(c.setting...)
		if err != nil && !slices.Contains(c.setting, "") {
			t.Fatal(err)
		}
		p := prompt.Build(prompt.Inputs{Enforce: e, Model: c.model, Tools: namedTools("look")})
		if got := strings.Contains(p.System(), enforcementText); got != c.want {
			t.Errorf("%q for %q: enforced %v, want %v", c.setting, c.model, got, c.want)
		}
		if p := prompt.Build(prompt.Inputs{Enforce: e, Model: c.model}); strings.Contains(p.System(), enforcementText) {
			t.Errorf("%q for %q: enforced without any tool", c.setting, c.model)
		}
	}
}

func TestEnforcementRejectsInvalidSetting(t *testing.T) {
	for _, values := range [][]string{{"auto", "gpt"}, {"off", "gpt"}, {"gpt", ""}, {"gpt codex"}} {
		if _, err := prompt.ParseEnforcement(values...); err == nil || !strings.Contains(err.Error(), "agent.tool_use_enforcement") {
			t.Errorf("%q: got %v", values, err)
		}
	}
}

func TestSkillsLayerNeedsSkillTool(t *testing.T) {
	in := fullInputs(t)
	for tool, want := range map[string]bool{"skills_list": true, "skill_view": true, "skill_manage": true, "memory": false} {
		in.Tools = namedTools(tool)
		if got := layerText(prompt.Build(in), prompt.LayerSkills) != ""; got != want {
			t.Errorf("with %s: there %v, want %v", tool, got, want)
		}
	}
}

func TestSharedSessionHasNoUserProfile(t *testing.T) {
	in := fullInputs(t)
	in.Shared = true
	p := prompt.Build(in)
	if strings.Contains(p.System(), "Name: Tom") || layerText(p, prompt.LayerMemory) == "" {
		t.Errorf("got %q", layerNames(p))
	}
}

func TestSources(t *testing.T) {
	for _, c := range []struct{ skip, keep, soul, files bool }{
		{false, false, true, true}, {false, true, true, true}, {true, false, false, false}, {true, true, true, false},
	} {
		if soul, files := prompt.Sources(c.skip, c.keep); soul != c.soul || files != c.files {
			t.Errorf("%+v: got %v, %v", c, soul, files)
		}
	}
}

func TestPrefixNoteIsAppendedOnce(t *testing.T) {
	p := prompt.Build(fullInputs(t))
	const note = "[Note: Some earlier conversation turns have been compacted into a summary.]"
	q := p.With(prompt.LayerNote, note)
	if q.System() != p.System()+"\n\n"+note {
		t.Errorf("got %q", q.System())
	}
	if again := q.With(prompt.LayerNote, note); again.Hash() != q.Hash() {
		t.Error("the note was appended twice")
	}
	if p.With("no such layer", note).Hash() != p.Hash() {
		t.Error("an unknown layer name changed the prompt")
	}
}

func TestPrefixWithMemoryKeepsPosition(t *testing.T) {
	in := fullInputs(t)
	p := prompt.Build(in)
	in.Memory, in.UserProfile = "new memory", ""
	if d := cmp.Diff(prompt.Build(in).System(), p.With(prompt.LayerMemory, "new memory").With(prompt.LayerUserProfile, " ").System()); d != "" {
		t.Error(d)
	}
	if got := layerText(p, prompt.LayerMemory); strings.Contains(got, "new memory") {
		t.Error("With changed its receiver")
	}
}

// withoutGatewayGuidance returns a cached prompt without the built-in text that
// names the tags.
func withoutGatewayGuidance(system string) string {
	first, rest, _ := strings.Cut(system, "Text between <gateway-context> and </gateway-context> comes from the gateway")
	return first + "\n\n" + rest
}

// No input can produce an overlay tag, not even where two texts meet; the
// layers make up the prompt; and equal inputs give equal bytes.
func TestBuildHasNoTagAndIsDeterministic(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(tagFragments(), rapid.String())
		in := prompt.Inputs{
			Name: text.Draw(r, "name"), Soul: text.Draw(r, "soul"), Guidance: rapid.SliceOfN(text, 0, 3).Draw(r, "guidance"),
			Honcho: text.Draw(r, "honcho"), SystemMessage: text.Draw(r, "system"), Memory: text.Draw(r, "memory"),
			UserProfile: text.Draw(r, "user"), ExternalMemory: text.Draw(r, "external"), Skills: text.Draw(r, "skills"),
			ContextFiles: text.Draw(r, "files"), Session: text.Draw(r, "session"), Model: text.Draw(r, "model"),
			Shared: rapid.Bool().Draw(r, "shared"), Tools: namedTools("skill_view"),
		}
		p, again := prompt.Build(in), prompt.Build(in)
		if p.System() != again.System() || p.Hash() != again.Hash() {
			r.Fatal("the same inputs give other bytes")
		}
		var parts []string
		for _, l := range p.Layers() {
			if l.Text == "" || l.Text != strings.TrimSpace(l.Text) {
				r.Fatalf("layer %s is %q", l.Name, l.Text)
			}
			parts = append(parts, l.Text)
		}
		if got := strings.Join(parts, "\n\n"); got != p.System() {
			r.Fatalf("the layers give %q, want %q", got, p.System())
		}
		rest := withoutGatewayGuidance(p.System())
		if prompt.EscapeTags(rest) != rest {
			r.Fatalf("a tag is left in %q", rest)
		}
	})
}

func TestShowPrintsLayerSizes(t *testing.T) {
	got := prompt.Show([]prompt.Layer{{Name: "identity", Text: "Ich heiße Ada."}, {Name: "session", Text: "12345678"}}, true)
	want := `layer            characters      bytes   ~tokens
identity                 14         15         4
session                   8          8         2
together                 24         25         6

=== identity ===
Ich heiße Ada.

=== session ===
12345678
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
