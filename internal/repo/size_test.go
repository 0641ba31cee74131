package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

const (
	maxFile     = 500 // lines
	maxFunction = 60  // lines
	maxParams   = 5
)

func lines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// longer are the packages whose functions may exceed the limits, each with its
// reason.
var longer = map[string]string{
	"storage/storagetest": "its functions are lists of named tests, one sentence each",
	"cmd/internal/admin":  "a request has a method, a path, a query, a body and an answer",
	"cmd/internal/doctor": "a finding has a check, a level, a repair, a fix and a text",
}

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	sources(t, func(path, pkg string) {
		n := len(lines(t, path))
		if n > maxFile {
			t.Errorf("%s has %d lines, more than %d", path, n, maxFile)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || longer[pkg] != "" {
				continue
			}
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", path, fn.Name.Name, n, maxFunction)
			}
			if n := fn.Type.Params.NumFields(); n > maxParams {
				t.Errorf("%s: %s has %d parameters, more than %d", path, fn.Name.Name, n, maxParams)
			}
			if fn.Name.Name == "init" && fn.Recv == nil && pkg != "internal/spawn" { // see its init
				t.Errorf("%s: has an init function", path)
			}
		}
	})
}
