// Package repo_test checks rules of the whole repository: which package may import
// which, where files are opened and processes are started, how long functions are, and
// that pages agree with the code.
package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root of the repository. Tests do not make it their working directory: a
// change of directory in TestMain is unknown to the go command, which then takes a cached
// result although files have changed.
var root = findRoot()

// files are the files of the repository.
var files = os.DirFS(root)

// findRoot returns the nearest directory with a go.mod, as an absolute path.
func findRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic("no go.mod found")
		}
	}
}

// sources calls visit for each Go file of the module that is not a test.
func sources(t *testing.T, visit func(file, pkg string)) {
	t.Helper()
	err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != "."):
			return fs.SkipDir
		case d.IsDir() && file == "internal/interop": // a module of its own
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		visit(file, path.Dir(file))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// read returns the contents of a file.
func read(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := fs.ReadFile(files, file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(read(t, file)), "\n"), "\n")
}

// glob returns the files that match a pattern, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := fs.Glob(files, pattern)
	if err != nil || len(found) == 0 {
		t.Fatal(pattern, found, err)
	}
	return found
}

// parse parses a Go file.
func parse(t *testing.T, file string, mode parser.Mode) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, read(t, file), mode)
	if err != nil {
		t.Fatal(err)
	}
	return set, f
}

// imports returns the paths that a Go file imports.
func imports(t *testing.T, file string) []string {
	t.Helper()
	_, f := parse(t, file, parser.ImportsOnly)
	paths := make([]string, len(f.Imports))
	for i, im := range f.Imports {
		paths[i] = strings.Trim(im.Path.Value, `"`)
	}
	return paths
}
