package repo_test

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeBuildIsStatic checks that the command that README.md calls static builds
// without C. With C, package net is linked dynamically.
func TestReadmeBuildIsStatic(t *testing.T) {
	for n, line := range lines(t, "README.md") {
		if strings.Contains(line, "static") && !strings.Contains(line, "CGO_ENABLED=0 go build") {
			t.Errorf("README.md:%d: %s", n+1, line)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unsaid  = regexp.MustCompile(`[^\pL\pN_ -]`) // what an anchor leaves out
)

// TestLinksLead checks the links between pages, with their anchors.
func TestLinksLead(t *testing.T) {
	for _, page := range append(glob(t, "docs/*.md"), "README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md") {
		for _, m := range link.FindAllStringSubmatch(string(read(t, page)), -1) {
			name, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(name, ":") {
				continue // not a page of ours
			}
			to := page
			if name != "" {
				to = path.Join(path.Dir(page), name)
			}
			if _, err := fs.Stat(files, to); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(string(read(t, to)), -1) {
				found = found || strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
			}
			if !found {
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
}

var pathName = regexp.MustCompile("`((?:adapters|agent|cmd|docs|gateway|hygiene|internal|storage)(?:/[a-zA-Z0-9_.-]+)*(?:\\.[A-Z]\\w*)*)`")

// TestPagesNameWhatExists checks the paths that pages name, and the names that stand
// behind a package, such as gateway/access.Check or internal/spawn.TestEscapes.
func TestPagesNameWhatExists(t *testing.T) {
	code := map[string]string{} // by directory
	found := 0
	for _, page := range append(glob(t, "docs/*.md"), "README.md", "ARCHITECTURE.md", "SECURITY.md") {
		for _, m := range pathName.FindAllStringSubmatch(string(read(t, page)), -1) {
			if _, err := fs.Stat(files, m[1]); err == nil {
				found++
				continue
			}
			dir, base := path.Split(m[1])
			name, rest, _ := strings.Cut(base, ".")
			dir += name
			for name := range strings.SplitSeq(rest, ".") {
				if code[dir] == "" {
					code[dir] = source(t, dir)
				}
				found++
				declared := `\b` + name + `\b`
				if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
					declared = `(?m)^func ` + name + `\(`
				}
				if !regexp.MustCompile(declared).MatchString(code[dir]) {
					t.Errorf("%s: `%s` does not exist", page, m[1])
				}
			}
		}
	}
	if found < 250 {
		t.Errorf("only %d paths and names are found", found)
	}
}

// source returns the Go files in dir, tests included, as one text.
func source(t *testing.T, dir string) string {
	t.Helper()
	found, err := fs.Glob(files, dir+"/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, file := range found {
		b.Write(read(t, file))
	}
	return b.String()
}

// TestPromptPageHasOnlyFilledLayers checks that the daemon can fill each layer that
// docs/prompt.md describes.
func TestPromptPageHasOnlyFilledLayers(t *testing.T) {
	field := map[string]string{ // of prompt.Inputs
		"honcho": "Honcho", "system message": "SystemMessage", "memory": "Memory", "user profile": "UserProfile",
		"external memory": "ExternalMemory", "skills": "Skills", "context files": "ContextFiles", "platform": "Platform",
	}
	always := []string{"layer", "---", "identity", "guidance", "session", "note"}
	code := source(t, "cmd/internal/app")
	page, _, _ := strings.Cut(string(read(t, "docs/prompt.md")), "\n## The text of a turn")
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			f := field[name]
			filled := f != "" && regexp.MustCompile(`\bin\.`+f+`\b[^=\n]* = |\b`+f+`: `).MatchString(code)
			if !slices.Contains(always, name) && !filled {
				t.Errorf("docs/prompt.md describes the layer %q, which nothing fills", name)
			}
		}
	}
}
