package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func allow(string) error { return nil }

func unprotected(string) string { return "" }

// editable returns a workspace with all tools. deny is files.Options.Deny.
func editable(t testing.TB, deny func(string) error, contents map[string]string) (dir string, w *files.Workspace, set tool.Set) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "workspace")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range contents {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if set, err = tool.NewSet(slices.Concat(w.Tools(), w.Writers(files.Options{Deny: deny, Protect: unprotected}))...); err != nil {
		t.Fatal(err)
	}
	return dir, w, set
}

func held(t testing.TB, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// onlyThese fails if dir contains other files, such as a leftover temporary file.
func onlyThese(t testing.TB, dir string, want ...string) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files: %s", d)
	}
}

func TestWriteSpecs(t *testing.T) {
	_, _, set := editable(t, allow, nil)
	for name, effect := range map[string]tool.Effect{"write_file": tool.Idempotent, "patch": tool.AtMostOnce} {
		tl, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		if s := tl.Spec(); s.Effect != effect || s.Parallel || s.Description == "" || !json.Valid(s.Schema) {
			t.Errorf("%+v", s)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{
		"a.txt": "one\ntwo\n", "crlf.txt": "one\r\ntwo\r\n", "bom.txt": "\ufeffone\n", "bin": "\x7fELF\x00", "sub/x": "x",
	})
	for _, c := range []struct {
		path, content, want, holds string
	}{
		{"a.txt", "one\n2\n", "[a.txt is rewritten: 6 bytes]\n@@ line 1 @@\n one\n-two\n+2", "one\n2\n"},
		{"a.txt", "one\n2\n", "[a.txt holds exactly this already]", "one\n2\n"},
		{"new/deep/ü.txt", "ä\n", "[new/deep/ü.txt is made: 3 bytes]", "ä\n"},
		{"empty", "", "[empty is made: 0 bytes]", ""},
		{"crlf.txt", "one\n2\n", "[crlf.txt is rewritten: 8 bytes]\n@@ line 1 @@\n one\n-two\n+2", "one\r\n2\r\n"},
		{"bom.txt", "two\n", "[bom.txt is rewritten: 7 bytes]\n@@ line 1 @@\n-\ufeffone\n+\ufefftwo", "\ufefftwo\n"},
		{"bin", "x", "error: bin is a binary file (5 bytes); this tool changes text only", "\x7fELF\x00"},
		{"sub", "x", "error: sub is a folder; name a file", ""},
		{"sub/", "x", "error: sub/ is a folder; name a file", ""},
		{".", "x", "error: . is a folder; name a file", ""},
		{"a.txt/x", "x", "error: a.txt/x is not changed: a part of its path is a file, not a folder", ""},
		{"zero", "a\x00b", "error: the text holds a zero byte; this tool writes text only", ""},
		{"large", strings.Repeat("x", 4<<20+1), "error: that are 4194305 bytes; at most 4 MiB are written to one file", ""},
		{filepath.Join(dir, "abs.txt"), "x\n", "[abs.txt is made: 2 bytes]", ""},
	} {
		if d := cmp.Diff(c.want, use(t, set, "write_file", map[string]any{"path": c.path, "content": c.content})); d != "" {
			t.Errorf("%s: %s", c.path, d)
		}
		if c.holds != "" {
			if d := cmp.Diff(c.holds, held(t, dir, c.path)); d != "" {
				t.Errorf("%s: %s", c.path, d)
			}
		}
	}
	onlyThese(t, dir, "a.txt", "abs.txt", "bin", "bom.txt", "crlf.txt", "empty", "new/deep/ü.txt", "sub/x")
	for _, in := range []map[string]any{{"content": "x"}, {"path": "x"}} {
		if got := use(t, set, "write_file", in); !strings.HasPrefix(got, "error: a ") {
			t.Errorf("%v: %q", in, got)
		}
	}
}

func TestPatch(t *testing.T) {
	code := "func a() {\n\tx := 1\n\treturn x\n}\n\nfunc b() {\n\tx := 1\n\treturn x + 1\n}\n"
	for _, c := range []struct {
		name, file, old, new string
		all                  bool
		want, holds          string
	}{
		{"exactly", code, "return x + 1", "return 2", false, "[f is changed]\n@@ line 6 @@\n func b() {\n \tx := 1\n-\treturn x + 1\n+\treturn 2\n }", strings.Replace(code, "return x + 1", "return 2", 1)},
		{"ambiguous", code, "x := 1", "x := 2", false, "error: f is not changed: the old text stands there 2 times, at the lines 2, 7; give more of what is around it, or set replace_all", code},
		{"everywhere", code, "x := 1", "y", true, "[f is changed; places: 2]\n@@ line 1 @@\n func a() {\n-\tx := 1\n+\ty\n \treturn x\n }\n \n func b() {\n-\tx := 1\n+\ty\n \treturn x + 1\n }", strings.ReplaceAll(code, "x := 1", "y")},
		{"other indentation", code, "    x := 1\n    return x + 1", "    return 3", false, "[f is changed; found indentation aside]\n@@ line 5 @@\n \n func b() {\n-\tx := 1\n-\treturn x + 1\n+\treturn 3\n }", strings.Replace(code, "\tx := 1\n\treturn x + 1", "\treturn 3", 1)},
		{"spaces at the end", "a  \nb\n", "a\nb", "c", false, "[f is changed; found spaces at the ends of lines aside]\n@@ line 1 @@\n-a  \n-b\n+c", "c\n"},
		{"other spacing", "a = b   + c\n", "a  =  b + c", "d", false, "[f is changed; found spacing aside]\n@@ line 1 @@\n-a = b   + c\n+d", "d\n"},
		{"typographic", "it’s “so” – yes\n", `it's "so" - yes`, "no", false, "[f is changed; found typographic characters aside]\n@@ line 1 @@\n-it’s “so” – yes\n+no", "no\n"},
		{"escapes", "a\n\tb\n", `a\n\tb`, `c\nd`, false, "[f is changed; found escapes read as what they stand for]\n@@ line 1 @@\n-a\n-\tb\n+c\n+d", "c\nd\n"},
		{"taken out", "a\nb\nc\n", "b\n", "", false, "[f is changed]\n@@ line 1 @@\n a\n-b\n c", "a\nc\n"},
		{"nearest", code, "return x + 12", "y", false, "error: f is not changed: the old text does not stand there. These lines are the nearest; copy the text exactly:\n6|func b() {\n7|\tx := 1\n8|\treturn x + 1\n9|}\n10|", code},
		{"nothing like it", code, "completely other words", "y", false, "error: f is not changed: the old text does not stand there, and nothing like it; read the file and copy the text exactly", code},
		{"other words are not taken", "delete(a)\n", "delete(b)", "x", false, "error: f is not changed: the old text does not stand there. These lines are the nearest; copy the text exactly:\n1|delete(a)\n2|", "delete(a)\n"},
		{"CRLF stays", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, "[f is changed]\n@@ line 1 @@\n-a\n-b\n+x\n+y\n+z\n c", "x\r\ny\r\nz\r\nc\r\n"},
		{"mixed ends stay", "a\r\nb\nc\r\n", "b\n", "x\n", false, "[f is changed]\n@@ line 1 @@\n a\n-b\n+x\n c", "a\r\nx\nc\r\n"},
		{"BOM stays", "\ufeffa\nb\n", "a", "x", false, "[f is changed]\n@@ line 1 @@\n-\ufeffa\n+\ufeffx\n b", "\ufeffx\nb\n"},
		{"no end of line at the end", "a\nb", "b", "c", false, "[f is changed]\n@@ line 1 @@\n a\n-b\n+c", "a\nc"},
		{"other letters", "日本\nñ\n", "本", "木", false, "[f is changed]\n@@ line 1 @@\n-日本\n+日木\n ñ", "日木\nñ\n"},
		{"the same", "a", "a", "a", false, "error: old_string and new_string are the same", "a"},
		{"nothing old", "a", "", "b", false, "error: an old_string is needed; to write a whole file use write_file", "a"},
		{"blank only", "a\n\n\nb\n", "\n\n\n\n", "x", false, "error: f is not changed: the old text does not stand there, and nothing like it; read the file and copy the text exactly", "a\n\n\nb\n"},
	} {
		dir, _, set := editable(t, allow, map[string]string{"f": c.file})
		got := use(t, set, "patch", map[string]any{"path": "f", "old_string": c.old, "new_string": c.new, "replace_all": c.all})
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if d := cmp.Diff(c.holds, held(t, dir, "f")); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		onlyThese(t, dir, "f")
	}
}

func TestPatchOfSeveralFiles(t *testing.T) {
	contents := map[string]string{"a.go": "func a() {\n\tone\n\ttwo\n}\nfunc b() {\n\tone\n\ttwo\n}\n", "old.txt": "x\n", "gone.txt": "y\n", "crlf": "a\r\nb\r\n", "from": "m\n"}
	dir, _, set := editable(t, allow, contents)
	if err := os.Chmod(filepath.Join(dir, "from"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := use(t, set, "patch", map[string]any{"mode": "patch", "patch": `*** Begin Patch
*** Update File: a.go
@@ func b() {
 	one
-	two
+	2
*** Add File: sub/new.txt
+hello
+
+world
*** Delete File: gone.txt
*** Move File: from -> sub/to
*** Update File: crlf
-b
+c
+d
*** End Patch`})
	want := "[a.go is changed]\n@@ line 5 @@\n func b() {\n \tone\n-\ttwo\n+\t2\n }\n[sub/new.txt is made: 13 bytes]\n[gone.txt is deleted]\n[sub/to is made: 2 bytes]\n[from is deleted]\n[crlf is changed]\n@@ line 1 @@\n a\n-b\n+c\n+d"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	onlyThese(t, dir, "a.go", "crlf", "old.txt", "sub/new.txt", "sub/to")
	if h := held(t, dir, "crlf"); h != "a\r\nc\r\nd\r\n" {
		t.Errorf("%q", h)
	}
	if info, err := os.Stat(filepath.Join(dir, "sub/to")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	for patch, want := range map[string]string{
		"*** Update File: old.txt\n-x\n+z\n*** Update File: a.go\n-nope\n+x": "error: nothing is changed: a.go: hunk 1: its lines do not stand there",
		"*** Update File: old.txt\n-x\n+z\n*** Add File: a.go\n+x":           "error: nothing is changed: a.go is there already",
		"*** Update File: a.go\n \tone\n+x":                                  "error: nothing is changed: a.go: hunk 1: its lines stand there 2 times",
		"*** Update File: a.go\n@@ func c\n-x":                               "error: nothing is changed: a.go: hunk 1: there is no line",
		"*** Update File: old.txt\n-x\n+z\n*** Update File: old.txt\n-x\n+y": "error: nothing is changed: old.txt is being changed by another call",
		"*** Move File: old.txt -> a.go":                                     "error: nothing is changed: a.go is there already; nothing is moved over it",
		"*** Move File: old.txt":                                             "error: line 1 of the patch: a move",
		"*** Update File: ../x\n-x":                                          "error: nothing is changed: ../x is outside",
		"*** Delete File: nope":                                              "error: nothing is changed: there is no file nope",
		"*** Update File: old.txt":                                           "error: nothing is changed: the update of old.txt has no hunk",
		"*** Add File: n\nx":                                                 "error: line 2 of the patch: each line of a new file begins with +",
		"just text":                                                          "error: line 1 of the patch: a file is named first",
		"":                                                                   "error: a patch is needed",
	} {
		if got := use(t, set, "patch", map[string]any{"mode": "patch", "patch": patch}); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q", patch, got)
		}
	}
	if h := held(t, dir, "old.txt"); h != "x\n" {
		t.Errorf("a patch that does not fit has changed a file: %q", h)
	}
}

// Paths out of the workspace are not written, and nothing is created outside.
func TestWriteStaysInWorkspace(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"in": "x", "sub/in": "x"})
	base := filepath.Dir(dir)
	write(t, filepath.Join(base, "secret"), secret)
	write(t, filepath.Join(base, "other", "secret"), secret)
	for name, to := range map[string]string{
		"abs": filepath.Join(base, "secret"), "rel": "../secret", "up": "..", "root": "/", "folder": filepath.Join(base, "other"), "loop": "loop",
		"chain": "rel", "dangling": "../new", "sub/deep": "../../secret", "proc": "/proc/self/cwd",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{
		"../secret", "..", "/etc/x", filepath.Join(base, "secret"), dir + "-2/x", "abs", "rel", "up/secret", "up/new", "root/tmp/x", "folder/secret", "folder/new",
		"loop", "chain", "dangling", "sub/deep", "proc/x", "sub/../../secret", "a\x00b", "new/../../x", strings.Repeat("../", 50) + "x",
	} {
		for name, in := range map[string]map[string]any{
			"write_file": {"path": p, "content": "changed"},
			"patch":      {"path": p, "old_string": "secret", "new_string": "changed"},
		} {
			if got := use(t, set, name, in); !strings.HasPrefix(got, "error: ") || strings.Contains(got, base) && !strings.Contains(p, base) {
				t.Errorf("%s %q: %q", name, p, got)
			}
		}
		for _, patch := range []string{"*** Delete File: " + p, "*** Add File: " + p + "\n+x", "*** Move File: in -> " + p} {
			if got := use(t, set, "patch", map[string]any{"patch": patch}); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%q: %q", patch, got)
			}
		}
	}
	if held(t, base, "secret") != secret || held(t, base, "other/secret") != secret {
		t.Error("what is outside has changed")
	}
	if left, _ := os.ReadDir(base); len(left) != 3 {
		t.Errorf("made outside: %v", left)
	}
}

func TestWriteThroughInnerLink(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"sub/f": "a\n"})
	if err := errors.Join(os.Symlink("sub/f", filepath.Join(dir, "short")), os.Symlink("sub", filepath.Join(dir, "dir"))); err != nil {
		t.Fatal(err)
	}
	for i, p := range []string{"short", "dir/f"} {
		if got := use(t, set, "write_file", map[string]any{"path": p, "content": fmt.Sprint(i)}); strings.HasPrefix(got, "error") {
			t.Error(got)
		}
		if got := held(t, dir, "sub/f"); got != fmt.Sprint(i) {
			t.Errorf("%s: %q", p, got)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "short")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

// A file that the operator protects cannot be changed under any name.
func TestWriteObservesDeny(t *testing.T) {
	deny := func(p string) error {
		if filepath.Base(p) == ".env" || filepath.Base(filepath.Dir(p)) == "store" {
			return errors.New("it belongs to the daemon")
		}
		if !filepath.IsAbs(p) {
			return fmt.Errorf("the path %s is not absolute", p)
		}
		return nil
	}
	dir, _, set := editable(t, deny, map[string]string{".env": "K=1", "store/db": "x", "ok": "x"})
	if err := errors.Join(os.Symlink(".env", filepath.Join(dir, "link")), os.Symlink("store", filepath.Join(dir, "s"))); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{".env", "./.env", "store/../.env", "link", "store/db", "s/db", "s/new", filepath.Join(dir, ".env")} {
		for _, got := range []string{
			use(t, set, "write_file", map[string]any{"path": p, "content": "y"}), use(t, set, "patch", map[string]any{"path": p, "old_string": "x", "new_string": "y"}),
			use(t, set, "patch", map[string]any{"patch": "*** Delete File: " + p}), use(t, set, "patch", map[string]any{"patch": "*** Move File: ok -> " + p}),
		} {
			if !strings.Contains(got, "it belongs to the daemon") {
				t.Errorf("%s: %q", p, got)
			}
		}
	}
	if held(t, dir, ".env") != "K=1" || held(t, dir, "store/db") != "x" {
		t.Error("a denied file has changed")
	}
	if got := use(t, set, "write_file", map[string]any{"path": "ok", "content": "y"}); strings.HasPrefix(got, "error") {
		t.Error(got)
	}
}

func TestWriteKeepsModes(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"run.sh": "a\n", "private": "a\n", "fixed": "a\n"})
	modes := map[string]fs.FileMode{"run.sh": 0o777, "private": 0o600, "fixed": 0o444}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range modes {
		got := use(t, set, "patch", map[string]any{"path": name, "old_string": "a", "new_string": "b"})
		if fixed := name == "fixed"; fixed != (got == "error: fixed is read-only; it stays as it is") || !fixed && held(t, dir, name) != "b\n" {
			t.Errorf("%s: %q", name, got)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has %v, %v", name, info.Mode(), err)
		}
	}
}

