package skills

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"hermesd/agent/skills/internal/frontmatter"
)

// A Skill is a skill that was found. Its texts are those of the SKILL.md, on
// one line each.
type Skill struct {
	Name        string
	Description string // "" if there is none
	Category    string // from its parent directories; "general" if there are none
	Dir         string // its directory
	ReadOnly    bool   // it is in an external directory
	// Problems are the defects of its SKILL.md; the skill can be used
	// nevertheless.
	Problems []string
	// Blocked are the injection findings for which it is not offered.
	Blocked []string

	header header
	root   int
	path   string // path of its directory, relative to its root
}

// general is the category of skills without parent directories.
const general = "general"

// A watchedPath is a path whose change makes a catalog stale.
type watchedPath struct {
	root  int
	path  string // relative to its root
	stamp stamp
}

// A Catalog is an immutable snapshot of the skills on disk.
type Catalog struct {
	roots    []string
	folders  []folder
	entries  []entry
	problems []Problem     // about directories and duplicate names
	watched  []watchedPath // the paths that isFresh compares
	skills   []Skill       // by category and name
	names    map[string]int
	saved    [32]byte // digest of the cache file with this catalog
	index    atomic.Pointer[renderedIndex]
}

func newCatalog(roots []string, w *walk) *Catalog {
	c := &Catalog{roots: roots, folders: w.folders, entries: w.entries, problems: w.problems, names: map[string]int{}}
	c.watched = make([]watchedPath, 0, len(w.folders)+len(w.entries))
	c.skills = make([]Skill, 0, len(w.entries))
	for _, f := range w.folders {
		c.watched = append(c.watched, watchedPath{f.Root, filepath.FromSlash(f.Path), f.Stamp})
	}
	for _, e := range w.entries {
		c.watched = append(c.watched, watchedPath{e.Root, filepath.Join(filepath.FromSlash(e.Path), mainFile), e.Stamp})
	}
	taken := map[string]string{}
	for _, e := range w.entries {
		s := c.newSkill(e)
		if first, ok := taken[s.Name]; ok {
			c.problems = append(c.problems, Problem{s.Dir, s.Name, "its name is taken by " + first + ", so it is left out"})
			continue
		}
		taken[s.Name] = s.Dir
		c.skills = append(c.skills, s)
	}
	slices.SortFunc(c.skills, func(a, b Skill) int {
		return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Name, b.Name))
	})
	for i, s := range c.skills {
		c.names[s.Name] = i
	}
	return c
}

