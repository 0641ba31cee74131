package yamlconf

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/secret"
)

type kind int

// The kinds of key.
const (
	text       kind = iota // string
	boolean                // bool
	integer                // int, int64
	float                  // float64
	span                   // time.Duration
	secretText             // secret.Value
	stringList             // []string
	stringMap              // map[string]string
	section                // a struct
	list                   // a list of structs
	table                  // structs by name
)

// A field is one key of the configuration, described by the tags of a struct field:
//
//	yaml     its name; ",inline" for a struct whose keys are in the parent section
//	default  its default value
//	range    minimum..maximum, both optional
//	enum     the valid values, separated by |; those of the method Choices of its type follow
//	doc      one line of explanation
//	alias    other names, separated by |
//	deprecated  former names, separated by |; they work, with a warning
//	replaced  former values and what they mean now: a=1;b=2; they work, with a warning
//	short    of a section: the key that a plain value in place of the section sets
//	names    of a table: "any" if its elements may have any name
//	env      the variables that set the key, separated by |
//	prefix   of a section: begins the variables of its keys
//	paths    "true": in one value its elements are separated as in PATH, not by commas
//	own      "true": accounts do not inherit the value from their platform
//	on       the sections below which the key exists, separated by |; "": all
type field struct {
	name     string
	path     string // with those of its sections; elements of lists and tables have their own
	index    []int  // in the struct of its section
	kind     kind
	def      string
	rng      string
	doc      string
	enum     []string
	aliases  []string
	former   []string          // deprecated names
	replaced map[string]string // deprecated values, with those to use instead
	env      []string
	prefix   string // of the variables of the section
	short    string
	anyName  bool   // elements of the table may have any name
	sep      string // between the elements of a list in one value
	own      bool
	sub      []*field // of a section, or of one element of a list or table
}

// described has the keys of the structs that were described, by type.
var described sync.Map

// fieldsOf returns the keys of a struct, which must not be changed.
func fieldsOf(t reflect.Type) []*field {
	if fs, ok := described.Load(t); ok {
		return fs.([]*field)
	}
	fs := describe(t, "")
	described.Store(t, fs)
	return fs
}

// describe returns the keys of a struct in order. It panics on an unsupported type,
// a programming error that every test of a configuration reveals.
func describe(t reflect.Type, path string) (fs []*field) {
	for i := range t.NumField() {
		sf := t.Field(i)
		name, opts, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if name == "-" || !sf.IsExported() {
			continue
		}
		if opts == "inline" {
			for _, f := range describe(sf.Type, path) {
				f.index = append([]int{i}, f.index...)
				fs = append(fs, f)
			}
			continue
		}
		if name == "" || !below(path, split(sf.Tag.Get("on"), "|")) {
			continue
		}
		f := &field{
			name: name, path: join(path, name), index: []int{i}, kind: kindOf(sf.Type),
			def: sf.Tag.Get("default"), rng: sf.Tag.Get("range"), doc: sf.Tag.Get("doc"),
			aliases: split(sf.Tag.Get("alias"), "|"), former: split(sf.Tag.Get("deprecated"), "|"), replaced: settings(sf.Tag.Get("replaced")),
			short: sf.Tag.Get("short"), own: sf.Tag.Get("own") == "true", anyName: sf.Tag.Get("names") == "any", sep: ",", env: split(sf.Tag.Get("env"), "|"), prefix: sf.Tag.Get("prefix"),
		}
		if sf.Tag.Get("paths") == "true" {
			f.sep = string(os.PathListSeparator)
		}
		if e, ok := sf.Tag.Lookup("enum"); ok {
			f.enum = strings.Split(e, "|")
			if c, ok := reflect.Zero(sf.Type).Interface().(interface{ Choices() []string }); ok {
				f.enum = append(f.enum, c.Choices()...)
			}
		}
		switch f.kind {
		case section:
			f.sub = describe(sf.Type, f.path)
		case list:
			f.sub = describe(sf.Type.Elem(), f.path+"[]")
		case table:
			f.sub = describe(sf.Type.Elem(), f.path+".*")
		}
		fs = append(fs, f)
	}
	return fs
}

// below reports whether path contains one of sections, or sections is empty.
func below(path string, sections []string) bool {
	return len(sections) == 0 || slices.ContainsFunc(strings.Split(path, "."), func(part string) bool {
		return slices.Contains(sections, part)
	})
}

func settings(tag string) map[string]string {
	m := make(map[string]string)
	for _, s := range split(tag, ";") {
		k, v, _ := strings.Cut(s, "=")
		m[k] = v
	}
	return m
}

func kindOf(t reflect.Type) kind {
	switch {
	case t == reflect.TypeFor[secret.Value]():
		return secretText
	case t == reflect.TypeFor[time.Duration]():
		return span
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int64:
		return integer
	case reflect.Float64:
		return float
	case reflect.Struct:
		return section
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.String:
			return stringList
		case reflect.Struct:
			return list
		}
	case reflect.Map:
		switch t.Elem().Kind() {
		case reflect.String:
			return stringMap
		case reflect.Struct:
			return table
		}
	}
	panic(fmt.Sprintf("config: a key cannot be a %v", t))
}

// leaf reports whether f has a value and not further keys.
func (f *field) leaf() bool { return f.kind < section }

// find returns the key called name among fs, by its name, an alias or a former
// name.
func find(fs []*field, name string) *field {
	for _, f := range fs {
		if f.name == name || slices.Contains(f.aliases, name) || slices.Contains(f.former, name) {
			return f
		}
	}
	return nil
}

// names returns the names and aliases of fs, without former names.
func names(fs []*field) (ns []string) {
	for _, f := range fs {
		ns = append(append(ns, f.name), f.aliases...)
	}
	return ns
}

// leaves returns the paths of all keys with values below fs.
func leaves(fs []*field) (paths []string) {
	for _, f := range fs {
		if f.leaf() {
			paths = append(paths, f.path)
			continue
		}
		paths = append(paths, leaves(f.sub)...)
	}
	return paths
}

// A Variable is a variable of the environment that sets a key.
type Variable struct {
	Name, Path string
	Secret     bool
}

// Variables returns the variables of the keys of the struct to which root points, sorted.
func Variables(root any) []Variable {
	vs := variables(fieldsOf(reflect.TypeOf(root).Elem()), "")
	slices.SortFunc(vs, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return vs
}

func variables(fs []*field, prefix string) (vs []Variable) {
	for _, f := range fs {
		for _, name := range f.env {
			vs = append(vs, Variable{prefix + name, f.path, f.kind == secretText})
		}
		if f.kind == section {
			vs = append(vs, variables(f.sub, prefix+f.prefix)...)
		}
	}
	return vs
}

// walk calls do for every value in v with its path as used in Origins: elements of
// lists and tables appear with their index or name.
func walk(fs []*field, v reflect.Value, path string, do func(f *field, v reflect.Value, path string)) {
	for _, f := range fs {
		fv, p := v.FieldByIndex(f.index), join(path, f.name)
		switch f.kind {
		case section:
			walk(f.sub, fv, p, do)
		case list:
			for i := range fv.Len() {
				walk(f.sub, fv.Index(i), fmt.Sprintf("%s[%d]", p, i), do)
			}
		case table:
			for _, k := range sortedKeys(fv) {
				walk(f.sub, fv.MapIndex(reflect.ValueOf(k)), join(p, k), do)
			}
		default:
			do(f, fv, p)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// split is strings.Split without empty parts and spaces around them.
func split(s, sep string) (parts []string) {
	for p := range strings.SplitSeq(s, sep) {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}
