package skills

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/agent/skills/internal/frontmatter"
)

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
