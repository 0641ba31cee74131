// Package frontmatter parses the front matter of a text: the YAML between two
// lines of dashes at its beginning. Simple front matter, which is most of it,
// is parsed without the YAML parser. Its functions are safe for concurrent use.
package frontmatter

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Split splits a text into its front matter and its body. ok reports whether
// there is a front matter with an end.
func Split(text []byte) (front, body []byte, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	first, rest, found := bytes.Cut(text, []byte("\n"))
	if !found || string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, text, false
	}
	for at := 0; at < len(rest); {
		line, _, _ := bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:at], rest[min(at+len(line)+1, len(rest)):], true
		}
		at += len(line) + 1
	}
	return nil, text, false
}

var yamlLine = regexp.MustCompile(`^(yaml: )?line (\d+): `)

// Mapping parses YAML without following aliases, so that a small file cannot
// become large.
func Mapping(front []byte) (map[string]any, error) {
	if fields, ok := parseSimple(front); ok {
		return fields, nil
	}
	return parseYAML(front)
}

func parseYAML(front []byte) (map[string]any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(front, &doc); err != nil {
		what := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			n, _ := strconv.Atoi(m[2]) // only digits
			what = fmt.Sprintf("line %d: %s", n+1, strings.TrimPrefix(what, m[0]))
		}
		return nil, fmt.Errorf("its front matter is not valid YAML: %s", what)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	m, ok := nodeValue(doc.Content[0], 0).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its front matter is no mapping of keys to values")
	}
	return m, nil
}

// nodeValue returns a node as a string, a list or a map; nil below the maximum
// depth.
func nodeValue(n *yaml.Node, depth int) any {
	const deepest = 6
	if depth > deepest {
		return nil
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value
	case yaml.SequenceNode:
		var out []any
		for _, c := range n.Content {
			out = append(out, nodeValue(c, depth+1))
		}
		return out
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i].Value; out[key] == nil {
				out[key] = nodeValue(n.Content[i+1], depth+1)
			}
		}
		return out
	}
	return nil
}

// Plain parses a front matter that is not valid YAML: it returns name and
// description from lines that begin with these keys. A description with a colon
// in it is by far the most frequent mistake.
func Plain(front []byte) map[string]any {
	out := map[string]any{}
	for line := range strings.Lines(string(front)) {
		key, v, ok := strings.Cut(line, ":")
		if ok && (key == "name" || key == "description") {
			out[key] = strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return out
}

// maxSimpleDepth limits the nesting of mappings in parseSimple.
const maxSimpleDepth = 4

// parseSimple parses the front matter that most skills have: keys, each with a
// text on one line, a short list, or an indented mapping. ok is false if there
// is other YAML syntax; otherwise the result equals that of parseYAML.
func parseSimple(front []byte) (fields map[string]any, ok bool) {
	fields = map[string]any{}
	open := []level{{fields: fields}}
	var key string // key of the previous line if it has no value
	for line := range bytes.Lines(front) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		at := len(line) - len(bytes.TrimLeft(line, " "))
		top := &open[len(open)-1]
		switch {
		case key != "" && (at <= top.indent || len(open) == maxSimpleDepth):
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
		if key, ok = open[len(open)-1].addLine(line[at:]); !ok {
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

// addLine parses a line without its indentation. It returns the key if the line
// has no value.
func (l level) addLine(line []byte) (key string, ok bool) {
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
	if len(key) == 0 || len(key) >= 64 || !isLetter(key[0]) {
		return false
	}
	return !slices.ContainsFunc(key, func(c byte) bool { return !isLetter(c) && !isDigit(c) && c != '_' && c != '-' })
}

func simpleValue(text []byte) (any, bool) {
	if len(text) == 0 {
		return nil, false
	}
	switch first := text[0]; {
	case first == '"' || first == '\'':
		inner, after, closed := bytes.Cut(text[1:], text[:1])
		if !closed || len(bytes.TrimRight(after, " ")) > 0 || bytes.IndexByte(inner, '\\') >= 0 || !isPlainText(inner) {
			return nil, false
		}
		return string(inner), true
	case first == '[':
		return simpleList(bytes.TrimRight(text, " "))
	case !isLetter(first) && !isDigit(first) || !isPlainText(text):
		return nil, false
	}
	for i, c := range text {
		if c == ':' && (i+1 == len(text) || text[i+1] == ' ') || c == '#' && text[i-1] == ' ' {
			return nil, false
		}
	}
	return string(bytes.TrimRight(text, " ")), true
}

// simpleList parses a list of words on one line.
func simpleList(text []byte) (any, bool) {
	inner, closed := bytes.CutSuffix(text[1:], []byte("]"))
	if !closed {
		return nil, false
	}
	var out []any
	for item := range bytes.SplitSeq(inner, []byte(",")) {
		item = bytes.Trim(item, " ")
		if len(item) == 0 || bytes.ContainsFunc(item, func(r rune) bool {
			return r >= utf8.RuneSelf || !isLetter(byte(r)) && !isDigit(byte(r)) && r != '-' && r != '_' && r != '.' && r != ' '
		}) || !isLetter(item[0]) && !isDigit(item[0]) {
			return nil, false
		}
		out = append(out, string(item))
	}
	return out, true
}

// isPlainText reports whether YAML keeps a text unchanged.
func isPlainText(text []byte) bool {
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

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
