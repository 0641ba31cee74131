package skills

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
)

// A Skill is one that was found. Its texts are as people wrote them, on one
// line each.
type Skill struct {
	Name        string
	Description string // "" if it says none
	Category    string // from its folders; "general" if there are none
	Dir         string // its folder
	ReadOnly    bool   // it stands in an external folder
	// Problems are what is wrong with its SKILL.md; it can be used nevertheless.
	Problems []string
	// Blocked are the findings for which it is not offered.
	Blocked []string

	header header
	root   int
	path   string // of its folder, relative to its root
}

// general is the category of what stands in none.
const general = "general"

// A watched path is one whose change makes a catalog stale.
type watched struct {
	root  int
	path  string // relative to its root
	stamp stamp
}

// A Catalog is the skills as they were on disk at one moment. It does not
// change.
type Catalog struct {
	roots    []string
	folders  []folder
	entries  []entry
	problems []Problem // of folders and of names that are taken twice
	watched  []watched // what fresh compares
	skills   []Skill   // by category and name
	names    map[string]int
	saved    [32]byte // digest of the cache file that holds this
	index    atomic.Pointer[rendered]
}

func newCatalog(roots []string, w *walk) *Catalog {
	c := &Catalog{roots: roots, folders: w.folders, entries: w.entries, problems: w.problems, names: map[string]int{}}
	c.watched = make([]watched, 0, len(w.folders)+len(w.entries))
	c.skills = make([]Skill, 0, len(w.entries))
	for _, f := range w.folders {
		c.watched = append(c.watched, watched{f.Root, filepath.FromSlash(f.Path), f.Stamp})
	}
	for _, e := range w.entries {
		c.watched = append(c.watched, watched{e.Root, filepath.Join(filepath.FromSlash(e.Path), mainFile), e.Stamp})
	}
	taken := map[string]string{}
	for _, e := range w.entries {
		s := c.skill(e)
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

func (c *Catalog) skill(e entry) Skill {
	category := path.Dir(e.Path)
	if category == "." || category == "/" {
		category = general
	}
	return Skill{
		Name: e.Header.Name, Description: e.Header.Description, Category: oneLine(category),
		Dir: filepath.Join(c.roots[e.Root], filepath.FromSlash(e.Path)), ReadOnly: e.Root > 0,
		Problems: e.Problems, Blocked: e.Verdict, header: e.Header, root: e.Root, path: e.Path,
	}
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// fresh reports whether everything on disk is as it was read.
func (c *Catalog) fresh() bool {
	bases := make([]base, len(c.roots))
	for i, dir := range c.roots {
		bases[i] = baseOf(dir)
		defer bases[i].close()
	}
	var stale atomic.Bool
	each(len(c.watched), func(i int) {
		if w := &c.watched[i]; !stale.Load() && (w.stamp.Size < 0 || bases[w.root].stamp(w.path) != w.stamp) {
			stale.Store(true)
		}
	})
	return !stale.Load()
}

// Skills returns all skills, by category and name, those included that Hidden
// has something against.
func (c *Catalog) Skills() []Skill { return slices.Clone(c.skills) }

// Find returns the skill that is meant by name: its name, the name of its
// folder, or category/name; capitals, and underscores for dashes and dots, do
// not matter, so that a command of a chat can name a skill.
func (c *Catalog) Find(name string) (Skill, bool) {
	if i, ok := c.names[name]; ok {
		return c.skills[i], true
	}
	want := loose(name)
	for _, key := range []func(Skill) string{
		func(s Skill) string { return s.Name },
		func(s Skill) string { return s.Category + "/" + s.Name },
		func(s Skill) string { return path.Base(filepath.ToSlash(s.Dir)) },
	} {
		for _, s := range c.skills {
			if loose(key(s)) == want && want != "" {
				return s, true
			}
		}
	}
	return Skill{}, false
}

func loose(name string) string {
	return strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// A Filter is what decides whether a skill is offered.
type Filter struct {
	// OS is the operating system as Go names it; "" is this one.
	OS string
	// Tools and Toolsets are what the session offers. What skills say about
	// tools does not count if Tools is nil, and likewise for Toolsets.
	Tools, Toolsets []string
	// Disabled are names that the configuration turns off.
	Disabled []string
}

// Hidden says why the skill is not offered, "" if it is.
func (s Skill) Hidden(f Filter) string {
	if len(s.Blocked) > 0 {
		return "blocked: its name or description contains potential prompt injection (" + strings.Join(s.Blocked, ", ") + ")"
	}
	if slices.ContainsFunc(f.Disabled, func(d string) bool { return loose(d) == loose(s.Name) }) {
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

// Visible returns the skills that are offered, by category and name.
func (c *Catalog) Visible(f Filter) []Skill {
	out := make([]Skill, 0, len(c.skills))
	for _, s := range c.skills {
		if s.Hidden(f) == "" {
			out = append(out, s)
		}
	}
	return out
}
