package skills

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"hermesd/agent/skills/internal/frontmatter"
)

// A folder is a directory that was read.
type folder struct {
	Root  int    `json:"r,omitempty"`
	Path  string `json:"p"` // relative to its root, with slashes
	Stamp stamp  `json:"t"`
}

// An entry is one SKILL.md.
type entry struct {
	folder
	Header   header   `json:"h"`
	Problems []string `json:"bad,omitempty"`
	Findings []string `json:"scan,omitempty"` // injection findings in name and description
}

// A Problem is a defect of a skill or a skill directory, for people.
type Problem struct {
	Path  string `json:"path"`            // the file or directory
	Skill string `json:"skill,omitempty"` // the name of the skill, if there is one
	Text  string `json:"text"`
}

// A walk searches the roots for skills. Entries of known are reused if their
// stamps are equal.
type walk struct {
	l            *Library
	known        map[folder]entry
	folders      []folder
	entries      []entry
	problems     []Problem
	found        int
	limitReached bool
}

type rootWalk struct {
	*walk
	index   int
	root    *os.Root
	seen    map[folderID]string // maps to the path at which it was found
	links   []string
	found   []*entry             // filled by the readers
	pending []openedSkill        // not sent to readers yet
	batches chan<- []openedSkill // read by the readers
}

// An openedSkill is a SKILL.md that the walk opened or failed to open, to be
// read by another goroutine.
type openedSkill struct {
	main  handle
	err   error
	entry *entry // with its path set
}

// Number of files that a reader gets at once, and number of such batches that
// may wait: at most about a hundred files are open.
const (
	batchSize        = 16
	maxQueuedBatches = 4
)

type folderID struct{ dev, inode uint64 }

func (l *Library) walk(known map[folder]entry) *walk {
	w := &walk{l: l, known: known}
	for i, dir := range l.roots {
		w.root(i, dir)
	}
	slices.SortStableFunc(w.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Root, b.Root), cmp.Compare(a.Path, b.Path))
	})
	return w
}

func (w *walk) problem(path, text string) {
	w.problems = append(w.problems, Problem{Path: path, Text: text})
}

func (w *walk) root(index int, dir string) {
	at := stampOf(dir)
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && index == 0:
		w.folders = append(w.folders, folder{Root: index, Path: "."}) // no skills yet
		return
	case err != nil:
		w.folders = append(w.folders, folder{index, ".", at.settledOrUnknown()})
		w.problem(dir, "the folder cannot be opened: "+errorReason(err))
		return
	}
	defer root.Close()
	read := make(chan []openedSkill, maxQueuedBatches)
	p := &rootWalk{walk: w, index: index, root: root, seen: map[folderID]string{}, batches: read}
	var readers sync.WaitGroup // awaited below
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			buf := make([]byte, headerBufferSize)
			for some := range read {
				for _, r := range some {
					p.fillEntry(r, buf)
				}
			}
		})
	}
	p.visit(p.open(".", ".", nil))
	// Links are followed last, so that a skill gets its real path.
	for len(p.links) > 0 {
		link := p.links[0]
		p.links = p.links[1:]
		p.followLink(link)
	}
	read <- p.pending
	close(read)
	readers.Wait()
	for _, e := range p.found {
		w.entries = append(w.entries, *e)
	}
}

// open opens a directory: name below parent, never through a link; or, without
// a parent, dir resolved inside the root.
func (p *rootWalk) open(dir, name string, parent *handle) (string, *handle) {
	var h handle
	var err error
	if parent != nil {
		h, err = parent.folder(name)
	} else if f, failed := p.root.OpenFile(filepath.FromSlash(dir), os.O_RDONLY|syscall.O_NONBLOCK|folderOnly, 0); failed != nil {
		err = failed
	} else {
		h = newHandle(f)
	}
	if err != nil {
		p.folders = append(p.folders, folder{p.index, dir, stampOf(p.abs(dir)).settledOrUnknown()})
		p.problem(p.abs(dir), "the folder cannot be read: "+errorReason(err))
		return dir, nil
	}
	return dir, &h
}

func (p *rootWalk) abs(rel string) string {
	return filepath.Join(p.l.roots[p.index], filepath.FromSlash(rel))
}

