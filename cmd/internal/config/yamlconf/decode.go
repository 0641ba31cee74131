package yamlconf

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func isNull(n *yaml.Node) bool {
	n = Deref(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func (l *Loader) section(n *yaml.Node, fs []*field, v reflect.Value, path string) {
	for _, e := range l.entries(n, path, 0) {
		name := e.key.Value
		if l.known(e, fs, v, path) || l.moved(e, join(path, name)) {
			continue
		}
		at, nested := join(path, name), name == l.o.Nested && path != ""
		if !nested && !l.holdsMoved(at) || Deref(e.value).Kind != yaml.MappingNode {
			l.unknown(e, fs, path)
			continue
		}
		for _, in := range l.entries(e.value, at, 0) {
			if !(nested && l.known(in, fs, v, path)) && !l.moved(in, join(at, in.key.Value)) {
				l.unknown(in, nil, at)
			}
		}
	}
}

// known decodes an entry if fs has its key.
func (l *Loader) known(e entry, fs []*field, v reflect.Value, path string) bool {
	name := e.key.Value
	if f := find(fs, name); f != nil {
		if slices.Contains(f.former, name) {
			l.warn(e.key, join(path, name), "this key is called %s now; the old name still works", f.name)
		}
		l.value(e.value, f, v.FieldByIndex(f.index), join(path, f.name))
		return true
	}
	if f := find(fs, strings.TrimSuffix(name, fileSuffix)); f != nil && f.kind == secretText {
		l.secretFile(e.value, v.FieldByIndex(f.index), join(path, f.name))
		return true
	}
	return false
}

// rewrite returns the node to decode in place of n.
func (l *Loader) rewrite(path string, n *yaml.Node) *yaml.Node {
	if l.o.Rewrite == nil {
		return n
	}
	return l.o.Rewrite(path, Deref(n))
}

// moved decodes a key that belongs to another section.
func (l *Loader) moved(e entry, path string) bool {
	target, ok := l.o.Moved[path]
	if !ok {
		return false
	}
	fs, v := l.fields, l.root
	var f *field
	for name := range strings.SplitSeq(target, ".") {
		f = find(fs, name)
		v = v.FieldByIndex(f.index)
		fs = f.sub
	}
	l.value(e.value, f, v, target)
	return true
}

// value decodes one value. A null value leaves the default.
func (l *Loader) value(n *yaml.Node, f *field, v reflect.Value, path string) {
	at := n
	n = Deref(n)
	if isNull(n) {
		if n.Anchor != "" && at == n {
			l.problem(n, path, "there is only an anchor (&) here; a value that begins with & needs quotes")
		}
		return
	}
	if n = l.rewrite(path, n); f.unset(n) {
		return
	}
	switch f.kind {
	case section:
		l.sectionValue(n, f, v, path)
	case list:
		l.list(n, f, v, path)
	case table:
		l.table(n, f, v, path)
	case stringMap:
		l.pairs(n, v, path)
	case stringList:
		l.words(n, f, v, path)
	default:
		s, ok := l.scalar(n, f, path)
		if !ok || !l.first(n, path) {
			return
		}
		if now, ok := f.replaced[s]; ok {
			l.warn(n, path, formerValue, s, now)
			s = now
		}
		if err := setText(f, v, s); err != nil {
			l.problem(n, path, "%v", err)
		}
	}
}

// formerValue is the warning about a value that was renamed.
const formerValue = "the value %s is called %s now; the old one still works"

// sectionValue decodes a section, or the plain value that is short for one of its
// keys.
func (l *Loader) sectionValue(n *yaml.Node, f *field, v reflect.Value, path string) {
	if n.Kind == yaml.ScalarNode && f.short != "" {
		s := find(f.sub, f.short)
		l.value(n, s, v.FieldByIndex(s.index), join(path, s.name))
		return
	}
	l.section(n, f.sub, v, path)
}

// scalar returns the text of a plain value with variables expanded.
func (l *Loader) scalar(n *yaml.Node, f *field, path string) (string, bool) {
	n = Deref(n)
	if n.Kind != yaml.ScalarNode {
		l.problem(n, path, "want %s, not %s", f.wants(), nodeWords(n))
		return "", false
	}
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!") {
		l.problem(n, path, "tags (!) mean nothing here; a value that begins with ! needs quotes")
		return "", false
	}
	s, err := Expand(n.Value, l.o.LookupEnv)
	if err != nil {
		l.problem(n, path, "%v", err)
		return "", false
	}
	return s, true
}

// first records the origin of a value. It returns false if the file has already set
// the key under another name: the first value holds, and another one is a problem or,
// for a key that moved from where another program has it, a warning.
func (l *Loader) first(n *yaml.Node, path string) bool {
	if o, ok := l.Origins[path]; ok && o.Kind == FromFile && o.Line > 0 {
		switch was := l.given[path]; {
		case was != nil && (sameValue(was, n) || isEmpty(n)):
		case was != nil && isEmpty(was):
			delete(l.Origins, path)
			return l.first(n, path)
		case l.isMovedTo(path) && l.o.Strict != nil && !l.o.Strict(path):
			l.warn(n, path, "this is set twice; the value on line %d is used", o.Line)
		default:
			l.problem(n, path, "this is set twice; it is set on line %d already, maybe under another name", o.Line)
		}
		return false
	}
	l.given[path] = n
	l.Origins[path] = Origin{Kind: FromFile, Name: l.o.File, Line: max(1, n.Line), Column: max(1, n.Column)}
	return true
}

// words decodes a list of plain values; a single plain value is split at its separators.
func (l *Loader) words(n *yaml.Node, f *field, v reflect.Value, path string) {
	if !l.first(n, path) {
		return
	}
	var ws []string
	switch n.Kind {
	case yaml.ScalarNode:
		s, ok := l.scalar(n, f, path)
		if !ok {
			return
		}
		ws = split(s, f.sep)
	case yaml.SequenceNode:
		for _, e := range n.Content {
			p := fmt.Sprintf("%s[%d]", path, len(ws))
			s, ok := l.scalar(e, &field{kind: text}, p)
			if !ok {
				return
			}
			l.Origins[p] = Origin{Kind: FromFile, Name: l.o.File, Line: max(1, e.Line), Column: max(1, e.Column)}
			ws = append(ws, s)
		}
	default:
		l.problem(n, path, "want %s, not %s", f.wants(), nodeWords(n))
		return
	}
	if err := setWords(f, v, ws); err != nil {
		l.problem(n, path, "%v", err)
	}
}

// pairs decodes a mapping of names to strings.
func (l *Loader) pairs(n *yaml.Node, v reflect.Value, path string) {
	if !l.first(n, path) {
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, e := range l.entries(n, path, 0) {
		if s, ok := l.scalar(e.value, &field{kind: text}, join(path, quoteKey(e.key.Value))); ok && !isNull(e.value) {
			m.SetMapIndex(reflect.ValueOf(e.key.Value), reflect.ValueOf(s))
		}
	}
	if m.Len() > 0 {
		v.Set(m)
	}
}

func (l *Loader) list(n *yaml.Node, f *field, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		l.problem(n, path, "want %s, not %s", f.wants(), nodeWords(n))
		return
	}
	if len(n.Content) == 0 || !l.first(n, path) {
		return
	}
	for i, e := range n.Content {
		el := reflect.New(v.Type().Elem()).Elem()
		l.defaults(f.sub, el)
		at := fmt.Sprintf("%s[%d]", path, i)
		l.section(l.rewrite(at, e), f.sub, el, at)
		v.Set(reflect.Append(v, el))
	}
}

// table decodes named sections.
func (l *Loader) table(n *yaml.Node, f *field, v reflect.Value, path string) {
	for _, e := range l.entries(n, path, 0) {
		name := e.key.Value
		if !f.anyName && !elementName.MatchString(name) {
			l.problem(e.key, join(path, quoteKey(name)), "a name here is 1 to 32 of a-z 0-9 _ - and begins with a letter or digit")
			continue
		}
		el := reflect.New(v.Type().Elem()).Elem()
		l.defaults(f.sub, el)
		if !isNull(e.value) {
			l.section(e.value, f.sub, el, join(path, name))
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		l.Origins[join(path, name)] = Origin{Kind: FromFile, Name: l.o.File, Line: max(1, e.key.Line), Column: max(1, e.key.Column)}
		v.SetMapIndex(reflect.ValueOf(name), el)
	}
}

// fileSuffix, appended to the name of a secret key, makes it the name of a file
// that contains the secret.
const fileSuffix = "_file"

// maxSecret is the size limit of a file with a secret in bytes.
const maxSecret = 64 << 10

func (l *Loader) secretFile(n *yaml.Node, v reflect.Value, path string) {
	n = Deref(n)
	s, ok := l.scalar(n, &field{kind: text}, path+fileSuffix)
	if !ok || isNull(n) || !l.first(n, path) {
		return
	}
	name := l.o.Path(s)
	l.SecretFiles = append(l.SecretFiles, name)
	data, err := ReadFile(name, maxSecret)
	switch {
	case err != nil:
		l.problem(n, path+fileSuffix, "the file cannot be read: %v", err)
		return
	case strings.TrimSpace(string(data)) == "":
		l.problem(n, path+fileSuffix, "the file is empty")
		return
	}
	if info, err := os.Stat(name); err == nil && Readable(info) {
		l.warn(n, path+fileSuffix, "others can read this file; run chmod 600 %s", name)
	}
	v.SetString(strings.TrimSpace(string(data)))
}

func sortedKeys(m reflect.Value) (ks []string) {
	for _, k := range m.MapKeys() {
		ks = append(ks, k.String())
	}
	slices.Sort(ks)
	return ks
}
