package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
)

const secret = "the secret of the machine"

// workspace returns a directory with files, and the tools that read it. A secret is next to
// the directory.
func workspace(t *testing.T, contents map[string]string) (dir string, set tool.Set) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "workspace")
	write(t, filepath.Join(base, "secret.txt"), secret)
	write(t, filepath.Join(base, "other", "secret.txt"), secret)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range contents {
		write(t, filepath.Join(dir, name), text)
	}
	w, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	set, err = tool.NewSet(w.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return dir, set
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// use returns the result that the model reads.
func use(t *testing.T, set tool.Set, name string, in map[string]any) string {
	t.Helper()
	return useIn(t.Context(), t, set, name, in)
}

func useIn(ctx context.Context, t *testing.T, set tool.Set, name string, in map[string]any) string {
	t.Helper()
	tl, ok := set.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tl.Run(ctx, tool.Call{Input: raw, User: tool.Unattended{}})
	if err != nil {
		return "error: " + err.Error()
	}
	return out
}

func TestReadSpecs(t *testing.T) {
	_, set := workspace(t, nil)
	for _, name := range []string{"read_file", "search_files"} {
		tl, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		s := tl.Spec()
		if s.Effect != tool.Pure || !s.Parallel || s.Description == "" || !json.Valid(s.Schema) {
			t.Errorf("%+v", s)
		}
	}
}

func TestReadFile(t *testing.T) {
	var many strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&many, "line %d\n", i+1)
	}
	dir, set := workspace(t, map[string]string{
		"a.txt": "one\r\ntwo\n\nfour", "many.txt": many.String(), "empty.txt": "",
		"sub/ä.txt": "ü\n", "bad.txt": "ok \xff ok and a good deal of text around it",
		"bin":   "\x7fELF\x00\x01",
		"noise": strings.Repeat("\xfe\xff\xfd", 100),
		"p.png": "\x89PNG\r\n\x1a\nxxxx", "long.txt": "a" + strings.Repeat("é", 5000) + "z\nnext\n",
	})
	for _, c := range []struct {
		name string
		in   map[string]any
		want string
	}{
		{"whole", map[string]any{"path": "a.txt"}, "1|one\n2|two\n3|\n4|four"},
		{"absolute inside", map[string]any{"path": filepath.Join(dir, "a.txt"), "limit": 1}, "1|one\n[lines 1 to 1 of 4; read on with offset=2]"},
		{"a range", map[string]any{"path": "./sub/../many.txt", "offset": 3, "limit": 2}, "3|line 3\n4|line 4\n[lines 3 to 4 of 1200; read on with offset=5]"},
		{"the end", map[string]any{"path": "many.txt", "offset": 1199, "limit": 10}, "1199|line 1199\n1200|line 1200\n[lines 1199 to 1200 of 1200; this is the end]"},
		{"behind the end", map[string]any{"path": "many.txt", "offset": 2000}, "error: many.txt has 1200 lines; there is no line 2000"},
		{"empty", map[string]any{"path": "empty.txt"}, "[empty.txt is empty]"},
		{"other letters", map[string]any{"path": "sub/ä.txt"}, "1|ü"},
		{"a bad byte", map[string]any{"path": "bad.txt"}, "1|ok \uFFFD ok and a good deal of text around it"},
		{"binary", map[string]any{"path": "bin"}, "error: bin is a binary file (6 bytes); this tool reads text only"},
		{"noise", map[string]any{"path": "noise"}, "error: noise is a binary file (300 bytes); this tool reads text only"},
		{"an image", map[string]any{"path": "p.png"}, "error: p.png is an image (image/png, 12 bytes); this tool reads text only"},
		{"a folder", map[string]any{"path": "sub"}, "error: sub is a folder; search_files with a name such as * lists files"},
		{"nothing there", map[string]any{"path": "no/such"}, "error: there is no file no/such; search_files finds files by name"},
		{"no path", map[string]any{}, "error: a path is needed"},
		{"a long line", map[string]any{"path": "long.txt"}, "1|a" + strings.Repeat("é", 1999) + " [… the line goes on]\n2|next"},
		{"below the first line", map[string]any{"path": "a.txt", "offset": -5, "limit": 1}, "1|one\n[lines 1 to 1 of 4; read on with offset=2]"},
	} {
		if d := cmp.Diff(c.want, use(t, set, "read_file", c.in)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	if got := use(t, set, "read_file", map[string]any{"path": "many.txt"}); !strings.HasSuffix(got, "500|line 500\n[lines 1 to 500 of 1200; read on with offset=501]") {
		t.Errorf("by default: …%s", got[len(got)-100:])
	}
}

func TestReadFileInPartsShowsAllLines(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "%d %s\n", i+1, strings.Repeat("x", i%300))
	}
	_, set := workspace(t, map[string]string{"big.txt": text.String()})
	var got strings.Builder
	offset := 1
	for range 10 {
		out := use(t, set, "read_file", map[string]any{"path": "big.txt", "offset": offset, "limit": 2000})
		if n := utf8.RuneCountInString(out); n > 100_000 {
			t.Fatalf("a result of %d characters", n)
		}
		lines := strings.Split(out, "\n")
		last := lines[len(lines)-1]
		for _, l := range lines[:len(lines)-1] {
			_, content, _ := strings.Cut(l, "|")
			got.WriteString(content + "\n")
		}
		if _, err := fmt.Sscanf(last[strings.Index(last, "; ")+2:], "read on with offset=%d]", &offset); err != nil {
			break
		}
	}
	if got.String() != text.String() {
		t.Errorf("%d of %d bytes were read", got.Len(), text.Len())
	}
}

