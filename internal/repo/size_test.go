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

// maxParts is the maximum number of fields of a struct named Parts, which holds the
// collaborators of a type. More of them are a sign that the type has several jobs.
const maxParts = 7

func TestPartsAreFew(t *testing.T) {
	found := 0
	sources(t, func(path, pkg string) {
		_, f := parse(t, path, 0)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			switch {
			case !ok:
			case spec.Name.Name == "Parts":
				found++
				if n := s.Fields.NumFields(); n > maxParts {
					t.Errorf("%s: Parts has %d fields, more than %d", path, n, maxParts)
				}
			case spec.Name.Name == "Options" && (pkg == "gateway" || pkg == "gateway/turn"):
				t.Errorf("%s: collaborators are in Parts, values in Settings; Options would mix them", path)
			}
			return true
		})
	})
	if found < 5 {
		t.Errorf("found %d structs named Parts", found)
	}
}
