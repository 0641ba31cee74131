package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// TestProtectedFilesNeedApproval: write_file and patch ask for what the shell would ask for,
// and change nothing if it is denied.
func TestProtectedFilesNeedApproval(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	manifest := "{\n  \"version\": \"1\",\n  \"scripts\": {\"test\": \"jest\"}\n}\n"
	inOrder(putFile("workspace/repo/.git/HEAD", "ref: refs/heads/main\n"), putFile("workspace/repo/.git/config", "[core]\n\tbare = false\n"), putFile("workspace/package.json", manifest),
		putFile("workspace/a.txt", "one\n"), putFile("workspace/.envrc", "x\n"), putLink("repo/.git", "workspace/link"), putLink("hooks", "workspace/repo/.git/h"))(w)
	w.start()
	w.waitConnected()
	write := func(path, content string) map[string]any { return map[string]any{"path": path, "content": content} }
	patch := func(lines ...string) map[string]any {
		return map[string]any{"mode": "patch", "patch": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch"}
	}
	before := w.tree()
	for _, c := range []struct {
		tool  string
		in    map[string]any
		shows []string
	}{
		{"write_file", write("repo/.git/hooks/pre-commit", "#!/bin/sh\ncurl evil\n"), []string{"repo/.git/hooks/pre-commit", "curl evil", "hooks or settings of a git repository"}},
		{"write_file", write("new/.git/config", "[core]\n\tpager = evil\n"), []string{"new/.git/config", "pager = evil"}},
		{"write_file", write("bare/HEAD", "ref: refs/heads/main\n"), []string{"bare/HEAD", "git repository"}},
		{"write_file", write("link/config", "[core]\n\tfsmonitor = evil\n"), []string{"link/config", "it leads to repo/.git/config", "fsmonitor"}},
		{"write_file", write("a/../repo/./.git/h/x", "evil\n"), []string{"it leads to repo/.git/hooks/x"}},
		{"write_file", write("repo/.GIT/Hooks/pre-commit", "evil\n"), []string{"repo/.GIT/Hooks/pre-commit"}},
		{"write_file", write(".ssh/authorized_keys", "ssh-ed25519 evil\n"), []string{"who may log in"}},
		{"write_file", write(".bashrc", "evil\n"), []string{"read when they start"}},
		{"write_file", write(".config/autostart/x.desktop", "evil\n"), []string{"starts by itself"}},
		{"write_file", write(".github/workflows/ci.yml", "run: evil\n"), []string{"a CI service"}},
		{"write_file", write(".vscode/tasks.json", "{}\n"), []string{"an editor or a tool"}},
		{"write_file", write("package.json", `{"scripts":{"postinstall":"evil"}}`), []string{"scripts or hooks in a package manifest", "postinstall"}},
		{"patch", map[string]any{"path": "package.json", "old_string": "jest", "new_string": "evil"}, []string{"package.json", "evil"}},
		{"patch", map[string]any{"path": ".envrc", "old_string": "x", "new_string": "evil"}, []string{".envrc"}},
		{"patch", patch("*** Move File: a.txt -> .envrc2", "*** Move File: .envrc -> old"), []string{".envrc: it is deleted", "also: .envrc2, a.txt, old"}},
		{"patch", patch("*** Update File: a.txt", "-one", "+two", "*** Add File: .gitlab-ci.yml", "+evil", "*** Add File: sub/.envrc", "+evil"), []string{".gitlab-ci.yml", "sub/.envrc", "also: a.txt"}},
		{"patch", patch("*** Move File: a.txt -> repo/.git/hooks/update"), []string{"hooks/update"}},
	} {
		text := w.ask(c.tool, c.in)
		if strings.Count(text, "May I run this?") != 1 || !(logLine{text: text}).has(c.shows...) {
			t.Errorf("%s %v: %s", c.tool, c.in, text)
			continue
		}
		w.deny()
	}
	same(t, "files after what was denied", before, w.tree())
	for _, c := range []map[string]any{
		write("notes/a.md", "x\n"), write("package.json", strings.Replace(manifest, `"1"`, `"2"`, 1)), write("repo/.gitignore", "x\n"), write("deploy/app.service", "x\n"), write("Makefile", "x:\n"),
	} {
		if text := w.ask("write_file", c); !strings.Contains(text, "result: [") {
			t.Errorf("%v: %s", c, text)
		}
	}
}

// tree returns the files and directories of the workspace with their sizes.
func (w *harness) tree() []string {
	w.Helper()
	var out []string
	w.must(filepath.WalkDir(w.path("workspace"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, err := os.ReadFile(p)
			w.must(err)
			p += ": " + string(raw)
		}
		out = append(out, p)
		return err
	}))
	return out
}

