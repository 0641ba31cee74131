package skills

import (
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

	"hermesd/agent/skills/internal/frontmatter"
)

// A folder is one that was looked into.
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
	Verdict  []string `json:"scan,omitempty"` // of name and description
}

// A Problem is something that a person should know about the skills.
type Problem struct {
	Path  string `json:"path"`            // what it is about
	Skill string `json:"skill,omitempty"` // its name, if it is one
	Text  string `json:"text"`
}

// A walk looks through the roots for skills. Entries of before are taken over
// where their stamps are the same.
type walk struct {
	l        *Library
	known    map[folder]entry
	folders  []folder
	entries  []entry
	problems []Problem
	found    int
	full     bool
}

// A rootWalk is one root on a walk.
type rootWalk struct {
	*walk
	index int
	root  *os.Root
	seen  map[folderID]string // to the path by which it was reached
	links []string
	found []*entry         // those that are read are filled once read is through
	next  []reading        // not handed to readers yet
	read  chan<- []reading // for readers
}

// A reading is a SKILL.md that was opened, or not, to be read beside the walk.
type reading struct {
	main  handle
	err   error
	entry *entry // it has a path already
}

// So many files are handed to a reader at once, and so many hands full may wait:
// no more than about a hundred are open.
const (
	handful = 16
	waiting = 4
)

// A folderID tells one folder from another.
type folderID struct{ dev, inode uint64 }

// walk goes through all roots.
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
		w.folders = append(w.folders, folder{Root: index, Path: "."}) // there are none yet
		return
	case err != nil:
		w.folders = append(w.folders, folder{index, ".", at.settled()})
		w.problem(dir, "the folder cannot be opened: "+reason(err))
		return
	}
	defer root.Close()
	read := make(chan []reading, waiting)
	p := &rootWalk{walk: w, index: index, root: root, seen: map[folderID]string{}, read: read}
	var readers sync.WaitGroup // this function waits for them
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			buf := make([]byte, usual)
			for some := range read {
				for _, r := range some {
					p.take(r, buf)
				}
			}
		})
	}
	p.look(p.open(".", ".", nil))
	// Links come last, so that a skill has the path at which it really is.
	for len(p.links) > 0 {
		link := p.links[0]
		p.links = p.links[1:]
		p.follow(link)
	}
	read <- p.next
	close(read)
	readers.Wait()
	for _, e := range p.found {
		w.entries = append(w.entries, *e)
	}
}

// open opens a folder: name below parent, never through a link; or, without a
// parent, dir as its root resolves it.
func (p *rootWalk) open(dir, name string, parent *handle) (string, *handle) {
	var h handle
	var err error
	if parent != nil {
		h, err = parent.folder(name)
	} else if f, failed := p.root.OpenFile(filepath.FromSlash(dir), os.O_RDONLY|syscall.O_NONBLOCK|folderOnly, 0); failed != nil {
		err = failed
	} else {
		h = handleOf(f)
	}
	if err != nil {
		p.folders = append(p.folders, folder{p.index, dir, stampOf(p.abs(dir)).settled()})
		p.problem(p.abs(dir), "the folder cannot be read: "+reason(err))
		return dir, nil
	}
	return dir, &h
}

func (p *rootWalk) abs(rel string) string {
	return filepath.Join(p.l.roots[p.index], filepath.FromSlash(rel))
}

// look takes what stands in a folder, looks into those below it, and closes it.
func (p *rootWalk) look(dir string, f *handle) {
	if f == nil {
		return
	}
	defer f.close()
	if p.full = p.full || len(p.folders) >= maxFolders || p.walk.found >= maxSkills; p.full {
		p.problem(p.abs(dir), fmt.Sprintf("it was not looked at: there are more than %d skills or %d folders", maxSkills, maxFolders))
		return
	}
	at, id, _, err := f.stamp()
	var list []fs.DirEntry
	if err == nil {
		list, err = f.list()
	}
	p.folders = append(p.folders, folder{p.index, dir, at.settled()})
	if err != nil {
		p.problem(p.abs(dir), "the folder cannot be read: "+reason(err))
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
		p.hand(reading{main, err, e})
	}
	for _, e := range list {
		switch name := e.Name(); {
		case leftover(name):
			p.problem(p.abs(path.Join(dir, name)), "it is left of a write or a deletion that a crash cut off; it has no effect and can be deleted")
		case name[0] == '.', name == "node_modules", name == "__pycache__", skill && slices.Contains(support(), name):
		case e.Type()&fs.ModeSymlink != 0 && name != mainFile:
			p.links = append(p.links, path.Join(dir, name))
		case e.IsDir() && strings.Count(dir, "/") >= maxDepth-1:
			p.problem(p.abs(path.Join(dir, name)), fmt.Sprintf("it was not looked at: it lies more than %d folders deep", maxDepth))
		case e.IsDir():
			p.look(p.open(path.Join(dir, name), name, f))
		}
	}
}

