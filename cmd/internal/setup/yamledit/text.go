package yamledit

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// set returns the text with a YAML value at path.
func (d *Doc) set(path []string, value string) (string, *FormError) {
	if n := d.find(path); n != nil {
		return d.replace(n, path, value)
	}
	around := d.root
	for i, name := range path {
		next := child(around, name)
		if next == nil || isNull(next) {
			return d.insert(around, path[:i], path[i:], value)
		}
		if next.Kind != yaml.MappingNode {
			return "", &FormError{Line: next.Line, Reason: "what stands there is no section of its own"}
		}
		around = next
	}
	return "", &FormError{Reason: "there is no place for it"}
}

// insert returns the text with a key, and the sections that lead to it, inserted
// into the mapping around, whose path is given.
func (d *Doc) insert(around *yaml.Node, path, rest []string, value string) (string, *FormError) {
	if around == nil {
		return d.lineAfter(d.lines(), 0, rest, value), nil
	}
	if empty := child(around, rest[0]); empty != nil && len(rest) > 1 && around.Style&yaml.FlowStyle == 0 { // a key without a value
		if empty.Value != "" {
			return "", &FormError{Line: empty.Line, Reason: "what stands there is no section of keys"}
		}
		key := keyOf(around, empty)
		return d.lineAfter(key.Line, key.Column+1, rest[1:], value), nil
	}
	if around.Style&yaml.FlowStyle != 0 {
		at := d.offset(around)
		if at >= len(d.text) || d.text[at] != '{' {
			return "", &FormError{Line: around.Line, Reason: "its section has a mark of its own"}
		}
		more := ", "
		if len(around.Content) == 0 {
			more = ""
		}
		for _, name := range slices.Backward(rest[1:]) {
			value = "{" + scalar(name) + ": " + value + "}"
		}
		return d.text[:at+1] + scalar(rest[0]) + ": " + value + more + d.text[at+1:], nil
	}
	if len(around.Content) == 0 {
		return "", &FormError{Line: around.Line, Reason: "its section is empty"}
	}
	first := around.Content[0]
	return d.lineAfter(d.end(first.Line, first.Column-1, len(path) == 0), first.Column-1, rest, value), nil
}

// lineAfter returns the text with sections and a value inserted as lines after line
// n, counted from 1.
func (d *Doc) lineAfter(n, indent int, path []string, value string) string {
	var b strings.Builder
	for i, name := range path {
		b.WriteString(strings.Repeat(" ", indent+2*i) + scalar(name) + ":")
		if i == len(path)-1 {
			b.WriteString(" " + value)
		}
		b.WriteString(d.eol())
	}
	at := d.lineStart(n + 1)
	head := d.text[:at]
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += d.eol()
	}
	return head + b.String() + d.text[at:]
}

// replace returns the text with value in place of n.
func (d *Doc) replace(n *yaml.Node, path []string, value string) (string, *FormError) {
	from, to, ok := d.span(n)
	if !ok {
		return "", &FormError{Line: n.Line, Reason: "what stands there is more than a plain value on one line"}
	}
	if from == to { // a key without a value: behind its colon
		key := keyOf(d.find(path[:len(path)-1]), n)
		end, ok := d.scalarEnd(key)
		if !ok || !strings.HasPrefix(d.text[end:], ":") {
			return "", &FormError{Line: key.Line, Reason: "the colon is not found"}
		}
		return d.text[:end+1] + " " + value + d.text[end+1:], nil
	}
	return d.text[:from] + value + d.text[to:], nil
}

// spread returns the text with key inserted before the scalar n, on a line of its
// own.
func (d *Doc) spread(n *yaml.Node, path []string, key string) (string, *FormError) {
	around := d.find(path[:len(path)-1])
	from, to, ok := d.span(n)
	if !ok || from == to {
		return "", &FormError{Line: n.Line, Reason: "what stands there is more than a plain value on one line"}
	}
	if around.Style&yaml.FlowStyle != 0 {
		return d.text[:from] + "{" + scalar(key) + ": " + d.text[from:to] + "}" + d.text[to:], nil
	}
	indent := keyOf(around, n).Column + 1
	head := strings.TrimRight(d.text[:from], " \t")
	return head + d.eol() + strings.Repeat(" ", indent) + scalar(key) + ": " + d.text[from:], nil
}

