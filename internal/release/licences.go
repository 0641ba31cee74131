package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// licenceFile matches the names of license files.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)

// Licences returns the full license texts of everything linked into programs, the
// standard library first. Most licenses require that. dir is in the main module, whose
// dependencies must have been downloaded.
func Licences(ctx context.Context, dir string, programs ...*debug.BuildInfo) (string, error) {
	var b strings.Builder
	b.WriteString("hermesd is made with the following works. Each is under the licence that stands with it.\n")
	root, err := runCommand(ctx, dir, environment(""), "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	if err := appendLicences(&b, "Go standard library, "+programs[0].GoVersion, strings.TrimSpace(root)); err != nil {
		return "", err
	}
	var modules []*debug.Module
	for _, info := range programs {
		modules = append(modules, info.Deps...)
	}
	slices.SortFunc(modules, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	modules = slices.CompactFunc(modules, func(a, b *debug.Module) bool { return a.Path == b.Path })
	at, err := moduleDirs(ctx, dir, modules)
	if err != nil {
		return "", err
	}
	for _, m := range modules {
		name := m.Path + " " + m.Version
		if err := appendLicences(&b, name, at[name]); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// moduleDirs returns the directories of modules, by path and version.
func moduleDirs(ctx context.Context, dir string, modules []*debug.Module) (map[string]string, error) {
	at := map[string]string{}
	if len(modules) == 0 {
		return at, nil
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range modules {
		args = append(args, m.Path)
	}
	out, err := runCommand(ctx, dir, environment(""), "go", args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		name, folder, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		at[name] = folder
	}
	return at, nil
}

// appendLicences appends the license files in dir.
func appendLicences(b *strings.Builder, name, dir string) error {
	if dir == "" {
		return fmt.Errorf("release: module %s is not downloaded; run `go mod download`", name)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("release: read license of %s: %w", name, err)
	}
	found := false
	for _, f := range files {
		if !f.Type().IsRegular() || !licenceFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("release: read license of %s: %w", name, err)
		}
		found = true
		fmt.Fprintf(b, "\n%s\n%s: %s\n%s\n\n%s\n", strings.Repeat("=", 78), name, f.Name(), strings.Repeat("=", 78),
			strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if !found {
		return fmt.Errorf("release: %s has no license file in %s and cannot be distributed", name, dir)
	}
	return nil
}
