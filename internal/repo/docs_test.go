package repo_test

import (
	"go/ast"
	"go/parser"
	"strings"
	"testing"
)

func TestExportedNamesHaveComments(t *testing.T) {
	documented := map[string]bool{}
	methods := interfaceMethods(t)
	sources(t, func(path, pkg string) {
		_, f := parse(t, path, parser.ParseComments)
		documented[pkg] = documented[pkg] || f.Doc != nil
		for _, d := range f.Decls {
			for _, name := range undocumented(d, methods) {
				t.Errorf("%s: %s has no comment", path, name)
			}
		}
	})
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

// interfaceMethods returns the names of the methods of interfaces, in the module and in
// the standard library as far as it needs them: the comment is there.
func interfaceMethods(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, n := range strings.Fields("String Error Unwrap GoString Len Less Swap Read Write Close MarshalText UnmarshalText MarshalJSON UnmarshalJSON Do RoundTrip") {
		names[n] = true
	}
	sources(t, func(path, _ string) {
		_, f := parse(t, path, 0)
		ast.Inspect(f, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						names[name.Name] = true
					}
				}
			}
			return true
		})
	})
	return names
}

// undocumented returns the exported names of d that have no comment. A comment
// on a group of constants or variables counts for the group. Methods of interfaces are
// documented there.
func undocumented(d ast.Decl, methods map[string]bool) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && !(d.Recv != nil && (methods[d.Name.Name] || unexportedReceiver(d))) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// unexportedReceiver reports whether d is a method of an unexported type.
func unexportedReceiver(d *ast.FuncDecl) bool {
	e := d.Recv.List[0].Type
	if s, ok := e.(*ast.StarExpr); ok {
		e = s.X
	}
	if g, ok := e.(*ast.IndexExpr); ok {
		e = g.X
	}
	id, ok := e.(*ast.Ident)
	return ok && !id.IsExported()
}

func TestCodeHasNoOpenItems(t *testing.T) {
	sources(t, func(path, _ string) {
		for n, line := range lines(t, path) {
			for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "not " + "implemented"} {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d: %s", path, n+1, strings.TrimSpace(line))
				}
			}
		}
	})
}

func TestArchitectureListsDependencies(t *testing.T) {
	page := string(read(t, "ARCHITECTURE.md"))
	for _, line := range lines(t, "go.mod") {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] == "module" || f[0] == "go" || !strings.HasPrefix(f[1], "v") {
			continue // not a requirement, or one that is only indirect
		}
		if name := strings.TrimPrefix(f[0], "github.com/charmbracelet/"); !strings.Contains(page, name) {
			t.Errorf("ARCHITECTURE.md does not say why %s is needed", f[0])
		}
	}
}
