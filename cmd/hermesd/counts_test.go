package main

import (
	"go/ast"
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

// counted matches a number in front of a noun in the plural.
var counted = regexp.MustCompile(`%d (?:[a-z]+ ){0,2}[a-z]+s\b`)

// neverOne are parts of texts that it matches and whose number is never 1, or that give
// both forms.
var neverOne = []string{
	"%d tokens", "%d ms", "%d days", "fits %d sessions", "%d entries of %s are", "characters of", "wrong codes were", "larger than %d",
	"call %d begins", "it may have %d",
}

// TestCountsHaveForms finds texts of the command line and its services that would say
// "1 messages".
func TestCountsHaveForms(t *testing.T) {
	for _, dir := range []string{".", "../internal/doctor", "../internal/admin", "../internal/app", "../internal/tui", "../internal/tui/text", "../../gateway/access/pairing"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, src, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				l, ok := n.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(l.Value) // it was parsed
				if counted.MatchString(text) && !slices.ContainsFunc(neverOne, func(part string) bool { return strings.Contains(text, part) }) {
					t.Errorf("%s: %q", set.Position(l.Pos()), text)
				}
				return true
			})
		}
	}
}
