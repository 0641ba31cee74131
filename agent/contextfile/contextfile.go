// Package contextfile reads the files with which a project and its owner speak
// to the model: the one kind of project file that a session's prompt holds,
// SOUL.md, and the files of folders that a session comes to later.
//
// All of it is foreign text: it is read inside of its folder only, never waited
// for, scanned by guard before it is used, and cut to a length. What is left out
// is reported in Notes, so that nothing vanishes silently.
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
)

// A Level says who should read a Note.
type Level string

// The levels. What the chat should read the operator should read too.
const (
	Operator Level = "operator"
	Chat     Level = "chat"
)

// A Note is a sentence about a file that was not used, or not as it is. One for
// the chat is there in its parts too, so that it can be said in another language.
type Note struct {
	Level  Level
	Text   string
	Format string // for package fmt; "" of a note for the operator
	Args   []any
}

// MaxChars is the most characters of a file that enter a prompt whole.
const MaxChars = 20_000

// header begins the layer of project files.
const header = "# Project Context\n\nThe following project context files have been loaded and should be followed:\n\n"

// maxRules is how many .mdc files are read.
const maxRules = 100

// A Project is what a working directory says to the model.
type Project struct {
	// Text is the layer of the prompt, "" if there is no file.
	Text string
	// Files are the paths of the files in it, relative to the directory; blocked
	// ones too.
	Files []string
	Notes []Note
}

// A Reader reads what prompts hold. It knows the texts that it has scanned last,
// and scans them only once; files are read anew each time. Its zero value is
// ready; its methods may be called from several goroutines.
type Reader struct{ memo injection.Cache }

// LoadProject is that of a new Reader.
func LoadProject(dir string) Project { return new(Reader).Project(dir) }

// Project reads the project context of the working directory dir: the first
// of these that is not empty. .hermes.md or HERMES.md in dir or a parent, up to
// the root of the git repository; AGENTS.md in dir; CLAUDE.md in dir;
// .cursorrules and .cursor/rules/*.mdc in dir. Nothing outside of the repository
// is read, or outside of dir if there is none.
func (r *Reader) Project(dir string) Project {
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
	defer func() { _ = root.Close() }() // it was only read
	here, err := filepath.Rel(top, dir)
	if err != nil {
		p.note("No project files are read: %v.", err)
		return p
	}
	l := loader{root: root, here: filepath.ToSlash(here), p: &p, memo: &r.memo}
	for _, kind := range []func() string{l.hermes, l.agents, l.claude, l.cursor} {
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

// gitRoot returns the nearest folder at or above dir that holds .git; dir if
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
	root *os.Root
	here string // the working directory, relative to root
	p    *Project
	memo *injection.Cache
}

func (l loader) hermes() string {
	for at := l.here; ; at = path.Dir(at) {
		for _, name := range []string{".hermes.md", "HERMES.md"} {
			shown := path.Join(up(at, l.here), name)
			if text, ok := l.read(path.Join(at, name), shown, frontMatter); ok {
				return section(shown, l.finish(shown, text))
			}
		}
		if at == "." {
			return ""
		}
	}
}

// up returns how from is written from below it.
func up(from, below string) string {
	if from == below {
		return ""
	}
	n := strings.Count(below, "/") + 1
	if from != "." {
		n -= strings.Count(from, "/") + 1
	}
	return strings.Repeat("../", n)
}

func (l loader) agents() string { return l.one("AGENTS.md", "agents.md") }

func (l loader) claude() string { return l.one("CLAUDE.md", "claude.md") }

func (l loader) one(names ...string) string {
	for _, name := range names {
		if text, ok := l.read(path.Join(l.here, name), name, nil); ok {
			return section(name, l.finish(name, text))
		}
	}
	return ""
}

func (l loader) cursor() string {
	const name = ".cursorrules"
	names := append([]string{name}, l.rules()...)
	var sections []string
	var first, last string
	for _, n := range names {
		text, ok := l.read(path.Join(l.here, n), n, nil)
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
		return section(first, strings.TrimSpace(Truncate(first, last)))
	}
	return Truncate(name, strings.Join(sections, "\n\n"))
}

// rules returns the .mdc files, in order.
func (l loader) rules() []string {
	const folder = ".cursor/rules"
	d, err := l.root.Open(path.Join(l.here, folder))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.p.note("%s is not read: %v.", folder, plainError(err))
		}
		return nil
	}
	defer func() { _ = d.Close() }() // it was only read
	entries, err := d.ReadDir(10_000)
	if err != nil && len(entries) == 0 {
		return nil // it is empty, or no folder
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

// read returns the text of a file, and whether it has any. What cannot be read
// is noted, unless the file does not exist.
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

// finish scans and cuts a text.
func (l loader) finish(shown, text string) string {
	return strings.TrimSpace(Truncate(path.Base(shown), l.scan(shown, text)))
}

// scan returns the text, or what stands in its place if it looks like an attack.
func (l loader) scan(shown, text string) string {
	found := l.memo.Scan(text)
	if len(found) == 0 {
		return text
	}
	l.p.note("%s is blocked, because it looks like prompt injection (%s): %q. The model is told that it was not loaded.",
		shown, injection.JoinIDs(found), found[0].Excerpt)
	return injection.Placeholder(shown, found)
}

func section(name, text string) string { return "## " + name + "\n\n" + text }