func (c *Catalog) newSkill(e entry) Skill {
	category := path.Dir(e.Path)
	if category == "." || category == "/" {
		category = general
	}
	return Skill{
		Name: e.Header.Name, Description: e.Header.Description, Category: oneLine(category),
		Dir: filepath.Join(c.roots[e.Root], filepath.FromSlash(e.Path)), ReadOnly: e.Root > 0,
		Problems: e.Problems, Blocked: e.Findings, header: e.Header, root: e.Root, path: e.Path,
	}
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// isFresh reports whether everything on disk is unchanged.
func (c *Catalog) isFresh() bool {
	bases := make([]base, len(c.roots))
	for i, dir := range c.roots {
		bases[i] = openBase(dir)
		defer bases[i].close()
	}
	var stale atomic.Bool
	forEach(len(c.watched), func(i int) {
		if w := &c.watched[i]; !stale.Load() && (w.stamp.Size < 0 || bases[w.root].stamp(w.path) != w.stamp) {
			stale.Store(true)
		}
	})
	return !stale.Load()
}

// Skills returns all skills, by category and name, including those for which
// Hidden returns a reason.
func (c *Catalog) Skills() []Skill { return slices.Clone(c.skills) }

// Find returns the skill with a name: its name, the name of its directory, or
// category/name. Case does not matter, and underscores match dashes and dots,
// so that a chat command can name a skill.
func (c *Catalog) Find(name string) (Skill, bool) {
	if i, ok := c.names[name]; ok {
		return c.skills[i], true
	}
	want := normalizeName(name)
	for _, key := range []func(Skill) string{
		func(s Skill) string { return s.Name },
		func(s Skill) string { return s.Category + "/" + s.Name },
		func(s Skill) string { return path.Base(filepath.ToSlash(s.Dir)) },
	} {
		for _, s := range c.skills {
			if normalizeName(key(s)) == want && want != "" {
				return s, true
			}
		}
	}
	return Skill{}, false
}

func normalizeName(name string) string {
	return strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// A Filter decides which skills are offered.
type Filter struct {
	// OS is the operating system as Go names it; "" is the current one.
	OS string
	// Tools and Toolsets are offered in the session. Conditions of skills on
	// tools are ignored if Tools is nil, and likewise for Toolsets.
	Tools, Toolsets []string
	// MaxIndex replaces MaxIndex unless it is 0.
	MaxIndex int
	// Disabled are the names of skills that the configuration disables.
	Disabled []string
}

// Hidden returns why the skill is not offered, "" if it is.
func (s Skill) Hidden(f Filter) string {
	if len(s.Blocked) > 0 {
		return "blocked: its name or description contains potential prompt injection (" + strings.Join(s.Blocked, ", ") + ")"
	}
	if slices.ContainsFunc(f.Disabled, func(d string) bool { return normalizeName(d) == normalizeName(s.Name) }) {
		return "turned off in the configuration"
	}
	if os := cmp.Or(f.OS, runtime.GOOS); len(s.header.Platforms) > 0 && !slices.ContainsFunc(s.header.Platforms, func(p string) bool { return runsOn(p, os) }) {
		return "only for " + oneLine(strings.Join(s.header.Platforms, ", "))
	}
	for _, c := range []struct {
		names, have []string
		kind        string
		required    bool
	}{
		{s.header.Toolsets, f.Toolsets, "toolset", true}, {s.header.Tools, f.Tools, "tool", true},
		{s.header.NoToolsets, f.Toolsets, "toolset", false}, {s.header.NoTools, f.Tools, "tool", false},
	} {
		if c.have == nil {
			continue
		}
		for _, n := range c.names {
			switch there := slices.Contains(c.have, n); {
			case c.required && !there:
				return fmt.Sprintf("needs the %s %s, which is not offered", c.kind, oneLine(n))
			case !c.required && there:
				return fmt.Sprintf("stands in for the %s %s, which is offered", c.kind, oneLine(n))
			}
		}
	}
	return ""
}

func runsOn(platform, os string) bool {
	switch platform {
	case "all", "any":
		return true
	case "macos", "mac", "osx":
		return os == "darwin"
	}
	return platform == os || platform == "unix" && os != "windows"
}

// Visible returns the offered skills, by category and name.
func (c *Catalog) Visible(f Filter) []Skill {
	return slices.DeleteFunc(c.Skills(), func(s Skill) bool { return s.Hidden(f) != "" })
}

// Problems returns the problems that the front matter and the directories
// reveal, by path.
func (c *Catalog) Problems() []Problem {
	out := slices.Clone(c.problems)
	for _, s := range c.skills {
		file := filepath.Join(s.Dir, mainFile)
		for _, p := range s.Problems {
			out = append(out, Problem{file, s.Name, p})
		}
		if len(s.Blocked) > 0 {
			out = append(out, Problem{file, s.Name, s.Hidden(Filter{})})
		}
	}
	return sortByPath(out)
}

// Check returns all problems, by path: those of the Catalog, and those that
// only reading every SKILL.md completely reveals. An empty list means that
// there are none.
func (l *Library) Check() []Problem {
	c := l.Catalog()
	out := c.Problems()
	for _, s := range c.skills {
		if len(s.Blocked) > 0 {
			continue
		}
		if p := l.checkBody(s); p != "" {
			out = append(out, Problem{filepath.Join(s.Dir, mainFile), s.Name, p})
		}
	}
	return sortByPath(out)
}

func sortByPath(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return ps
}

// checkBody returns what is wrong with the SKILL.md of a skill after its front
// matter.
func (l *Library) checkBody(s Skill) string {
	root, err := l.open(s)
	if err != nil {
		return err.Error()
	}
	defer root.Close()
	raw, err := readText(root, mainFile)
	if err != nil {
		return path.Base(mainFile) + " " + err.Error()
	}
	if found := promptFindings(l.o.Scan(string(raw))); len(found) > 0 {
		return "it is not shown to the model: it contains potential prompt injection (" + strings.Join(found, ", ") + ")"
	}
	if _, body, ok := frontmatter.Split(raw); ok && strings.TrimSpace(string(body)) == "" {
		return "there are no instructions behind its front matter"
	}
	return ""
}

// cacheVersion is the version of the cache file. It also increases when the
// parsing of a SKILL.md changes.
const cacheVersion = 1

// cacheFile is the content of the cache file, after a line with its digest.
type cacheFile struct {
	Version  int       `json:"v"`
	Scanner  string    `json:"scanner"`
	Roots    []string  `json:"roots"`
	Folders  []folder  `json:"folders"`
	Entries  []entry   `json:"entries"`
	Problems []Problem `json:"problems,omitempty"`
}

// build returns a new catalog. It reads only what has changed since last, which
// may be nil.
func (l *Library) build(last *Catalog) *Catalog {
	known := map[folder]entry{}
	if last != nil {
		for _, e := range last.entries {
			if e.Stamp.Size >= 0 {
				known[e.folder] = e
			}
		}
	}
	w := l.walk(known)
	problems := slices.Clone(w.problems)
	c := newCatalog(l.roots, w)
	l.saveCache(c, problems, last)
	return c
}

// loadCache returns the catalog in the cache file, nil if it is not usable.
func (l *Library) loadCache() *Catalog {
	if l.o.Cache == "" {
		return nil
	}
	raw, err := os.ReadFile(l.o.Cache)
	if err != nil {
		return nil
	}
	head, body, _ := bytes.Cut(raw, []byte("\n"))
	sum := sha256.Sum256(body)
	var k cacheFile
	if string(head) != hex.EncodeToString(sum[:]) || json.Unmarshal(body, &k) != nil ||
		k.Version != cacheVersion || k.Scanner != l.o.Scanner || !slices.Equal(k.Roots, l.roots) {
		return nil
	}
	c := newCatalog(l.roots, &walk{folders: k.Folders, entries: k.Entries, problems: k.Problems})
	c.saved = sum
	return c
}

// saveCache writes the cache file unless it is up to date. A failure costs time
// at the next start, and is added to the problems.
func (l *Library) saveCache(c *Catalog, problems []Problem, last *Catalog) {
	if l.o.Cache == "" {
		return
	}
	body, err := json.Marshal(cacheFile{cacheVersion, l.o.Scanner, l.roots, c.folders, c.entries, problems})
	if err != nil {
		c.problems = append(c.problems, Problem{Path: l.o.Cache, Text: "the cache cannot be written: " + err.Error()})
		return
	}
	sum := sha256.Sum256(body)
	if last == nil || last.saved != sum {
		text := append([]byte(hex.EncodeToString(sum[:])+"\n"), body...)
		if err := replaceCache(l.o.Cache, text); err != nil {
			c.problems = append(c.problems, Problem{Path: l.o.Cache, Text: "the cache cannot be written: " + errorReason(err)})
			return
		}
	}
	c.saved = sum
}

// replaceCache replaces a file. A crash may lose the file or corrupt it, which
// its digest reveals.
func replaceCache(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".skills-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
