package yamledit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// merge returns the entries of the list n that are in values, and the other values,
// which are to be appended.
func merge(n *yaml.Node, values []string) (kept []any, added []string) {
	var seen []string
	if n != nil && n.Kind == yaml.SequenceNode {
		for _, e := range n.Content {
			var v any
			if e.Kind == yaml.ScalarNode && slices.Contains(values, e.Value) && e.Decode(&v) == nil {
				kept, seen = append(kept, v), append(seen, e.Value)
			}
		}
	}
	for _, v := range values {
		if !slices.Contains(seen, v) {
			added, seen = append(added, v), append(seen, v)
		}
	}
	return kept, added
}

func toAny(kept []any, added []string) []any {
	for _, a := range added {
		kept = append(kept, a)
	}
	return kept
}

// setList returns the text with a list at path.
func (d *Doc) setList(path, values []string) (string, *FormError) {
	n := d.find(path)
	if n == nil || n.Kind != yaml.SequenceNode || n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 {
		kept, added := merge(n, values)
		var items []string
		for _, k := range kept {
			raw, err := yaml.Marshal(k)
			if err != nil {
				return "", &FormError{Reason: "its list cannot be read"}
			}
			items = append(items, strings.TrimSpace(string(raw)))
		}
		for _, a := range added {
			items = append(items, scalar(a))
		}
		return d.set(path, "["+strings.Join(items, ", ")+"]")
	}
	return d.setItems(n, values)
}

// setItems returns the text with the entries of a block list changed.
func (d *Doc) setItems(n *yaml.Node, values []string) (string, *FormError) {
	last := n.Content[len(n.Content)-1]
	indent := d.text[d.lineStart(last.Line):d.offset(last)]
	if strings.Trim(indent, " ") != "-" {
		return "", &FormError{Line: last.Line, Reason: "its list has more than one item on a line"}
	}
	var lines string
	_, added := merge(n, values)
	for _, a := range added {
		lines += indent + scalar(a) + d.eol()
	}
	at := d.lineStart(last.Line + 1)
	head, tail := d.text[:at], d.text[at:]
	if lines != "" && !strings.HasSuffix(head, "\n") {
		head += d.eol()
	}
	text := head + lines + tail
	for _, e := range slices.Backward(n.Content) {
		if !slices.Contains(values, e.Value) {
			text = text[:d.lineStart(e.Line)] + text[min(len(text), d.lineStart(e.Line+1)):]
		}
	}
	return text, nil
}

// Items returns the scalar values of the list at path.
func (d *Doc) Items(path ...string) (items []string) {
	n := d.find(path)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, e := range n.Content {
		items = append(items, e.Value)
	}
	return items
}
