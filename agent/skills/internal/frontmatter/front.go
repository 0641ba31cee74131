// Package frontmatter reads the front matter of a text: the YAML between two lines of
// dashes at its beginning. Most of it needs no YAML parser, and gets none.
package frontmatter

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Split parts a text into its front matter and its body. ok says that there
// is a front matter, and that it ends.
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

// Mapping reads YAML without following aliases, so that a small file cannot
// become large.
func Mapping(front []byte) (map[string]any, error) {
	if fields, ok := simple(front); ok {
		return fields, nil
	}
	return parsed(front)
}

func parsed(front []byte) (map[string]any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(front, &doc); err != nil {
		what := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			n, _ := strconv.Atoi(m[2]) // it is digits
			what = fmt.Sprintf("line %d: %s", n+1, strings.TrimPrefix(what, m[0]))
		}
		return nil, fmt.Errorf("its front matter is not valid YAML: %s", what)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	m, ok := value(doc.Content[0], 0).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its front matter is no mapping of keys to values")
	}
	return m, nil
}

// value returns a node as a string, a list or a map; nil for what is too deep.
func value(n *yaml.Node, depth int) any {
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
			out = append(out, value(c, depth+1))
		}
		return out
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i].Value; out[key] == nil {
				out[key] = value(n.Content[i+1], depth+1)
			}
		}
		return out
	}
	return nil
}

// Plain reads what can be read of a front matter that is not valid YAML: lines
// with a key that begin at the margin. A description with a colon in it is by
// far the most frequent mistake.
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