func TestWriteRejectsPipe(t *testing.T) {
	dir, _, set := editable(t, allow, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	for _, got := range []string{
		use(t, set, "write_file", map[string]any{"path": "pipe", "content": "x"}), use(t, set, "patch", map[string]any{"path": "pipe", "old_string": "x", "new_string": "y"}),
	} {
		if got != "error: pipe is not a regular file" {
			t.Errorf("%q", got)
		}
	}
}

func TestWriteRejectsFileChangedSinceRead(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"f": "a\n"})
	use(t, set, "read_file", map[string]any{"path": "f"})
	if got := use(t, set, "write_file", map[string]any{"path": "f", "content": "mine\n"}); strings.HasPrefix(got, "error") {
		t.Fatal(got)
	}
	write(t, filepath.Join(dir, "f"), "somebody else's\n")
	got := use(t, set, "write_file", map[string]any{"path": "f", "content": "mine again\n"})
	if got != "error: f has changed since you read it; read it again, then decide what to write" || held(t, dir, "f") != "somebody else's\n" {
		t.Errorf("%q, the file holds %q", got, held(t, dir, "f"))
	}
	use(t, set, "read_file", map[string]any{"path": "f"})
	if got := use(t, set, "write_file", map[string]any{"path": "f", "content": "mine again\n"}); strings.HasPrefix(got, "error") {
		t.Error(got)
	}
}

