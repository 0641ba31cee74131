// Package frontmatter parses the front matter of a text: the YAML between two
// lines of dashes at its beginning. Simple front matter, which is most of it,
// is parsed without the YAML parser. Its functions are safe for concurrent use.
package frontmatter

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

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
