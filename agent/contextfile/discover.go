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
	// maxFileChars limits the characters of one discovered file, in a large window.
	maxFileChars = 8_000
	// maxResultChars is about how many characters one tool result gets in a large
	// window; the remaining files are added to the next call that touches them.
	maxResultChars = 24_000
	// maxParents is how many directories above the touched one are checked.
	maxParents = 5
	// maxPaths limits the paths of one call that are checked, and also the words of a
	// command that are looked up because they may name a directory.
	maxPaths = 100
)

// A Discovery finds the project files of directories that a session touches. It
// reads each directory at most once. It may be used by several goroutines.
type Discovery struct {
	workdir string // the working directory as configured
	dir     string // the same without symbolic links, "" if it cannot be used
	window  int    // context window, in tokens

	mu      sync.Mutex // guards what follows
	visited map[string]bool
}

// NewDiscovery returns the Discovery of a session that works in dir. The files
// of dir itself are part of the prompt, so it counts as visited. What is found gets
// its Share of the context window.
func NewDiscovery(dir string, window int) *Discovery {
	d := &Discovery{window: window, visited: map[string]bool{".": true}}
	if abs, err := filepath.Abs(dir); err == nil {
		d.workdir = abs
	}
	if real, err := resolve(dir); err == nil {
		d.dir = real
	}
	return d
}

const discoveredPrefix = "[Subdirectory context discovered: "

// MarkSeen marks the directories as visited whose files are in an earlier tool
// result, so that a session continues after a restart.
func (d *Discovery) MarkSeen(result string) {
	for line := range strings.Lines(result) {
		if rest, ok := strings.CutPrefix(line, discoveredPrefix); ok {
			name := strings.TrimSuffix(strings.TrimSpace(rest), "]")
			if plain, err := strconv.Unquote(name); err == nil {
				name = plain
			}
			d.markVisited(path.Dir(name))
		}
	}
}

// markVisited marks a directory as visited and reports whether it was not
// before.
func (d *Discovery) markVisited(folder string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.visited[folder] {
		return false
	}
	d.visited[folder] = true
	return true
}

// AfterTool returns the text to append to the result of a tool that was called
// with these arguments: the project files of directories inside the working
// tree that the arguments name and that were not visited before. It is usually
// "".
func (d *Discovery) AfterTool(input json.RawMessage) (string, []Note) {
	paths := findPaths(input, d.isDir)
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
		folder, ok := d.folderOf(p)
		for i := 0; ok && i <= maxParents && size < Share(maxResultChars, d.window) && d.markVisited(folder); i++ {
			block, ns := readProjectFile(root, folder, Share(maxFileChars, d.window))
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

// folderOf returns the directory that a path names or is in, relative to the
// working directory and without symbolic links. ok is false if it is outside or
// does not exist.
func (d *Discovery) folderOf(p string) (string, bool) {
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
	if rel, ok := relativeTo(d.workdir, p); ok {
		p = filepath.Join(d.dir, rel)
	} else if _, ok := relativeTo(d.dir, p); !ok {
		return "", false // paths outside are not accessed
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		if real, err = filepath.EvalSymlinks(filepath.Dir(p)); err != nil {
			return "", false
		}
	} else if info, err := os.Stat(real); err != nil || !info.IsDir() {
		real = filepath.Dir(real)
	}
	return relativeTo(d.dir, real)
}

// isDir reports whether a path names a directory below the working directory.
func (d *Discovery) isDir(p string) bool {
	if !filepath.IsAbs(p) {
		p = filepath.Join(d.dir, p)
	}
	rel, ok := relativeTo(d.workdir, p)
	if !ok {
		rel, ok = relativeTo(d.dir, p)
	}
	if !ok || d.dir == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(d.dir, rel))
	return err == nil && info.IsDir()
}

func relativeTo(dir, p string) (string, bool) {
	rel, err := filepath.Rel(dir, p)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// readProjectFile returns the block of the first project file of folder that is
// not empty.
func readProjectFile(root *os.Root, folder string, limit int) (string, []Note) {
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
		return "\n\n" + discoveredPrefix + quotePath(at) + "]\n" + strings.TrimSpace(truncateFile(name, text, limit)), notes
	}
	return "", notes
}

// quotePath returns a path, quoted if it has characters that could break the
// line.
func quotePath(p string) string {
	if q := strconv.Quote(p); q != `"`+p+`"` {
		return q
	}
	return p
}

// maxCommand limits the bytes of a shell command that are parsed.
const maxCommand = 64 << 10

// findPaths returns the possible paths in the arguments of a tool: path,
// file_path, workdir, and the words of a shell command that look like one or that
// isDir reports to be a directory. Relative paths are resolved against workdir if it
// is given.
func findPaths(input json.RawMessage, isDir func(string) bool) []string {
	var in map[string]json.RawMessage
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	text := func(key string) string {
		var s string
		if json.Unmarshal(in[key], &s) != nil || strings.ContainsRune(s, 0) || len(s) > maxCommand {
			return ""
		}
		return s
	}
	var out []string
	workdir := text("workdir")
	resolved := func(p string) string {
		if workdir != "" && !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
			return filepath.Join(workdir, p)
		}
		return p
	}
	add := func(p string) {
		p = resolved(p)
		if p != "" && len(p) < 4096 && len(out) < maxPaths {
			out = append(out, p)
		}
	}
	for _, key := range []string{"path", "file_path"} {
		if p := text(key); p != "" {
			add(p)
		}
	}
	if workdir != "" {
		out = append(out, workdir)
	}
	names := 0
	for _, key := range []string{"command", "cmd"} {
		for _, token := range splitWords(text(key)) {
			switch {
			case looksLikePath(token):
				add(token)
			case isName(token) && names < maxPaths:
				names++
				if isDir(resolved(token)) {
					add(token)
				}
			}
		}
	}
	return out
}

// looksLikePath reports whether a word of a command may be a path.
func looksLikePath(token string) bool {
	if strings.HasPrefix(token, "-") || !strings.ContainsAny(token, "/.") || strings.Contains(token, "://") {
		return false
	}
	return !strings.HasPrefix(token, "git@")
}

// isName reports whether a word of a command may be the name of a directory.
func isName(token string) bool {
	return !strings.ContainsAny(token, "/.:") && !strings.HasPrefix(token, "-")
}

// splitWords splits a command into words as a shell does. If its quotes do not
// match, it is split at white space.
func splitWords(command string) []string {
	var out []string
	var word strings.Builder
	quote := byte(0)
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
		}
		word.Reset()
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(command):
			i++
			word.WriteByte(command[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte(" \t\n;|&()<>=", c) >= 0:
			end()
		default:
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return strings.Fields(command)
	}
	end()
	return out
}