// span returns the offsets of a value: a plain or quoted scalar, or a list in
// brackets.
func (d *Doc) span(n *yaml.Node) (from, to int, ok bool) {
	from = d.offset(n)
	switch {
	case n.Kind == yaml.ScalarNode:
		to, ok = d.scalarEnd(n)
	case n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle != 0:
		to, ok = d.bracketEnd(from)
	}
	return from, to, ok
}

// scalarEnd returns the offset after a scalar.
func (d *Doc) scalarEnd(n *yaml.Node) (int, bool) {
	at := d.offset(n)
	switch rest := d.text[at:]; {
	case n.Anchor != "" || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0:
		return 0, false
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return d.quoteEnd(at)
	case n.Value == "":
		return at, true
	default:
		return at + len(n.Value), strings.HasPrefix(rest, n.Value)
	}
}

// quoteEnd returns the offset after the quoted text that begins at an offset.
func (d *Doc) quoteEnd(at int) (int, bool) {
	if at >= len(d.text) {
		return 0, false
	}
	quote := d.text[at]
	for i := at + 1; i < len(d.text); i++ {
		switch {
		case quote == '"' && d.text[i] == '\\':
			i++
		case quote == '\'' && strings.HasPrefix(d.text[i:], "''"):
			i++
		case d.text[i] == quote:
			return i + 1, true
		}
	}
	return 0, false
}

// bracketEnd returns the offset after the bracketed list that begins at an offset.
// Nested lists and comments are not supported.
func (d *Doc) bracketEnd(at int) (int, bool) {
	if at >= len(d.text) || d.text[at] != '[' {
		return 0, false
	}
	for i := at + 1; i < len(d.text); i++ {
		switch d.text[i] {
		case ']':
			return i + 1, true
		case '[', '{', '#':
			return 0, false
		case '"', '\'':
			end, ok := d.quoteEnd(i)
			if !ok {
				return 0, false
			}
			i = end - 1
		}
	}
	return 0, false
}

func (d *Doc) lines() int { return strings.Count(d.text, "\n") + 1 }

// lineStart returns the offset of line n, counted from 1.
func (d *Doc) lineStart(n int) int {
	at := 0
	for ; n > 1; n-- {
		i := strings.IndexByte(d.text[at:], '\n')
		if i < 0 {
			return len(d.text)
		}
		at += i + 1
	}
	return at
}

func (d *Doc) offset(n *yaml.Node) int {
	at := d.lineStart(n.Line)
	for c := 1; c < n.Column && at < len(d.text); c++ {
		_, size := utf8.DecodeRuneInString(d.text[at:])
		at += size
	}
	return at
}

// end returns the last line of the block that begins on line n with an indentation.
func (d *Doc) end(n, indent int, whole bool) int {
	last := n
	rest := strings.Split(d.text[d.lineStart(n+1):], "\n")
	for i, line := range rest {
		body := strings.TrimLeft(line, " ")
		switch {
		case strings.TrimSpace(body) == "":
			continue
		case whole && (strings.HasPrefix(line, "...") || strings.HasPrefix(line, "---")):
			return last
		case len(line)-len(body) < indent:
			return last
		}
		last = n + 1 + i
	}
	return last
}

// eol returns the line ending of the file.
func (d *Doc) eol() string {
	if strings.Contains(d.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// plain matches text that needs no quotes anywhere in YAML.
var plain = regexp.MustCompile(`^[A-Za-z/]([A-Za-z0-9_./:@-]*[A-Za-z0-9])?$`)

// scalar encodes a text as YAML on one line.
func scalar(s string) string {
	var back any
	if plain.MatchString(s) && yaml.Unmarshal([]byte("[ "+s+" ]"), &back) == nil {
		if l, ok := back.([]any); ok && len(l) == 1 && l[0] == s {
			return s
		}
	}
	quoted, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle})
	if err != nil || strings.Count(string(quoted), "\n") != 1 { // JSON is valid YAML
		quoted, _ = json.Marshal(s) // a string can always be encoded
	}
	return strings.TrimSuffix(string(quoted), "\n")
}