// visit records the entries of a directory, visits its subdirectories, and
// closes it.
func (p *rootWalk) visit(dir string, f *handle) {
	if f == nil {
		return
	}
	defer f.close()
	if p.limitReached = p.limitReached || len(p.folders) >= maxFolders || p.walk.found >= maxSkills; p.limitReached {
		p.problem(p.abs(dir), fmt.Sprintf("it was not looked at: there are more than %d skills or %d folders", maxSkills, maxFolders))
		return
	}
	at, id, _, err := f.stamp()
	var list []fs.DirEntry
	if err == nil {
		list, err = f.list()
	}
	p.folders = append(p.folders, folder{p.index, dir, at.settledOrUnknown()})
	if err != nil {
		p.problem(p.abs(dir), "the folder cannot be read: "+errorReason(err))
		return
	}
	if first, ok := p.seen[id]; ok {
		p.problem(p.abs(dir), "it is the same folder as "+p.abs(first)+", so it is left out")
		return
	}
	p.seen[id] = dir
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	skill := slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == mainFile })
	if skill {
		p.walk.found++
		e := &entry{folder: folder{Root: p.index, Path: dir}}
		p.found = append(p.found, e)
		main, err := f.file(mainFile)
		p.enqueue(openedSkill{main, err, e})
	}
	for _, e := range list {
		switch name := e.Name(); {
		case isLeftover(name):
			p.problem(p.abs(path.Join(dir, name)), "it is left of a write or a deletion that a crash cut off; it has no effect and can be deleted")
		case name[0] == '.', name == "node_modules", name == "__pycache__", skill && slices.Contains(supportFolders(), name):
		case e.Type()&fs.ModeSymlink != 0 && name != mainFile:
			p.links = append(p.links, path.Join(dir, name))
		case e.IsDir() && strings.Count(dir, "/") >= maxDepth-1:
			p.problem(p.abs(path.Join(dir, name)), fmt.Sprintf("it was not looked at: it lies more than %d folders deep", maxDepth))
		case e.IsDir():
			p.visit(p.open(path.Join(dir, name), name, f))
		}
	}
}

// enqueue schedules the reading of a file.
func (p *rootWalk) enqueue(r openedSkill) {
	if p.pending = append(p.pending, r); len(p.pending) == batchSize {
		p.batches <- p.pending
		p.pending = make([]openedSkill, 0, batchSize)
	}
}

// followLink visits the target of a link. Links to files are ignored.
func (p *rootWalk) followLink(link string) {
	info, err := p.root.Stat(filepath.FromSlash(link))
	switch {
	case err == nil && info.IsDir() && strings.Count(link, "/") >= maxDepth:
		p.problem(p.abs(link), fmt.Sprintf("it was not looked at: it lies more than %d folders deep", maxDepth))
	case err == nil && info.IsDir():
		p.visit(p.open(link, "", nil))
	case escapes(err):
		p.problem(p.abs(link), "the link leads out of the folder of skills and is not followed; name its target under skills.external_dirs")
	case err != nil:
		p.problem(p.abs(link), "the link cannot be followed: "+errorReason(err))
	}
}

// peek returns the beginning of a SKILL.md, in buf if it fits, unless it is
// known, and sets the stamp of the entry.
func (p *rootWalk) peek(r openedSkill, buf []byte) ([]byte, error) {
	if r.err != nil { // usually a link
		r.entry.Stamp = stampOf(p.abs(path.Join(r.entry.Path, mainFile))).settledOrUnknown()
		return p.head(r.entry.Path)
	}
	at, _, regular, err := r.main.stamp()
	r.entry.Stamp = at.settledOrUnknown()
	switch _, ok := p.known[r.entry.folder]; {
	case err != nil || ok:
		return nil, err
	case !regular:
		return nil, errNotRegular
	}
	return readFrontMatter(r.main, at.Size, buf)
}

// headerBufferSize is enough for the front matter of nearly every SKILL.md.
const headerBufferSize = 4 << 10

// readFrontMatter reads as much of a file of the given size as its front matter
// needs.
func readFrontMatter(f handle, size int64, buf []byte) ([]byte, error) {
	buf = buf[:min(size, headerBufferSize)]
	for {
		n, err := f.readBeginning(buf)
		if err != nil {
			return nil, err
		}
		if _, _, whole := frontmatter.Split(buf[:n]); whole || n < headerBufferSize || len(buf) > headerBufferSize || size <= headerBufferSize {
			return buf[:n], nil
		}
		buf = make([]byte, min(size, maxHeader))
	}
}

func (p *rootWalk) fillEntry(r openedSkill, buf []byte) {
	head, err := p.peek(r, buf)
	if r.err == nil {
		r.main.close()
	}
	e := r.entry
	if known, ok := p.known[e.folder]; ok {
		*e = known
		return
	}
	abs := p.abs(e.Path)
	if err != nil {
		e.Header = header{Name: defaultName(abs)}
		e.Problems = []string{"its SKILL.md cannot be read: " + errorReason(err)}
		return
	}
	e.Header, e.Problems = parse(abs, head)
	e.Findings = p.l.o.Scan(e.Header.Name + "\n" + e.Header.Description)
}