func TestWriteDetectsConcurrentChange(t *testing.T) {
	for name, between := range map[string]func(f string) error{
		"written": func(f string) error { return os.WriteFile(f, []byte("b\n"), 0o644) },
		"replaced": func(f string) error {
			return errors.Join(os.WriteFile(f+"2", []byte("b\n"), 0o644), os.Rename(f+"2", f))
		},
		"deleted":  os.Remove,
		"a link":   func(f string) error { return errors.Join(os.Remove(f), os.Symlink("/etc/passwd", f)) },
		"a folder": func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o755)) },
	} {
		dir, w, _ := editable(t, allow, map[string]string{"f": "a\n"})
		err := files.Between(w, "f", func() {
			if err := between(filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
		}, "mine\n")
		if err == nil {
			t.Errorf("%s: it is overwritten", name)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".hermes-*")); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

// No change of concurrent calls is lost: each call has changed the file or reports that it
// has not.
func TestWriteConcurrentCallsLoseNothing(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"f": "end\n"})
	var wg sync.WaitGroup
	results := make([]string, 24)
	for i := range results {
		wg.Go(func() {
			results[i] = use(t, set, "patch", map[string]any{"path": "f", "old_string": "end\n", "new_string": fmt.Sprintf("call %d\nend\n", i)})
		})
	}
	wg.Wait()
	text := held(t, dir, "f")
	for i, r := range results {
		if done := !strings.HasPrefix(r, "error"); done != strings.Contains(text, fmt.Sprintf("call %d\n", i)) {
			t.Errorf("call %d: %q, but the file holds %q", i, r, text)
		}
	}
	if !strings.Contains(text, "call") {
		t.Error("no call has changed anything")
	}
	onlyThese(t, dir, "f")
}

