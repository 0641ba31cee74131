package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// licenceFile are the names by which authors give away their work.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)

// Licences returns the licences of all that is linked into a program, of the
// standard library first, word by word: most of them want to go along with it.
// dir lies in the module, whose other modules have been fetched.
func Licences(ctx context.Context, dir string, info *debug.BuildInfo) (string, error) {
	var b strings.Builder
	b.WriteString("hermesd is made with the following works. Each is under the licence that stands with it.\n")
	root, err := command(ctx, dir, environment(""), "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	if err := licencesOf(&b, "Go standard library, "+info.GoVersion, strings.TrimSpace(root)); err != nil {
		return "", err
	}
	at, err := folders(ctx, dir, info)
	if err != nil {
		return "", err
	}
	for _, m := range info.Deps {
		name := m.Path + " " + m.Version
		if err := licencesOf(&b, name, at[name]); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// folders returns where the modules of a program lie, by path and version.
func folders(ctx context.Context, dir string, info *debug.BuildInfo) (map[string]string, error) {
	at := map[string]string{}
	if len(info.Deps) == 0 {
		return at, nil
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	out, err := command(ctx, dir, environment(""), "go", args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		name, folder, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		at[name] = folder
	}
	return at, nil
}

// licencesOf writes the files of a work that tell its licence.
func licencesOf(b *strings.Builder, name, dir string) error {
	if dir == "" {
		return fmt.Errorf("release: nobody knows where %s lies; `go mod download` fetches it", name)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("release: licence of %s: %w", name, err)
	}
	found := false
	for _, f := range files {
		if !f.Type().IsRegular() || !licenceFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("release: licence of %s: %w", name, err)
		}
		found = true
		fmt.Fprintf(b, "\n%s\n%s: %s\n%s\n\n%s\n", strings.Repeat("=", 78), name, f.Name(), strings.Repeat("=", 78),
			strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if !found {
		return fmt.Errorf("release: %s has no file with its licence in %s; it cannot be handed on", name, dir)
	}
	return nil
}
