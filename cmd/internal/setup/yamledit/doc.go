// Package yamledit changes single keys of a YAML file and preserves every other byte:
// comments, blank lines, quotes, order, line ends. The main type is [Doc].
//
// The position of a key comes from the parsed nodes, the text is edited, and the result
// is parsed again: if it differs from the old content by more than the change, nothing is
// changed and an error is returned. A file in an unsupported form is therefore rejected,
// never damaged.
package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A FormError reports that a key cannot be set in this file.
type FormError struct {
	Key    string // separated by dots
	Line   int    // closest line; 0 if unknown
	Reason string
}

func (e *FormError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s cannot be set here, near line %d: %s; write it by hand", e.Key, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s cannot be set here: %s; write it by hand", e.Key, e.Reason)
}

// A Doc is a YAML file that is being changed. It contains one document, a mapping.
// It is not safe for concurrent use.
type Doc struct {
	text string // without a byte order mark
	bom  bool
	root *yaml.Node // the mapping; nil in an empty file
}

const bom = "\xef\xbb\xbf"

// Parse parses a file. An empty file is a document without keys.
func Parse(data []byte) (*Doc, error) {
	text, marked := strings.CutPrefix(string(data), bom)
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	return &Doc{text: text, bom: marked, root: root}, nil
}

// parse returns the mapping of the only document in text, or nil if there is none.
func parse(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("this is not YAML: %w", err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	root := doc.Content[0]
	switch {
	case isNull(root):
		return nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("it holds no keys")
	}
	return root, nil
}

// Bytes returns the current content of the file.
func (d *Doc) Bytes() []byte {
	if d.bom {
		return []byte(bom + d.text)
	}
	return []byte(d.text)
}

// Has reports whether path exists, even if its value is empty.
func (d *Doc) Has(path ...string) bool { return d.find(path) != nil }

// Text returns the scalar value at path without quotes, or "" if there is none.
func (d *Doc) Text(path ...string) string {
	n := d.find(path)
	if n == nil || n.Kind != yaml.ScalarNode || isNull(n) {
		return ""
	}
	return n.Value
}

// find returns the value at path, or nil.
func (d *Doc) find(path []string) *yaml.Node {
	n := d.root
	for _, name := range path {
		if n = child(n, name); n == nil {
			return nil
		}
	}
	return n
}

// Set sets the value at path to a string. Missing sections are created.
func (d *Doc) Set(value string, path ...string) error {
	return d.change(path, value, func() (string, *FormError) { return d.set(path, scalar(value)) })
}

// SetBool sets the value at path to a boolean. Missing sections are created.
func (d *Doc) SetBool(value bool, path ...string) error {
	return d.change(path, value, func() (string, *FormError) { return d.set(path, strconv.FormatBool(value)) })
}

// SetList sets the list at path to values. Existing entries keep their positions;
// new ones are appended.
func (d *Doc) SetList(values []string, path ...string) error {
	return d.change(path, toAny(merge(d.find(path), values)), func() (string, *FormError) { return d.setList(path, values) })
}

// Spread converts the scalar value at path to a section in which it has the given
// key. It does nothing if there is no scalar.
func (d *Doc) Spread(key string, path ...string) error {
	n := d.find(path)
	if n == nil || n.Kind != yaml.ScalarNode || isNull(n) {
		return nil
	}
	var old any
	if err := n.Decode(&old); err != nil {
		return &FormError{Key: strings.Join(path, "."), Line: n.Line, Reason: "it cannot be read"}
	}
	return d.change(path, map[string]any{key: old}, func() (string, *FormError) { return d.spread(n, path, key) })
}

// change replaces the text by the result of f, if that is the current content with
// value at path.
func (d *Doc) change(path []string, value any, f func() (string, *FormError)) error {
	want, err := content(d.root)
	if err == nil {
		err = put(want, path, value)
	}
	if err != nil {
		return &FormError{Key: strings.Join(path, "."), Reason: err.Error()}
	}
	if have, err := content(d.root); err == nil && reflect.DeepEqual(have, want) {
		return nil
	}
	text, bad := f()
	if bad != nil {
		bad.Key = strings.Join(path, ".")
		return bad
	}
	root, err := parse(text)
	if err == nil {
		var got map[string]any
		if got, err = content(root); err == nil && !reflect.DeepEqual(got, want) {
			err = errors.New("other keys would change with it")
		}
	}
	if err != nil {
		return &FormError{Key: strings.Join(path, "."), Line: d.near(path), Reason: "the file is written in a way that is not known here"}
	}
	d.text, d.root = text, root
	return nil
}

// near returns the line of the longest existing prefix of path, or 0.
func (d *Doc) near(path []string) int {
	for i := len(path); i > 0; i-- {
		if n := d.find(path[:i]); n != nil {
			return n.Line
		}
	}
	return 0
}

// content returns the decoded mapping.
func content(root *yaml.Node) (map[string]any, error) {
	m := make(map[string]any)
	if root == nil {
		return m, nil
	}
	if err := root.Decode(&m); err != nil {
		return nil, errors.New("the file cannot be read as it is")
	}
	return m, nil
}

// put sets the value at path in m.
func put(m map[string]any, path []string, value any) error {
	for i, name := range path[:len(path)-1] {
		switch sub := m[name].(type) {
		case map[string]any:
			m = sub
		case nil:
			next := make(map[string]any)
			m[name], m = next, next
		default:
			return fmt.Errorf("%s is no section of keys", strings.Join(path[:i+1], "."))
		}
	}
	m[path[len(path)-1]] = value
	return nil
}

// child returns the value of a key in a mapping, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// keyOf returns the key of a value in a mapping, or nil.
func keyOf(n, value *yaml.Node) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1] == value {
			return n.Content[i]
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

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
