// Package contextfile reads the files with which a project and its owner
// instruct the model: the one kind of project file that a session's prompt
// includes, SOUL.md, and the files of subdirectories that a session touches
// later. The main types are Reader and Discovery.
//
// All of it is untrusted text: it is read only inside its root, never with a
// blocking open, scanned by package injection before use, and truncated.
// Everything that is left out is reported as a Note.
package contextfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/agent/injection"
	"hermesd/internal/atomicfile"
)

// A Level is the audience of a Note.
type Level string

// The levels. A note for the chat is also for the operator.
const (
	Operator Level = "operator"
	Chat     Level = "chat"
)

// A Note is a sentence about a file that was not used, or not unchanged. A note
// for the chat also has its parts, so that it can be translated.
type Note struct {
	Level  Level
	Text   string
	Format string // format string for package fmt; "" in a note for the operator
	Args   []any
}

// MaxChars is the number of characters up to which a file is used without
// truncation, in a context window of 64,000 tokens or more.
const MaxChars = 20_000

// header is the beginning of the layer of project files.
const header = "# Project Context\n\nThe following project context files have been loaded and should be followed:\n\n"

// maxRules limits the number of .mdc files.
const maxRules = 100

// A Project is the project context of a working directory.
type Project struct {
	// Text is the text of the prompt layer, "" if there is no file.
	Text string
	// Files are the paths of the used files, relative to the directory,
	// including blocked ones.
	Files []string
	Notes []Note
}

// A Reader reads context files. It caches the results of recent injection
// scans; files are read again each time. The zero value is ready to use; its
// methods may be called from several goroutines.
type Reader struct{ cache injection.Cache }

// LoadProject calls Project of a new Reader for a window of unknown size.
func LoadProject(dir string) Project { return new(Reader).Project(dir, 0) }

// Project reads the project context of the working directory dir: the first of
// these that is not empty. .hermes.md or HERMES.md in dir or a parent, up to
// the root of the git repository; AGENTS.md in dir; CLAUDE.md in dir;
// .cursorrules and .cursor/rules/*.mdc in dir. Nothing outside the repository
// is read, or outside dir if there is no repository. The text gets its Share of the
// context window.
func (r *Reader) Project(dir string, window int) Project {
	var p Project
	dir, err := resolve(dir)
	if err != nil {
		p.note("No project files are read: the working directory cannot be used: %v.", err)
		return p
	}
	top := gitRoot(dir)
	root, err := os.OpenRoot(top)
	if err != nil {
		p.note("No project files are read: the working directory cannot be used: %v.", err)
		return p
	}
	defer func() { _ = root.Close() }() // read-only
	here, err := filepath.Rel(top, dir)
	if err != nil {
		p.note("No project files are read: %v.", err)
		return p
	}
	l := loader{root: root, workdir: filepath.ToSlash(here), p: &p, cache: &r.cache, limit: Share(MaxChars, window)}
	for _, kind := range []func() string{l.loadHermes, l.loadAgents, l.loadClaude, l.loadCursor} {
		if text := kind(); text != "" {
			p.Text = header + text
			return p
		}
	}
	return p
}

func (p *Project) note(format string, args ...any) {
	p.Notes = append(p.Notes, Note{Level: Operator, Text: fmt.Sprintf(format, args...)})
}

func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// gitRoot returns the nearest directory at or above dir that has .git; dir if
// there is none.
func gitRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// loader reads one project.
type loader struct {
	root    *os.Root
	workdir string // the working directory, relative to root
	p       *Project
	cache   *injection.Cache
	limit   int // characters of a file
}

func (l loader) loadHermes() string {
	for at := l.workdir; ; at = path.Dir(at) {
		for _, name := range []string{".hermes.md", "HERMES.md"} {
			shown := path.Join(relativePath(at, l.workdir), name)
			if text, ok := l.read(path.Join(at, name), shown, stripFrontMatter); ok {
				return section(shown, l.scanAndTruncate(shown, text))
			}
		}
		if at == "." {
			return ""
		}
	}
}

// relativePath returns the prefix that leads from below up to from.
func relativePath(from, below string) string {
	if from == below {
		return ""
	}
	n := strings.Count(below, "/") + 1
	if from != "." {
		n -= strings.Count(from, "/") + 1
	}
	return strings.Repeat("../", n)
}

func (l loader) loadAgents() string { return l.loadFirst("AGENTS.md", "agents.md") }

func (l loader) loadClaude() string { return l.loadFirst("CLAUDE.md", "claude.md") }

func (l loader) loadFirst(names ...string) string {
	for _, name := range names {
		if text, ok := l.read(path.Join(l.workdir, name), name, nil); ok {
			return section(name, l.scanAndTruncate(name, text))
		}
	}
	return ""
}

func (l loader) loadCursor() string {
	const name = ".cursorrules"
	names := append([]string{name}, l.listRules()...)
	var sections []string
	var first, last string
	for _, n := range names {
		text, ok := l.read(path.Join(l.workdir, n), n, nil)
		if !ok {
			continue
		}
		first, last = n, l.scan(n, text)
		sections = append(sections, section(n, strings.TrimSpace(last)))
	}
	switch len(sections) {
	case 0:
		return ""
	case 1:
		return section(first, strings.TrimSpace(truncateFile(first, last, l.limit)))
	}
	return truncateFile(name, strings.Join(sections, "\n\n"), l.limit)
}