// head reads the beginning of the SKILL.md of a directory; a link must not lead
// out of the directory.
func (p *rootWalk) head(dir string) ([]byte, error) {
	root, err := p.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readHead(root, mainFile, maxHeader)
}

// readHead reads up to most bytes from the beginning of a regular file. Opening
// a pipe does not block.
func readHead(root *os.Root, file string, most int) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(file), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	}
	buf := make([]byte, min(info.Size()+1, int64(most)))
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return buf[:n], nil
}

var errNotRegular = errors.New("it is not a regular file")

// errorReason returns the cause of a failed file operation, without the path.
func errorReason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if escapes(err) {
		return "it leads out of the skill"
	}
	return err.Error()
}

// escapes reports whether a path was rejected because it leads out of its root.
func escapes(err error) bool { return err != nil && strings.Contains(err.Error(), "path escapes") }

// A header is the parsed front matter of a SKILL.md.
type header struct {
	Name        string   `json:"name"`
	Description string   `json:"desc,omitempty"`
	Platforms   []string `json:"os,omitempty"`
	Toolsets    []string `json:"toolsets,omitempty"` // required toolsets
	Tools       []string `json:"tools,omitempty"`
	NoToolsets  []string `json:"no_toolsets,omitempty"` // toolsets that the skill replaces
	NoTools     []string `json:"no_tools,omitempty"`
}

// parse parses the front matter of a SKILL.md in folder, or of its beginning,
// and returns its problems. The returned header always has a name.
func parse(folder string, text []byte) (header, []string) {
	h := header{Name: defaultName(folder)}
	var problems []string
	if !utf8.Valid(text) {
		if len(text) < maxHeader { // otherwise it may be cut inside a character
			problems = append(problems, "it is not valid UTF-8")
		}
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	matter, _, ok := frontmatter.Split(text)
	if !ok {
		what := "it does not begin with a front matter between two lines ---"
		if len(text) >= maxHeader {
			what = fmt.Sprintf("its front matter does not end within %d KiB", maxHeader>>10)
		}
		return h, append(problems, what)
	}
	fields, err := frontmatter.Mapping(matter)
	if err != nil {
		problems = append(problems, err.Error())
		fields = frontmatter.Plain(matter)
	}
	return h, append(problems, h.setFields(folder, fields)...)
}

func (h *header) setFields(folder string, fields map[string]any) (problems []string) {
	if name, _ := fields["name"].(string); validName.MatchString(name) {
		if name != h.Name {
			problems = append(problems, fmt.Sprintf("it calls itself %s, but its folder is %s", name, path.Base(folder)))
		}
		h.Name = name
	} else {
		problems = append(problems, "it has no valid name (small letters, digits, dot, dash, underscore; 64 at most); that of its folder is used")
	}
	d, _ := fields["description"].(string)
	h.Description = strings.Join(strings.Fields(d), " ")
	switch n := utf8.RuneCountInString(h.Description); {
	case n == 0:
		problems = append(problems, "it has no description, so the model does not know when to use it")
	case n > maxDescription:
		problems = append(problems, fmt.Sprintf("its description has %d characters; the most is %d", n, maxDescription))
		h.Description = string([]rune(h.Description)[:maxDescription])
	}
	h.Platforms = stringList(fields["platforms"])
	places := []map[string]any{fields}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		places = append(places, meta)
		if own, ok := meta["hermes"].(map[string]any); ok {
			places = append(places, own)
		}
	}
	for _, p := range places {
		h.Toolsets = append(h.Toolsets, stringList(p["requires_toolsets"])...)
		h.Tools = append(h.Tools, stringList(p["requires_tools"])...)
		h.NoToolsets = append(h.NoToolsets, stringList(p["fallback_for_toolsets"])...)
		h.NoTools = append(h.NoTools, stringList(p["fallback_for_tools"])...)
	}
	return problems
}

// defaultName returns the name of a skill derived from its directory.
func defaultName(folder string) string {
	name := strings.Join(strings.Fields(strings.ToValidUTF8(path.Base(folder), "")), "-")
	if r := []rune(name); len(r) > maxName {
		name = string(r[:maxName])
	}
	if name == "" || name == "." {
		return "skill"
	}
	return name
}

// stringList returns the strings of a value that is a string or a list of
// strings, in lower case.
func stringList(v any) []string {
	switch v := v.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" && v != "null" && v != "~" {
			return []string{strings.ToLower(v)}
		}
	case []any:
		var out []string
		for _, x := range v {
			if s, ok := x.(string); ok && strings.TrimSpace(s) != "" {
				out = append(out, strings.ToLower(strings.TrimSpace(s)))
			}
		}
		return out
	}
	return nil
}
