package yamlconf

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermesd/internal/similar"
)

// A foreignKey is a key of another program, with advice about it.
type foreignKey struct {
	section string // under whose name the warning is collected; "" is the top
	name    string // in the section
	advice  string
	at      *yaml.Node
}

// Handled, as the advice about a foreign key, says that the program reads the key in its
// own way: there is no warning about it.
const Handled = "-"

// nearby is the distance up to which an unknown key counts as a misspelt one.
const nearby = 2

// unknown reports an unknown key: as foreign if Options.Foreign knows it, as a problem
// if its section is strict or it is similar to a key of its section, else as a warning.
func (l *Loader) unknown(e entry, fs []*field, path string) {
	k := e.key
	at, shown := join(path, k.Value), join(path, quoteKey(k.Value))
	if advice, ok := l.o.Foreign(at); ok {
		if advice != Handled {
			l.addForeign(e, path, advice)
		}
		return
	}
	here := l.here(fs, path)
	if l.o.Strict == nil || l.o.Strict(at) || slices.ContainsFunc(here, func(n string) bool { return Near(k.Value, n) }) {
		if len(l.Problems) >= shownProblems {
			l.problem(k, shown, "unknown key") // a hint costs time and is not shown
			return
		}
		l.problem(k, shown, "unknown key; %s", hint(k.Value, here, leaves(l.fields)))
		return
	}
	text := "unknown key: it has no effect"
	if len(l.Warnings) < shownProblems {
		if h := hint(k.Value, here, leaves(l.fields)); strings.HasPrefix(h, "did you mean") {
			text += "; " + h
		}
	}
	l.warn(k, shown, "%s", text)
}

// here returns the names of the keys of a section: of fs, also former ones, and of those
// that moved to another section.
func (l *Loader) here(fs []*field, path string) []string {
	all := names(fs)
	for _, f := range fs {
		all = append(all, f.former...)
	}
	for moved := range l.o.Moved {
		in, ok := moved, path == ""
		if !ok {
			in, ok = strings.CutPrefix(moved, path+".")
		}
		if ok && !strings.Contains(in, ".") {
			all = append(all, in)
		}
	}
	return all
}

// Near reports whether a name may be a misspelt other one: they differ by at most two
// letters, dashes and case aside.
func Near(name, other string) bool {
	return len(name) > nearby && similar.Distance(plain(name), plain(other)) <= nearby
}

// addForeign notes a foreign key. A section that is foreign as a whole is noted with
// its keys.
func (l *Loader) addForeign(e entry, path, advice string) {
	section, rest := topSection(path)
	k := e.key
	if v := Deref(e.value); path == section && v.Kind == yaml.MappingNode && len(v.Content) > 0 && (path == "" || section == "platforms") {
		at := join(path, quoteKey(k.Value))
		for _, in := range l.entries(v, at, 0) {
			l.foreign = append(l.foreign, foreignKey{at, quoteKey(in.key.Value), "", k})
		}
		if advice != "" {
			l.foreign = append(l.foreign, foreignKey{at, "", advice, k})
		}
		return
	}
	l.foreign = append(l.foreign, foreignKey{section, join(rest, quoteKey(k.Value)), advice, k})
}

// topSection splits a path into the section under whose name warnings are collected,
// which is a top section or a platform, and the rest.
func topSection(path string) (section, rest string) {
	n := 1
	if strings.HasPrefix(path, "platforms.") {
		n = 2
	}
	parts := strings.SplitN(path, ".", n+1)
	if len(parts) <= n {
		section, index, list := strings.Cut(path, "[")
		if list {
			return section, "[" + index
		}
		return path, ""
	}
	return strings.Join(parts[:n], "."), parts[n]
}

// warnForeign reports one warning for each section that has foreign keys.
func (l *Loader) warnForeign() {
	var sections []string
	keys := make(map[string][]foreignKey)
	for _, k := range l.foreign {
		if _, ok := keys[k.section]; !ok {
			sections = append(sections, k.section)
		}
		keys[k.section] = append(keys[k.section], k)
	}
	for _, section := range sections {
		var words []string
		advice := ""
		for _, k := range keys[section] {
			switch {
			case k.name == "":
				advice = "; " + k.advice
			case k.advice != "":
				words = append(words, k.name+" ("+k.advice+")")
			default:
				words = append(words, k.name)
			}
		}
		slices.Sort(words)
		words = slices.Compact(words)
		text := "Hermes has this key, hermesd does not: it has no effect: "
		if len(words) > 1 {
			text = "Hermes has these keys, hermesd does not: they have no effect: "
		}
		l.warn(keys[section][0].at, section, "%s", text+strings.Join(words, ", ")+advice)
	}
}

// isMovedTo reports whether the key at path, or a section around it, may also be
// written in another section.
func (l *Loader) isMovedTo(path string) bool {
	for _, target := range l.o.Moved {
		if path == target || strings.HasPrefix(path, target+".") {
			return true
		}
	}
	return false
}

// holdsMoved reports whether keys of the section at path, which is none of the struct,
// may belong to another section.
func (l *Loader) holdsMoved(path string) bool {
	for moved := range l.o.Moved {
		if strings.HasPrefix(moved, path+".") {
			return true
		}
	}
	return false
}

// maxSame limits the nodes that are compared: a node may contain itself, many times.
const maxSame = 10_000

// sameValue reports whether two nodes have the same value, as far as they are compared.
func sameValue(a, b *yaml.Node) bool {
	left := maxSame
	return equal(a, b, &left)
}

func equal(a, b *yaml.Node, left *int) bool {
	a, b = Deref(a), Deref(b)
	*left--
	return *left >= 0 && a.Kind == b.Kind && a.Value == b.Value &&
		slices.EqualFunc(a.Content, b.Content, func(a, b *yaml.Node) bool { return equal(a, b, left) })
}

// isEmpty reports whether n is an empty text, list or section.
func isEmpty(n *yaml.Node) bool {
	n = Deref(n)
	return n.Kind == yaml.ScalarNode && n.Value == "" || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// unset reports whether n is an empty text for a key whose values cannot be empty:
// other programs write that for a key that is not set.
func (f *field) unset(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		return isNull(n)
	}
	switch f.kind {
	case text:
		return f.enum != nil && !slices.Contains(f.enum, "")
	case boolean, integer, float, span, stringMap, section, list, table:
		return f.short == ""
	}
	return false
}
