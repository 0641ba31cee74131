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

// larger are the packages whose functions may be longer than they should be, and
// those that may be larger as a whole, each with its reason.
var (
	longer = map[string]string{
		"storage/storagetest": "its functions are lists of named tests, one sentence each",
	}
	larger = map[string]struct {
		lines  int
		reason string
	}{
		"storage/bolt":          {4500, "it implements every port of the gateway over one file, and its types are of no use apart"},
		"storage/storagetest":   {2500, "one suite, in files by port"},
		"internal/sim/telegram": {6500, "a server with the semantics of a whole platform"},
		"internal/sim/llm":      {2500, "a server with the semantics of two services"},
		"adapters/telegram":     {2500, "every method of a platform that we use, with its refusals"},
	}
)

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
			if !ok || longer[pkg] != "" {
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
		if most := max(maxPackage, larger[pkg].lines); n > most {
			t.Errorf("package %s has %d lines, more than %d", pkg, n, most)
		}
	}
}
