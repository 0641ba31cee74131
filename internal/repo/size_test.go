package repo_test

import (
	"go/ast"
	"testing"
)

const (
	maxFile     = 500 // lines
	maxFunction = 60  // lines
	maxParams   = 5
)

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	sources(t, func(path, pkg string) {
		n := len(lines(t, path))
		if n > maxFile {
			t.Errorf("%s has %d lines, more than %d", path, n, maxFile)
		}
		set, f := parse(t, path, 0)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || pkg == "storage/storagetest" { // its functions are lists of named tests
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
