package repo_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// stays matches the packages to which ARCHITECTURE.md confines a dependency.
var (
	stays  = regexp.MustCompile("Stays? in ((?:`[^`]+`(?:, | and )?)+)")
	quoted = regexp.MustCompile("`([^`]+)`")
)

// TestDependenciesStayWhereThePageSays checks the sentences "Stays in …" of
// ARCHITECTURE.md against the imports. The simulators may import everything.
func TestDependenciesStayWhereThePageSays(t *testing.T) {
	places := map[string][]string{}
	for _, line := range lines(t, "ARCHITECTURE.md") {
		cells := strings.Split(line, "|")
		m := stays.FindStringSubmatch(line)
		if len(cells) < 4 || m == nil {
			continue
		}
		for _, module := range quoted.FindAllStringSubmatch(cells[1], -1) {
			for _, dir := range quoted.FindAllStringSubmatch(m[1], -1) {
				places[module[1]] = append(places[module[1]], dir[1])
			}
		}
	}
	if len(places) < 15 {
		t.Fatalf("only %d dependencies stay somewhere", len(places))
	}
	sources(t, func(path, pkg string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, im := range f.Imports {
			name, _ := strconv.Unquote(im.Path.Value)
			for module, dirs := range places {
				if under(name, module) && !under(pkg, "internal/sim") && !slices.ContainsFunc(dirs, func(dir string) bool { return under(pkg, dir) }) {
					t.Errorf("%s imports %s, which stays in %s", path, name, strings.Join(dirs, ", "))
				}
			}
		}
	})
}

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
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md") {
		for _, m := range link.FindAllStringSubmatch(strings.Join(lines(t, page), "\n"), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, ":") {
				continue // not a page of ours
			}
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(strings.Join(lines(t, to), "\n"), -1) {
				found = found || strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
			}
			if !found {
				t.Errorf("%s: %s: there is no such heading", page, m[1])
			}
		}
	}
}

// TestPromptPageHasOnlyFilledLayers checks that the daemon can fill each layer that
// docs/prompt.md describes.
func TestPromptPageHasOnlyFilledLayers(t *testing.T) {
	field := map[string]string{ // of prompt.Inputs
		"honcho": "Honcho", "system message": "SystemMessage", "memory": "Memory", "user profile": "UserProfile",
		"external memory": "ExternalMemory", "skills": "Skills", "context files": "ContextFiles", "platform": "Platform",
	}
	always := []string{"layer", "---", "identity", "guidance", "session", "note"}
	var code strings.Builder
	files, err := filepath.Glob("cmd/internal/app/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(raw)
	}
	page, _, _ := strings.Cut(strings.Join(lines(t, "docs/prompt.md"), "\n"), "\n## The text of a turn")
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			f := field[name]
			filled := f != "" && regexp.MustCompile(`\bin\.`+f+`\b[^=\n]* = |\b`+f+`: `).MatchString(code.String())
			if !slices.Contains(always, name) && !filled {
				t.Errorf("docs/prompt.md describes the layer %q, which nothing fills", name)
			}
		}
	}
}