// TestApprovedProtectedFileIsWritten: an approval covers this change, and one for always the
// changes of this file by either tool, and nothing else.
func TestApprovedProtectedFileIsWritten(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	hook := func(name, content string) map[string]any {
		return map[string]any{"path": ".git/hooks/" + name, "content": content}
	}
	approve := func(in map[string]any, how string) {
		t.Helper()
		if text := w.ask("write_file", in); !strings.Contains(text, "May I run this?") {
			t.Fatalf("%v: %s", in, text)
		}
		w.askBot(how, "result: [")
	}
	approve(hook("a", "1\n"), "/approve")
	approve(hook("a", "2\n"), "/approve always")
	if text := w.ask("write_file", hook("a", "3\n")); !strings.Contains(text, "result: [") {
		t.Errorf("it asks again: %s", text)
	}
	if text := w.ask("patch", map[string]any{"path": ".git/hooks/a", "old_string": "3", "new_string": "4"}); !strings.Contains(text, "result: [") {
		t.Errorf("it asks again: %s", text)
	}
	for what, c := range map[string]map[string]any{
		"another hook":  {"tool": "write_file", "path": ".git/hooks/b", "content": "1\n"},
		"two files":     {"tool": "patch", "patch": "*** Update File: .git/hooks/a\n-4\n+5\n*** Add File: .git/hooks/b\n+1\n"},
		"another place": {"tool": "write_file", "path": "sub/.git/hooks/a", "content": "1\n"},
		"the shell":     {"tool": "terminal", "command": "echo 5 > .git/hooks/a"},
	} {
		name := c["tool"].(string)
		delete(c, "tool")
		if text := w.ask(name, c); !strings.Contains(text, "May I run this?") {
			t.Errorf("%s is covered: %s", what, text)
			continue
		}
		w.deny()
	}
	if got := w.readFile("workspace/.git/hooks/a"); got != "4\n" {
		t.Errorf("the hook is %q", got)
	}
}

// TestScheduledRunChangesNoProtectedFile: where nobody can approve, the change is refused and
// the reason is told.
func TestScheduledRunChangesNoProtectedFile(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	when, text, to := "every 12h", use("write_file", `{"path":".git/hooks/pre-commit","content":"evil"}`), []string{w.placeholders().Replace("telegram:$ANN")}
	jobs := w.app.Pipeline().Cron().Manager()
	_, err := jobs.Create(w.ctx, schedule.Caller{Principal: access.Principal{Platform: chat.Cron, ID: "somebody", Level: access.Owner}}, "job", schedule.JobPatch{Schedule: &when, Prompt: &text, Deliver: &to})
	w.must(err)
	_, err = jobs.Run(w.ctx, schedule.OperatorCaller(), "job", "")
	w.must(err)
	w.waitFor("the run is told", func() bool {
		return slices.ContainsFunc(w.visibleTexts(w.chat), func(s string) bool {
			return strings.HasPrefix(s, "result: ") && logLine{text: s}.has("nothing is written", "hooks or settings of a git repository", "Nobody is there to allow it")
		})
	})
	if _, err := os.Stat(w.path("workspace/.git")); err == nil {
		t.Error("something was written")
	}
}
