package frontmatter

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// deepestSimple is how deep mappings may lie in one another for simple.
const deepestSimple = 4

// simple reads the front matter that most skills have: keys, each with a text on
// one line, a short list, or further keys, further in. ok is false if there is
// more that means something to YAML; else the answer is that of parsed.
func simple(front []byte) (fields map[string]any, ok bool) {
	fields = map[string]any{}
	open := []level{{fields: fields}}
	var key string // of the line before, if nothing stands behind it
	for line := range bytes.Lines(front) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		at := len(line) - len(bytes.TrimLeft(line, " "))
		top := &open[len(open)-1]
		switch {
		case key != "" && (at <= top.indent || len(open) == deepestSimple):
			return nil, false
		case key != "":
			inner := map[string]any{}
			top.fields[key] = inner
			open = append(open, level{at, inner})
		default:
			i := slices.IndexFunc(open, func(l level) bool { return l.indent == at })
			if i < 0 {
				return nil, false
			}
			open = open[:i+1]
		}
		if key, ok = open[len(open)-1].take(line[at:]); !ok {
			return nil, false
		}
	}
	return fields, len(fields) > 0 && key == ""
}

// A level is a mapping whose keys begin at one column.
type level struct {
	indent int
	fields map[string]any
}

// take reads a line without its indent. It returns the key if nothing stands
// behind it.
func (l level) take(line []byte) (key string, ok bool) {
	name, text, found := bytes.Cut(line, []byte(":"))
	if !found || !simpleKey(name) {
		return "", false
	}
	_, known := l.fields[string(name)]
	switch {
	case len(text) == 0:
		return string(name), !known
	case text[0] != ' ':
		return "", false
	}
	v, ok := simpleValue(bytes.TrimLeft(text, " "))
	if !known {
		l.fields[string(name)] = v
	}
	return "", ok
}

func simpleKey(key []byte) bool {
	if len(key) == 0 || len(key) >= 64 || !letter(key[0]) {
		return false
	}
	for _, c := range key {
		if !letter(c) && !digit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func simpleValue(text []byte) (any, bool) {
	if len(text) == 0 {
		return nil, false
	}
	switch first := text[0]; {
	case first == '"' || first == '\'':
		inner, after, closed := bytes.Cut(text[1:], text[:1])
		if !closed || len(bytes.TrimRight(after, " ")) > 0 || bytes.IndexByte(inner, '\\') >= 0 || !printable(inner) {
			return nil, false
		}
		return string(inner), true
	case first == '[':
		return simpleList(bytes.TrimRight(text, " "))
	case !letter(first) && !digit(first) || !printable(text):
		return nil, false
	}
	for i, c := range text {
		if c == ':' && (i+1 == len(text) || text[i+1] == ' ') || c == '#' && text[i-1] == ' ' {
			return nil, false
		}
	}
	return string(bytes.TrimRight(text, " ")), true
}

// simpleList reads a list of words on one line.
func simpleList(text []byte) (any, bool) {
	inner, closed := bytes.CutSuffix(text[1:], []byte("]"))
	if !closed {
		return nil, false
	}
	var out []any
	for item := range bytes.SplitSeq(inner, []byte(",")) {
		item = bytes.Trim(item, " ")
		if len(item) == 0 || bytes.ContainsFunc(item, func(r rune) bool {
			return r >= utf8.RuneSelf || !letter(byte(r)) && !digit(byte(r)) && r != '-' && r != '_' && r != '.' && r != ' '
		}) || !letter(item[0]) && !digit(item[0]) {
			return nil, false
		}
		out = append(out, string(item))
	}
	return out, true
}

// printable reports whether a text is one that YAML leaves as it stands.
func printable(text []byte) bool {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c > '~' {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if size == 1 || r < 0xA0 || r == '\u2028' || r == '\u2029' || r == '\uFEFF' || r == '\uFFFE' || r == '\uFFFF' {
			return false
		}
		i += size
	}
	return true
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
