package files_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSearchFiles(t *testing.T) {
	_, set := workspace(t, map[string]string{
		"main.go": "package main\nfunc main() {}\n", "a/b/x.go": "package b\n// Func\n", "a/x_test.go": "func TestX() {}\n",
		"web/app.ts": "function x() {}\n", "web/app.tsx": "func\n", ".git/config": "func\n", "a/.svn/x": "func\n",
		"bin": "func\x00", "README.md": "nothing\n", "ä.txt": "Füße\n",
	})
	for _, c := range []struct {
		name string
		in   map[string]any
		want string
	}{
		{
			"content", map[string]any{"pattern": `^func\b`},
			"a/x_test.go:1|func TestX() {}\nmain.go:2|func main() {}\nweb/app.tsx:1|func\n[3 found]",
		},
		{"content and name", map[string]any{"pattern": `func`, "name": "*.go", "ignore_case": true}, "a/b/x.go:2|// Func\na/x_test.go:1|func TestX() {}\nmain.go:2|func main() {}\n[3 found]"},
		{"name", map[string]any{"name": "*.go"}, "a/b/x.go\na/x_test.go\nmain.go\n[3 found]"},
		{"one of several", map[string]any{"name": "*.{ts,tsx}"}, "web/app.ts\nweb/app.tsx\n[2 found]"},
		{"by path", map[string]any{"name": "a/**/*.go"}, "a/b/x.go\na/x_test.go\n[2 found]"},
		{"by path, one level", map[string]any{"name": "a/*.go"}, "a/x_test.go\n[1 found]"},
		{"in a folder", map[string]any{"name": "*", "path": "web/"}, "web/app.ts\nweb/app.tsx\n[2 found]"},
		{"in a file", map[string]any{"pattern": "main", "path": "main.go"}, "main.go:1|package main\nmain.go:2|func main() {}\n[2 found]"},
		{"other letters", map[string]any{"pattern": "füSSe|FÜßE", "name": "ä.*", "ignore_case": true}, "ä.txt:1|Füße\n[1 found]"},
		{"a limit", map[string]any{"name": "*.go", "limit": 2}, "a/b/x.go\na/x_test.go\n[2 found; the search ended early: there are more than 2 results]"},
		{"exactly the limit", map[string]any{"name": "*.go", "limit": 3}, "a/b/x.go\na/x_test.go\nmain.go\n[3 found]"},
		{"nothing", map[string]any{"pattern": "no such text"}, "[nothing was found]"},
		{"no question", map[string]any{"path": "a"}, "error: a pattern or a name is needed"},
		{"a bad pattern", map[string]any{"pattern": "("}, "error: the pattern cannot be read: error parsing regexp: missing closing ): `(`"},
		{"a bad glob", map[string]any{"name": "*.{go"}, `error: the glob "*.{go" has a brace that is not closed`},
		{"a bad class", map[string]any{"name": "[a"}, `error: the glob "[a" has a bracket that is not closed`},
		{"nowhere", map[string]any{"name": "*", "path": "no/such"}, "error: there is no file no/such; search_files finds files by name"},
	} {
		if d := cmp.Diff(c.want, use(t, set, "search_files", c.in)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestSearchReportsOmissions(t *testing.T) {
	contents := map[string]string{"large.txt": strings.Repeat("x", 11<<20)}
	for i := range 600 {
		contents[fmt.Sprintf("d/%03d.txt", i)] = strings.Repeat("y", 1000) + "\n"
	}
	_, set := workspace(t, contents)
	got := use(t, set, "search_files", map[string]any{"pattern": "[xy]", "limit": 10_000})
	if n := utf8.RuneCountInString(got); n > 100_000 {
		t.Errorf("a result of %d characters", n)
	}
	for _, want := range []string{"the search ended early: there are more", "d/000.txt:1|" + strings.Repeat("y", 400) + " [… the line goes on]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said", want)
		}
	}
	got = use(t, set, "search_files", map[string]any{"pattern": "x"})
	if d := cmp.Diff("[nothing was found; files that were too large or could not be read: 1]", got); d != "" {
		t.Error(d)
	}
}

func TestSearchLongLineAtBeginning(t *testing.T) {
	_, set := workspace(t, map[string]string{"one.txt": "needle" + strings.Repeat("x", 1<<20) + "\nsecond needle\n"})
	got := use(t, set, "search_files", map[string]any{"pattern": "needle"})
	if !strings.HasPrefix(got, "one.txt:1|needlexxx") || !strings.Contains(got, "\none.txt:2|second needle\n[2 found]") {
		t.Errorf("got %q", got)
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"*.go", "**/{a,b}[!x-z]?", "[", "{", "a/**", "[]]", "[^]", "\\", "[\\]", "{a,{b,c}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, set := workspace(t, map[string]string{filepath.Join("a", "b.go"): "x"})
		got := use(t, set, "search_files", map[string]any{"name": name})
		if strings.Contains(got, secret) {
			t.Errorf("%q: %q", name, got)
		}
	})
}
