// Package settings reads JSON objects whose values have loose types: the files in which
// upstream's Python programs keep the settings of memory providers, and what a model
// passes to a tool. A value that has another type than the one asked for counts as
// missing.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// An Object is a JSON object. It is not safe for concurrent use.
type Object struct {
	name   string
	values map[string]json.RawMessage
	asked  map[string]bool
}

// ReadFile returns the content of a file: that of planned, by path, if it is there.
func ReadFile(planned map[string][]byte, path string) ([]byte, error) {
	if data, ok := planned[path]; ok {
		return data, nil
	}
	return os.ReadFile(path)
}

// Read reads a file like ReadFile. One that does not exist is an object without keys, and
// found is false.
func Read(planned map[string][]byte, path string) (o *Object, found bool, err error) {
	data, err := ReadFile(planned, path)
	if errors.Is(err, fs.ErrNotExist) {
		o, err = Parse(path, []byte("{}"))
		return o, false, err
	}
	if err != nil {
		return nil, false, err
	}
	o, err = Parse(path, data)
	return o, true, err
}

// Parse decodes an object. name says where it comes from, for errors and warnings.
func Parse(name string, data []byte) (*Object, error) {
	o := &Object{name: name, asked: make(map[string]bool)}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &o.values); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", name, err)
	}
	return o, nil
}

// Raw returns the value of a key; nil if it is missing or null.
func (o *Object) Raw(key string) json.RawMessage {
	o.asked[key] = true
	if v := o.values[key]; string(v) != "null" {
		return v
	}
	return nil
}

// Text returns the first value of keys that is not empty, without white space around
// it. Numbers and booleans are returned as they are written.
func (o *Object) Text(keys ...string) string {
	found := ""
	for _, key := range keys {
		text := scalar(o.Raw(key)) // all keys count as asked for
		if found == "" {
			found = text
		}
	}
	return found
}

func scalar(v json.RawMessage) string {
	if len(v) == 0 || v[0] == '{' || v[0] == '[' {
		return ""
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		text = string(v)
	}
	return strings.TrimSpace(text)
}

// Bool returns a boolean: true, "true", "yes", "y", "on" and numbers other than 0 are true.
func (o *Object) Bool(key string, standard bool) bool {
	switch text := strings.ToLower(o.Text(key)); text {
	case "":
		return standard
	case "true", "yes", "y", "on":
		return true
	default:
		n, err := strconv.ParseFloat(text, 64)
		return err == nil && n != 0
	}
}

// Int returns a number; fractions are cut.
func (o *Object) Int(key string, standard int) int {
	n, err := strconv.ParseFloat(o.Text(key), 64)
	if err != nil || n < -1e9 || n > 1e9 || n != n {
		return standard
	}
	return int(n)
}

// Number returns a number, made to lie between low and high.
func (o *Object) Number(key string, standard, low, high float64) float64 {
	n, err := strconv.ParseFloat(o.Text(key), 64)
	if err != nil || math.IsNaN(n) {
		n = standard
	}
	return min(max(n, low), high)
}

// List returns a list of texts, each once: a JSON array, also one inside a string, or a
// string with commas.
func (o *Object) List(key string) []string { return List(o.Raw(key)) }

// List is Object.List for a value.
func List(v json.RawMessage) []string {
	var parts []json.RawMessage
	if text := scalar(v); strings.HasPrefix(text, "[") {
		v = json.RawMessage(text)
	}
	var out []string
	if json.Unmarshal(v, &parts) == nil {
		for _, p := range parts {
			out = append(out, scalar(p))
		}
	} else {
		out = strings.Split(scalar(v), ",")
	}
	var unique []string
	for _, s := range out {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(unique, s) {
			unique = append(unique, s)
		}
	}
	return unique
}

// Skip makes keys known that are not read.
func (o *Object) Skip(keys ...string) {
	for _, key := range keys {
		o.asked[key] = true
	}
}

// Unknown returns a warning for each key that nobody has asked for.
func (o *Object) Unknown() []string {
	var out []string
	for key := range o.values {
		if !o.asked[key] {
			out = append(out, fmt.Sprintf("%s: the key %q is unknown and has no effect", o.name, key))
		}
	}
	slices.Sort(out)
	return out
}
