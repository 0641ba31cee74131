package yamlconf

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseYAML returns the content of the single document in data, nil if it is empty,
// or its problems. Problems have positions and contain nothing of the text.
func parseYAML(file string, data []byte) (*yaml.Node, []Problem) {
	if p, ok := badText(data); ok {
		p.File = file
		return nil, []Problem{p}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, []Problem{syntaxProblem(file, data, err)}
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, []Problem{syntaxProblem(file, data, err)}
	default:
		return nil, []Problem{{File: file, Line: max(1, second.Line), Column: max(1, second.Column), Text: "a second document begins here (---); a configuration is one document"}}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// badText finds the first invalid UTF-8 or control character in data.
func badText(data []byte) (Problem, bool) {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return Problem{Line: line, Column: column, Text: "the file is not UTF-8 text"}, true
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return Problem{Line: line, Column: column, Text: "there is a control character here"}, true
		}
		column++
		i += n
	}
	return Problem{}, false
}

var (
	yamlLine  = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)
	yamlNamed = regexp.MustCompile(`anchor '.*'`)
	// yamlParser matches errors of the parser, in contrast to the scanner: it counts
	// lines from 0.
	yamlParser = regexp.MustCompile(`^(did not find expected (node content|key|'-' indicator|',' or|<)|found (duplicate|undefined|incompatible)|exceeded max depth)`)
)

// syntaxProblem converts an error of the parser to a problem. Text that the parser
// quotes is omitted: it may be a secret that begins with * or &.
func syntaxProblem(file string, data []byte, err error) Problem {
	msg, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		if msg = msg[len(m[0]):]; yamlParser.MatchString(msg) {
			line++
		}
	}
	msg = strings.TrimPrefix(yamlNamed.ReplaceAllString(msg, "anchor"), "yaml: ")
	lines := bytes.Split(data, []byte("\n"))
	line = min(max(line, 1), len(lines))
	row := lines[line-1]
	column := 1 + len(row) - len(bytes.TrimLeft(row, " \t"))
	return Problem{File: file, Line: line, Column: column, Text: "this is not YAML: " + msg}
}

type entry struct {
	key, value *yaml.Node
}

// The limits for expansion by aliases and merge keys.
const (
	maxEntries = 20_000
	maxMerges  = 16
)

// entries returns the keys of a mapping in order, followed by those that `<<` merges
// into it. A duplicate key is a problem, and its second value is ignored.
func (l *Loader) entries(n *yaml.Node, path string, depth int) (es []entry) {
	if n = Deref(n); n.Kind != yaml.MappingNode {
		l.problem(n, path, "want a section of keys, not %s", nodeWords(n))
		return nil
	}
	if depth > maxMerges {
		l.problem(n, path, "merge keys (<<) go too deep here")
		return nil
	}
	seen := make(map[string]*yaml.Node)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := Deref(n.Content[i]), n.Content[i+1]
		if l.visits++; l.visits > maxEntries {
			if l.visits == maxEntries+1 {
				l.problem(n, path, "aliases and merge keys make this file too large")
			}
			return nil
		}
		if k.Kind != yaml.ScalarNode {
			l.problem(k, path, "a key must be a plain word, not %s", nodeWords(k))
			continue
		}
		if k.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}
		if first, ok := seen[k.Value]; ok {
			l.problem(k, join(path, quoteKey(k.Value)), "this key stands twice; it stands on line %d already", first.Line)
			continue
		}
		seen[k.Value] = k
		es = append(es, entry{k, v})
	}
	for _, m := range merges {
		for _, e := range l.merged(m, path, depth) {
			if _, ok := seen[e.key.Value]; !ok {
				seen[e.key.Value] = e.key
				es = append(es, e)
			}
		}
	}
	return es
}

// merged returns the entries of a merge key: those of a mapping, or of several, of
// which earlier ones take precedence.
func (l *Loader) merged(n *yaml.Node, path string, depth int) (es []entry) {
	n = Deref(n)
	if n.Kind != yaml.SequenceNode {
		return l.entries(n, path, depth+1)
	}
	for _, m := range n.Content {
		es = append(es, l.entries(m, path, depth+1)...)
	}
	return es
}

// Deref returns the target of an alias, or n itself.
func Deref(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && n.Alias != nil && i < 8; i++ {
		n = n.Alias
	}
	return n
}

func nodeWords(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section of keys"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "a text"
}