// A text whose places overlap is ambiguous.
func TestPatchOverlappingPlacesAreAmbiguous(t *testing.T) {
	for name, in := range map[string]map[string]any{
		"a text":  {"path": "f", "old_string": "bb", "new_string": "c"},
		"lines":   {"path": "f", "old_string": "x \ny\nx", "new_string": "c"},
		"a patch": {"patch": "*** Begin Patch\n*** Update File: f\n@@\n-q\n+r\n*** End Patch\n"},
	} {
		const file = "bbb\nx\ny\nx\ny\nx\nq\nq\n"
		dir, _, set := editable(t, allow, map[string]string{"f": file})
		if r := use(t, set, "patch", in); !strings.Contains(r, "2 times") {
			t.Errorf("%s: %s", name, r)
		}
		if got := held(t, dir, "f"); got != file {
			t.Errorf("%s: the file holds %q", name, got)
		}
	}
	dir, _, set := editable(t, allow, map[string]string{"f": "bbbbb"})
	r := use(t, set, "patch", map[string]any{"path": "f", "old_string": "bb", "new_string": "c", "replace_all": true})
	if got := held(t, dir, "f"); got != "ccb" || !strings.Contains(r, "places: 2") {
		t.Errorf("%q, %s", got, r)
	}
}

func TestPatchAndReverse(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"f": "x"})
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`[a-cé木 \t]{0,6}(\n[a-c ]{0,4}){0,3}`)
		old, text := piece.Draw(t, "old"), piece.Draw(t, "new")
		file := piece.Draw(t, "before") + old + piece.Draw(t, "after")
		if rapid.Bool().Draw(t, "crlf") {
			file = strings.ReplaceAll(file, "\n", "\r\n")
		}
		if rapid.Bool().Draw(t, "bom") {
			file = "\ufeff" + file
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
		run := func(old, text string) bool {
			tl, _ := set.Lookup("patch")
			in, _ := json.Marshal(map[string]any{"path": "f", "old_string": old, "new_string": text})
			_, err := tl.Run(context.Background(), tool.Call{Input: in, User: tool.Unattended{}})
			return err == nil
		}
		plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		once := func(s, part string) bool { // "bbb" contains "bb" twice
			return strings.Contains(s, part) && strings.Index(s, part) == strings.LastIndex(s, part)
		}
		if !once(plain(file), old) || old == "" || text == "" || !run(old, text) {
			t.Skip("it does not stand there once")
		}
		raw, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(file, "\n") > 0 != (strings.Count(string(raw), "\n") > 0) || !once(plain(string(raw)), text) {
			t.Skip("the way back is not the same")
		}
		if !run(text, old) {
			t.Fatal("there is no way back")
		}
		back, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || string(back) != file {
			t.Fatalf("got %q, want %q (%v)", back, file, err)
		}
	})
}

// A diff, applied as a patch, turns one text into the other.
func TestDiffIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 12)
		a, b := line.Draw(t, "a"), line.Draw(t, "b")
		var minus, plus int
		for _, l := range strings.Split(files.Diff(strings.Join(a, "\n")+"\n", strings.Join(b, "\n")+"\n"), "\n") {
			switch {
			case strings.HasPrefix(l, "-"):
				minus++
			case strings.HasPrefix(l, "+"):
				plus++
			}
		}
		if len(a)-minus+plus != len(b) {
			t.Fatalf("%d lines, %d out, %d in: %d lines", len(a), minus, plus, len(b))
		}
	})
}

func FuzzApplyPatch(f *testing.F) {
	f.Add("*** Update File: a\n@@ x\n-a\n+b\n", "x\na\n")
	f.Add("*** Update File: a\n a\n+b\n\n@@\n-c", "a\n\nc")
	f.Add("*** Update File: a\n+b\n", "")
	f.Fuzz(func(t *testing.T, patch, file string) {
		_, _ = files.ApplyPatch(patch, file) // it must end, and not panic
	})
}
