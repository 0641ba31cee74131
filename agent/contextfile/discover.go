package contextfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"hermesd/agent/injection"
)

const (
	// maxHint is the most characters of one discovered file.
	maxHint = 8_000
	// maxHints is about how many characters one tool result gets; what is left
	// over comes with the next call that touches it.
	maxHints = 24_000
	// parents is how many folders above the one that was touched are looked at.
	parents = 5
	// maxPaths is how many paths of one call are looked at.
	maxPaths = 100
)

// A Discovery finds the project files of the folders that a session comes to.
// It looks at each folder at most once. It may be used by several goroutines.
type Discovery struct {
	given string // the working directory as it was named
	dir   string // the same without links, "" if it cannot be used

	mu      sync.Mutex // guards what follows
	visited map[string]bool
}

// NewDiscovery returns the Discovery of a session that works in dir. The files
// of dir itself are in the prompt, so it counts as visited.
func NewDiscovery(dir string) *Discovery {
	d := &Discovery{visited: map[string]bool{".": true}}
	if abs, err := filepath.Abs(dir); err == nil {
		d.given = abs
	}
	if real, err := resolve(dir); err == nil {
		d.dir = real
	}
	return d
}

const found = "[Subdirectory context discovered: "

// MarkSeen marks the folders as visited whose files an earlier result of a tool
// already holds, so that a session goes on after a restart.
func (d *Discovery) MarkSeen(result string) {
	for line := range strings.Lines(result) {
		if rest, ok := strings.CutPrefix(line, found); ok {
			name := strings.TrimSuffix(strings.TrimSpace(rest), "]")
			if plain, err := strconv.Unquote(name); err == nil {
				name = plain
			}
			d.visit(path.Dir(name))
		}
	}
}

// visit reports whether folder was not visited before; it is now.
func (d *Discovery) visit(folder string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.visited[folder] {
		return false
	}
	d.visited[folder] = true
	return true
}

// AfterTool returns the text to append to the result of a tool that was called with
// these arguments: the project files of folders that they name and that were not
// visited before, inside of the working tree only. It is "" mostly.
func (d *Discovery) AfterTool(input json.RawMessage) (string, []Note) {
	paths := pathsOf(input)
	if d.dir == "" || len(paths) == 0 {
		return "", nil
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return "", []Note{{Level: Operator, Text: fmt.Sprintf("Project files of folders are not read: %v.", err)}}
	}
	defer func() { _ = root.Close() }() // it was only read
	var out strings.Builder
	var notes []Note
	size := 0
	for _, p := range paths {
		folder, ok := d.folder(p)
		for i := 0; ok && i <= parents && size < maxHints && d.visit(folder); i++ {
			block, ns := look(root, folder)
			notes = append(notes, ns...)
			out.WriteString(block)
			size += utf8.RuneCountInString(block)
			if folder == "." {
				break
			}
			folder = path.Dir(folder)
		}
	}
	return out.String(), notes
}

// folder returns the folder that a path names or is in, relative to the working
// directory and without links. ok is false if that is outside or nowhere.
func (d *Discovery) folder(p string) (string, bool) {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", false
		}
		p = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(d.dir, p)
	}
	p = filepath.Clean(p)
	if rel, ok := within(d.given, p); ok {
		p = filepath.Join(d.dir, rel)
	} else if _, ok := within(d.dir, p); !ok {
		return "", false // what is outside is not even looked at
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		if real, err = filepath.EvalSymlinks(filepath.Dir(p)); err != nil {
			return "", false
		}
	} else if info, err := os.Stat(real); err != nil || !info.IsDir() {
		real = filepath.Dir(real)
	}
	return within(d.dir, real)
}

func within(dir, p string) (string, bool) {
	rel, err := filepath.Rel(dir, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// look returns the block of the first project file of folder that is not empty.
func look(root *os.Root, folder string) (string, []Note) {
	var notes []Note
	note := func(format string, args ...any) {
		notes = append(notes, Note{Level: Operator, Text: fmt.Sprintf(format, args...)})
	}
	for _, name := range []string{"AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules"} {
		at := path.Join(folder, name)
		text, broken, err := readText(root, at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			note("%s is not read: %v.", at, plainError(err))
			continue
		case strings.TrimSpace(text) == "":
			continue
		case broken:
			note("%s is not valid UTF-8; what could not be read is shown as \uFFFD.", at)
		}
		if hits := injection.Scan(text); len(hits) > 0 {
			note("%s is blocked, because it looks like prompt injection (%s): %q.", at, injection.JoinIDs(hits), hits[0].Excerpt)
			text = injection.Placeholder(name, hits)
		}
		return "\n\n" + found + onOneLine(at) + "]\n" + strings.TrimSpace(limit(name, text)), notes
	}
	return "", notes
}

// onOneLine returns a path, quoted if it holds what could break the line.
func onOneLine(p string) string {
	if q := strconv.Quote(p); q != `"`+p+`"` {
		return q
	}
	return p
}

func limit(name, text string) string {
	total := utf8.RuneCountInString(text)
	if total <= maxHint {
		return text
	}
	return fmt.Sprintf("%s\n\n[...truncated %s: kept %d of %d chars. Use file tools to read the full file.]", string([]rune(text)[:maxHint]), name, maxHint, total)
}
