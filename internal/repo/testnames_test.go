package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goTest    = regexp.MustCompile("go test ([^`\n;|)]*)")
	selected  = regexp.MustCompile(`-(run|bench) +'?([A-Za-z][^' ]*)'?`)
	packages  = regexp.MustCompile(`\./[a-z][a-z0-9/]*(?:/\.\.\.)?`)
	testFuncs = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Za-z0-9_]*)\(`)
)

// go test passes when -run or -bench matches nothing, so a command with an old
// test name would pass without checking anything.
func TestCommandsNameExistingTests(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(files, "Makefile", "README.md", "ARCHITECTURE.md") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "$(GO) test", "go test")
		for _, m := range goTest.FindAllStringSubmatch(text, -1) {
			dirs := packages.FindAllString(m[1], -1)
			for _, s := range selected.FindAllStringSubmatch(m[1], -1) {
				for _, dir := range dirs {
					found++
					if !matches(t, dir, s[1] == "bench", s[2]) {
						t.Errorf("%s: `go test %s`: no test in %s matches %s", file, m[1], dir, s[2])
					}
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d commands are found", found)
	}
}

// matches reports whether a package, or one below dir/..., has a test or a
// benchmark whose name matches.
func matches(t *testing.T, dir string, bench bool, pattern string) bool {
	t.Helper()
	re := regexp.MustCompile(pattern)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", dir).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", dir, err)
	}
	for d := range strings.Lines(string(out)) {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(d), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testFuncs.FindAllStringSubmatch(string(raw), -1) {
				if strings.HasPrefix(m[1], "Benchmark") == bench && re.MatchString(m[1]) {
					return true
				}
			}
		}
	}
	return false
}
