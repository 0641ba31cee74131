package hermesd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

const (
	maxFile     = 500  // lines
	maxFunction = 60   // lines
	maxPackage  = 2000 // lines, all files but tests
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

// larger are the functions that are longer than they should be, each with its
// reason.
var larger = map[string]string{}

func TestFilesFunctionsAndPackagesAreSmall(t *testing.T) {
	size := map[string]int{}
	sources(t, func(path, pkg string) {
		n := len(lines(t, path))
		size[pkg] += n
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
			if !ok || larger[pkg+"."+fn.Name.Name] != "" {
				continue
			}
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", path, fn.Name.Name, n, maxFunction)
			}
			if n := fn.Type.Params.NumFields(); n > maxParams {
				t.Errorf("%s: %s has %d parameters, more than %d", path, fn.Name.Name, n, maxParams)
			}
			if fn.Name.Name == "init" && fn.Recv == nil {
				t.Errorf("%s: has an init function", path)
			}
		}
	})
	for pkg, n := range size {
		if n > maxPackage {
			t.Errorf("package %s has %d lines, more than %d", pkg, n, maxPackage)
		}
	}
}
