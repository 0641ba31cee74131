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
		"cmd/internal/admin":  "a request has a method, a path, a query, a body and an answer",
		"cmd/internal/doctor": "a finding has a check, a level, a repair, a fix and a text",
	}
	larger = map[string]struct {
		lines  int
		reason string
	}{
		"storage/bolt":          {5800, "it implements every port of the gateway over one file, and its types are of no use apart"},
		"storage/storagetest":   {3000, "one suite, in files by port"},
		"cmd/hermesd":           {4200, "one file per command of the command line"},
		"gateway/turn":          {4300, "one turn from its claim to its commit: every part works on the same claim and conversation"},
		"gateway":               {2900, "the road, and what commands may ask of it"},
		"gateway/schedule":      {2700, "one grammar and one clock"},
		"agent/shell":           {4200, "one shell: every part walks the same script with the same state"},
		"cmd/internal/admin":    {3000, "one file per part of the control socket"},
		"cmd/internal/app":      {3200, "where all parts are joined"},
		"internal/sim/discord":  {6000, "a server with the semantics of a whole platform"},
		"internal/sim/slack":    {5000, "a server with the semantics of a whole platform"},
		"internal/sim/telegram": {6500, "a server with the semantics of a whole platform"},
		"internal/sim/llm":      {2800, "a server with the semantics of two services, and of what they hear and speak"},
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