// hand has a file read.
func (p *rootWalk) hand(r reading) {
	if p.next = append(p.next, r); len(p.next) == handful {
		p.read <- p.next
		p.next = make([]reading, 0, handful)
	}
}

// follow looks at where a link leads. One to a file is of no interest.
func (p *rootWalk) follow(link string) {
	info, err := p.root.Stat(filepath.FromSlash(link))
	switch {
	case err == nil && info.IsDir() && strings.Count(link, "/") >= maxDepth:
		p.problem(p.abs(link), fmt.Sprintf("it was not looked at: it lies more than %d folders deep", maxDepth))
	case err == nil && info.IsDir():
		p.look(p.open(link, "", nil))
	case escapes(err):
		p.problem(p.abs(link), "the link leads out of the folder of skills and is not followed; name its target under skills.external_dirs")
	case err != nil:
		p.problem(p.abs(link), "the link cannot be followed: "+reason(err))
	}
}

// peek returns the beginning of a SKILL.md, in buf if there is room for it,
// unless it is known, and puts its stamp into the entry.
func (p *rootWalk) peek(r reading, buf []byte) ([]byte, error) {
	if r.err != nil { // a link, mostly
		r.entry.Stamp = stampOf(p.abs(path.Join(r.entry.Path, mainFile))).settled()
		return p.head(r.entry.Path)
	}
	at, _, regular, err := r.main.stamp()
	r.entry.Stamp = at.settled()
	switch _, ok := p.known[r.entry.folder]; {
	case err != nil || ok:
		return nil, err
	case !regular:
		return nil, errNoFile
	}
	return beginning(r.main, at.Size, buf)
}

// usual is how many bytes hold the front matter of nearly every SKILL.md.
const usual = 4 << 10

// beginning reads as much of a file of that size as its front matter needs.
func beginning(f handle, size int64, buf []byte) ([]byte, error) {
	buf = buf[:min(size, usual)]
	for {
		n, err := f.begin(buf)
		if err != nil {
			return nil, err
		}
		if _, _, whole := frontmatter.Split(buf[:n]); whole || n < usual || len(buf) > usual || size <= usual {
			return buf[:n], nil
		}
		buf = make([]byte, min(size, maxHeader))
	}
}

// take fills an entry, and closes its file.
func (p *rootWalk) take(r reading, buf []byte) {
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
		e.Header = header{Name: named(abs)}
		e.Problems = []string{"its SKILL.md cannot be read: " + reason(err)}
		return
	}
	e.Header, e.Problems = parse(abs, head)
	e.Verdict = p.l.o.Scan(e.Header.Name + "\n" + e.Header.Description)
}

// head reads the beginning of the SKILL.md of a folder, which must be in it.
func (p *rootWalk) head(dir string) ([]byte, error) {
	root, err := p.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readHead(root, mainFile, maxHeader)
}

// readHead reads the first most bytes of a regular file. It does not wait for
// the other end of a pipe.
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
		return nil, errNoFile
	}
	buf := make([]byte, min(info.Size()+1, int64(most)))
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return buf[:n], nil
}

var errNoFile = errors.New("it is not a regular file")

// reason says why a file operation did not work, without repeating the path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if escapes(err) {
		return "it leads out of the skill"
	}
	return err.Error()
}

// escapes reports whether a path was refused because it leads out of its root.
func escapes(err error) bool { return err != nil && strings.Contains(err.Error(), "path escapes") }