// listRules returns the paths of the .mdc files, in order.
func (l loader) listRules() []string {
	const folder = ".cursor/rules"
	d, err := l.root.Open(path.Join(l.workdir, folder))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.p.note("%s is not read: %v.", folder, plainError(err))
		}
		return nil
	}
	defer func() { _ = d.Close() }() // read-only
	entries, err := d.ReadDir(10_000)
	if err != nil && len(entries) == 0 {
		return nil // empty, or not a directory
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".mdc") {
			names = append(names, path.Join(folder, e.Name()))
		}
	}
	slices.Sort(names)
	if len(names) > maxRules {
		l.p.note("%s holds %d rules; only the first %d are read.", folder, len(names), maxRules)
		names = names[:maxRules]
	}
	return names
}

// read returns the text of a file, and whether it has any. A file that cannot
// be read is noted, unless it does not exist.
func (l loader) read(name, shown string, change func(string) string) (string, bool) {
	text, broken, err := readText(l.root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		l.p.note("%s is not read: %v.", shown, plainError(err))
		return "", false
	case broken:
		l.p.note("%s is not valid UTF-8; what could not be read is shown as \uFFFD.", shown)
	}
	if change != nil {
		text = change(text)
	}
	if strings.TrimSpace(text) == "" {
		return "", false
	}
	l.p.Files = append(l.p.Files, shown)
	return text, true
}

func (l loader) scanAndTruncate(shown, text string) string {
	return strings.TrimSpace(truncateFile(path.Base(shown), l.scan(shown, text), l.limit))
}

// scan returns the text, or a placeholder if it looks like an attack.
func (l loader) scan(shown, text string) string {
	found := l.cache.Scan(text)
	if len(found) == 0 {
		return text
	}
	l.p.note("%s is blocked, because it looks like prompt injection (%s): %q. The model is told that it was not loaded.",
		shown, injection.JoinIDs(found), found[0].Excerpt)
	return injection.Placeholder(shown, found)
}

func section(name, text string) string { return "## " + name + "\n\n" + text }

// SoulFile is the name of the file with the agent's identity, in the home
// directory.
const SoulFile = "SOUL.md"

// LoadSoul calls Soul of a new Reader for a window of unknown size.
func LoadSoul(home string) (string, []Note) { return new(Reader).Soul(home, 0) }

// Soul reads SOUL.md in the home directory. It returns "" if the built-in
// identity is to be used: there is no file, it is empty, it cannot be read, or
// it looks like an attack. The last two are noted, also for the chat. The text gets
// its Share of the context window.
func (r *Reader) Soul(home string, window int) (string, []Note) {
	instead := func(format string, args ...any) []Note {
		return []Note{{Level: Chat, Text: fmt.Sprintf(format, args...), Format: format, Args: args}}
	}
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", instead("%s cannot be read: %v. The built-in identity is used instead.", SoulFile, plainError(err))
	}
	defer func() { _ = root.Close() }() // read-only
	text, broken, err := readText(root, SoulFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if link, err := root.Lstat(SoulFile); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			return "", instead("%s is a link to a file that does not exist. The built-in identity is used instead.", SoulFile)
		}
		return "", nil
	case err != nil:
		return "", instead("%s cannot be read: %v. The built-in identity is used instead.", SoulFile, plainError(err))
	case strings.TrimSpace(text) == "":
		return "", nil
	}
	if found := r.cache.Scan(text); len(found) > 0 {
		return "", instead("%s is not used, because it looks like prompt injection (%s): %q. The built-in identity is used instead. Correct the file and start a new session.",
			SoulFile, injection.JoinIDs(found), found[0].Excerpt)
	}
	var notes []Note
	if broken {
		notes = append(notes, Note{Level: Operator, Text: SoulFile + " is not valid UTF-8; what could not be read is shown as \uFFFD."})
	}
	return strings.TrimSpace(truncateFile(SoulFile, text, Share(MaxChars, window))), notes
}

// starterFile records the text that WriteStarterSoul wrote last.
const starterFile = "cache/starter-soul.md"

// WriteStarterSoul writes text to SOUL.md in home, which must exist, with mode
// 0600, and reports whether it wrote. It replaces an existing file only if nobody
// has changed it: if it has the text that WriteStarterSoul wrote last, or earlier,
// the starter text of versions that recorded nothing. The write is atomic.
func WriteStarterSoul(home, text, earlier string) (bool, error) {
	text = strings.TrimSpace(text)
	path, record := filepath.Join(home, SoulFile), filepath.Join(home, filepath.FromSlash(starterFile))
	info, err := os.Lstat(path)
	exists := err == nil
	if exists {
		old, recorded := readStarter(home, SoulFile), readStarter(home, starterFile)
		switch {
		case !info.Mode().IsRegular() || old == "": // Soul reports what is wrong
			return false, nil
		case old == text && recorded == text:
			return false, nil
		case old != text && old != recorded && old != strings.TrimSpace(earlier):
			return false, nil
		}
	}
	write := atomicfile.Create
	if exists {
		write = atomicfile.Replace
	}
	if err := write(path, []byte(text+"\n"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("write the starter %s: %w", SoulFile, err)
	} else if err != nil {
		return false, nil // somebody has written one meanwhile
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		return true, fmt.Errorf("record the starter %s: %w", SoulFile, err)
	}
	if err := os.WriteFile(record, []byte(text+"\n"), 0o600); err != nil {
		return true, fmt.Errorf("record the starter %s: %w", SoulFile, err)
	}
	return true, nil
}

// readStarter returns the text of a file in home; "" if there is none or it cannot be
// read.
func readStarter(home, name string) string {
	root, err := os.OpenRoot(home)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }() // read-only
	text, broken, err := readText(root, name)
	if err != nil || broken {
		return ""
	}
	return strings.TrimSpace(text)
}