// The corpus of ways out of the workspace. None of them may reveal the secret.
func TestReadStaysInWorkspace(t *testing.T) {
	dir, set := workspace(t, map[string]string{"in.txt": "inside", "sub/in.txt": "inside"})
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	base := filepath.Dir(dir)
	link(filepath.Join(base, "secret.txt"), "absolute")
	link("../secret.txt", "relative")
	link("../../secret.txt", "sub/deep")
	link("relative", "chain")
	link("..", "up")
	link("/", "root")
	link(filepath.Join(base, "other"), "folder")
	link("loop", "loop")
	link("/proc/self/cwd", "proc")
	link("sub/../../secret.txt", "winding")
	ways := []string{
		"../secret.txt", "sub/../../secret.txt", "./../secret.txt", "..", "../other", "/", "//", "/etc/passwd", "/proc/self/environ",
		filepath.Join(base, "secret.txt"), dir + "/../secret.txt", dir + "-2/secret.txt", "absolute", "relative", "sub/deep", "chain",
		"up/secret.txt", "up", "root" + base + "/secret.txt", "folder/secret.txt", "folder", "loop", "proc/secret.txt", "winding",
		"in.txt/../../secret.txt", "..\\secret.txt", "~/secret.txt", "$HOME", "a\x00/../secret.txt", strings.Repeat("x", 5000),
		strings.Repeat("../", 100) + base + "/secret.txt", "file://" + base + "/secret.txt", "sub/./.././../secret.txt", " ../secret.txt",
	}
	for _, p := range ways {
		for name, in := range map[string]map[string]any{
			"read_file":    {"path": p},
			"search_files": {"path": p, "pattern": ".", "name": "*"},
		} {
			got := use(t, set, name, in)
			if strings.Contains(got, secret) || strings.Contains(got, "root:") || !strings.HasPrefix(got, "error: ") && !strings.HasPrefix(got, "[nothing was found") {
				t.Errorf("%s %q: %q", name, p, got)
			}
			if strings.Contains(got, base) && !strings.Contains(p, base) {
				t.Errorf("%s %q names a path of the machine: %q", name, p, got)
			}
		}
	}
	got := use(t, set, "search_files", map[string]any{"pattern": "secret|inside"})
	if d := cmp.Diff("in.txt:1|inside\nsub/in.txt:1|inside\n[2 found]", got); d != "" {
		t.Error(d)
	}
}

func TestReadFollowsInnerLink(t *testing.T) {
	dir, set := workspace(t, map[string]string{"sub/in.txt": "inside"})
	if err := os.Symlink("sub/in.txt", filepath.Join(dir, "short")); err != nil {
		t.Fatal(err)
	}
	if got := use(t, set, "read_file", map[string]any{"path": "short"}); got != "1|inside" {
		t.Errorf("got %q", got)
	}
}

func TestReadDoesNotBlockOnPipe(t *testing.T) {
	dir, set := workspace(t, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	if got := use(t, set, "read_file", map[string]any{"path": "pipe"}); got != "error: pipe is not a regular file" {
		t.Errorf("got %q", got)
	}
	if got := use(t, set, "search_files", map[string]any{"pattern": "x"}); got != "[nothing was found]" {
		t.Errorf("got %q", got)
	}
}

func TestReadCanceled(t *testing.T) {
	_, set := workspace(t, map[string]string{"a.txt": strings.Repeat("x\n", 5000)})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	for name, in := range map[string]map[string]any{"read_file": {"path": "a.txt"}, "search_files": {"pattern": "y"}} {
		if got := useIn(ctx, t, set, name, in); !strings.Contains(got, "stopped") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOpenNeedsDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	for _, d := range []string{filepath.Join(dir, "no"), filepath.Join(dir, "f")} {
		if w, err := files.Open(d); err == nil {
			w.Close()
			t.Errorf("%s is opened", d)
		}
	}
}
