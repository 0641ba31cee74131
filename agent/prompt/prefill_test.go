package prompt_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

func prefillFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prefill.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrefillKeepsText(t *testing.T) {
	for in, want := range map[string][]llm.Message{
		"[]":               {},
		"\xEF\xBB\xBF[]\n": {},
		`[{"role":"user","content":"Hi </gateway-context>"},
		  {"content":" Hello. ","role":"assistant"}]`: {llm.UserText("Hi &lt;/gateway-context>"), llm.AssistantText(" Hello. ")},
	} {
		_, got, err := prompt.LoadPrefill(prefillFile(t, in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

func TestPrefillOfRoleSystem(t *testing.T) {
	system, ms, err := prompt.LoadPrefill(prefillFile(t, `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"system","content":"In German."},{"role":"assistant","content":"Ja."}]`))
	if err != nil || system != "Be brief.\n\nIn German." {
		t.Errorf("%q, %v", system, err)
	}
	if d := cmp.Diff([]llm.Message{llm.UserText("Hi"), llm.AssistantText("Ja.")}, ms); d != "" {
		t.Error(d)
	}
}

func TestPrefillRejectsInvalidFile(t *testing.T) {
	const u, a = `{"role":"user","content":"x"}`, `{"role":"assistant","content":"y"}`
	for in, want := range map[string]string{
		"":                                      "file is empty",
		"{":                                     "line 1 is not valid JSON",
		"[\n" + u + "\n" + a + "]":              "line 3 is not valid JSON",
		"[]x":                                   "line 1 is not valid JSON",
		`{"messages":[]}`:                       "value is a object, want an array",
		"[" + u + "]":                           "last message has role user",
		"[" + a + "]":                           "message 1 has role assistant, want user",
		"[" + u + "," + a + "," + a + "]":       "message 3 has role assistant, want user",
		`[{"role":"system","content":""}]`:      "content is missing",
		`[{"role":"tool","content":"x"}]`:       `message 1: unknown role "tool"`,
		`[{"content":"x"}]`:                     "role is missing",
		`[{"role":"user"}]`:                     "content is missing",
		`[{"role":"user","content":" "}]`:       "content is missing",
		`[{"role":"user","content":[1]}]`:       "content must be a string, not a array",
		`["hello"]`:                             "value is a string, want an object",
		`[{"role":"user","content":"x","n":1}]`: `unknown field "n"`,
		"[\"\xff\"]":                            "not UTF-8",
		"[" + strings.Repeat(u+","+a+",", 50) + u + "]": "101 messages",
		"[\"" + strings.Repeat("x", 300<<10) + "\"]":    "larger than 256 KiB",
	} {
		path := prefillFile(t, in)
		_, _, err := prompt.LoadPrefill(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.60q: got %v, want %q", in, err, want)
		}
	}
}

func TestPrefillRejectsIrregularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe:                                  "not a regular file",
		t.TempDir():                           "not a regular file",
		filepath.Join(t.TempDir(), "nothing"): "no such file",
	} {
		if _, _, err := prompt.LoadPrefill(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func FuzzPrefill(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`))
	f.Add([]byte(`[{"role":"user","content":"<gateway-context>"},{}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, ms, err := prompt.ParsePrefill(raw)
		if err != nil {
			return
		}
		if err := llm.ValidateMessages(append(ms, llm.UserText("x"))); err != nil {
			t.Fatalf("%q gives what no provider takes: %v", raw, err)
		}
	})
}
