// Package yamlconf decodes YAML, variables and strings into a struct according to
// the tags of its fields, and reports all problems at once with their positions. It
// also derives the JSON schema and the commented example from the tags. The main
// type is [Loader]; the tags are described at type field.
//
// The meaning of the keys is not known here.
package yamlconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Source is the kind of origin of a value.
type Source string

// The sources. Up to FromFlag, later ones override earlier ones.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromDotenv  Source = ".env"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
	FromToken   Source = "token"    // a token that is set switches its platform on
	FromParent  Source = "platform" // an account inherits it from its platform
)

// An Origin is where a value was set. The zero value is the default.
type Origin struct {
	Kind   Source `json:"kind"`
	Name   string `json:"name,omitempty"` // of the file, variable or flag
	File   string `json:"file,omitempty"` // the .env file of a variable
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (o Origin) String() string {
	switch o.Kind {
	case "":
		return string(FromDefault)
	case FromFile:
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
	case FromDefault, FromToken, FromParent:
		return string(o.Kind)
	}
	return string(o.Kind) + " " + o.Name
}

// Options configure a Loader.
type Options struct {
	File      string                      // name of the config file in problems
	LookupEnv func(string) (string, bool) // resolves ${NAME}
	Path      func(string) string         // makes a file name absolute
	// Moved maps paths of keys in the wrong section to the right ones.
	Moved map[string]string
	// Nested is the name of a mapping in a section that may hold keys of the section;
	// "" if there is none.
	Nested string
	// Foreign reports keys of another program that this one lacks, with advice about
	// the key. They are warnings, one for each section.
	Foreign func(path string) (advice string, ok bool)
	// Strict reports whether an unknown key at path is a problem whatever its name
	// is. Elsewhere it is one only if it is similar to a key of its section, else a
	// warning.
	Strict func(path string) bool
	// Rewrite, if not nil, returns the node to decode in place of n at path: other
	// programs write some values in another form. It must not change n.
	Rewrite func(path string, n *yaml.Node) *yaml.Node
}

// A Loader fills one struct, once. It is not safe for concurrent use.
type Loader struct {
	// Origins has the origin of each value by path; values with their default are
	// missing.
	Origins  map[string]Origin
	Problems []Problem
	Warnings []Problem
	// SecretFiles are the files from which secrets were read.
	SecretFiles []string

	o       Options
	fields  []*field
	root    reflect.Value
	bad     map[string]bool       // paths that have a problem
	given   map[string]*yaml.Node // nodes that were decoded, by path
	foreign []foreignKey
	visits  int // number of entries visited
}

// New returns a Loader for the struct to which root points, and sets the defaults
// in it.
func New(root any, o Options) *Loader {
	v := reflect.ValueOf(root).Elem()
	l := &Loader{Origins: make(map[string]Origin), o: o, fields: fieldsOf(v.Type()), root: v, bad: make(map[string]bool), given: make(map[string]*yaml.Node)}
	l.defaults(l.fields, v)
	return l
}

// Decode applies the content of the config file.
func (l *Loader) Decode(data []byte) {
	n, problems := parseYAML(l.o.File, data)
	l.Problems = append(l.Problems, problems...)
	if n != nil && !isNull(n) {
		l.section(l.rewrite("", n), l.fields, l.root, "")
	}
	l.warnForeign()
}

// Set parses s and sets the key at path, which must not be in a list or table. A
// problem is reported at the position where.
func (l *Loader) Set(path, s string, from Origin, where Problem) {
	fs, v := l.fields, l.root
	var f *field
	for _, name := range split(path, ".") {
		if f = find(fs, name); f == nil {
			where.Text = "unknown key; " + hint(name, names(fs), leaves(l.fields))
			l.Problems = append(l.Problems, where)
			return
		}
		v, fs = v.FieldByIndex(f.index), f.sub
	}
	if f == nil {
		return
	}
	delete(l.bad, f.path)
	if now, ok := f.replaced[s]; ok {
		warning := where
		warning.Text = fmt.Sprintf(formerValue, s, now)
		l.Warnings = append(l.Warnings, warning)
		s = now
	}
	if err := setText(f, v, s); err != nil {
		where.Text = err.Error()
		l.Problems = append(l.Problems, where)
		l.bad[f.path] = true
	}
	l.Origins[f.path] = from
}

// TakeOver copies to an element of the table at path the values that it does not
// set itself and may inherit from the section around the table.
func (l *Loader) TakeOver(path, name string, element, around any) {
	fs := l.fields
	for part := range strings.SplitSeq(path, ".") {
		fs = find(fs, part).sub
	}
	l.takeOver(fs, reflect.ValueOf(element).Elem(), reflect.ValueOf(around), join(path, name))
}

func (l *Loader) takeOver(fs []*field, to, from reflect.Value, path string) {
	for _, f := range fs {
		p := join(path, f.name)
		if f.kind == section {
			l.takeOver(f.sub, to.FieldByIndex(f.index), from.FieldByIndex(f.index), p)
			continue
		}
		if _, said := l.Origins[p]; said || f.own {
			continue
		}
		to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		l.Origins[p] = Origin{Kind: FromParent}
	}
}

// Walk calls do for every value in the struct to which root points, in the
// order of its fields.
func Walk(root any, do func(path string, v any)) {
	v := reflect.ValueOf(root).Elem()
	walk(fieldsOf(v.Type()), v, "", func(_ *field, v reflect.Value, path string) { do(path, v.Interface()) })
}

// ProblemAt reports a problem with the key at path, at the position where it was
// set. Further problems with the same key are ignored.
func (l *Loader) ProblemAt(path, format string, args ...any) {
	if l.bad[path] {
		return
	}
	l.bad[path] = true
	l.Problems = append(l.Problems, l.place(path, fmt.Sprintf(format, args...)))
}

// WarnAt reports a warning about the key at path.
func (l *Loader) WarnAt(path, format string, args ...any) {
	l.Warnings = append(l.Warnings, l.place(path, fmt.Sprintf(format, args...)))
}

// Element returns the path of an element of a list if it has its own position in the
// file, else the path of the list.
func (l *Loader) Element(path string, i int) string {
	if p := fmt.Sprintf("%s[%d]", path, i); l.Origins[path].Kind == FromFile && l.Origins[p].Kind == FromFile {
		return p
	}
	return path
}

// BadBelow reports whether there is a problem at path or below it.
func (l *Loader) BadBelow(path string) bool {
	for p := range l.bad {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

// place returns a problem at the position where the key at path was set or, if it
// was not set, at the position of the nearest enclosing section.
func (l *Loader) place(path, msg string) Problem {
	p := Problem{Key: path, Text: msg}
	switch o := l.Origins[path]; o.Kind {
	case FromFile:
		p.File, p.Line, p.Column = o.Name, o.Line, o.Column
	case FromDotenv:
		p.File, p.Line, p.Column = o.File, o.Line, o.Column
		p.Key = o.Name
	case FromEnv:
		p.File, p.Key = "environment", o.Name
	case FromFlag:
		p.File = "flag"
	default:
		if o, ok := l.around(path); ok {
			p.File, p.Line, p.Column = o.Name, o.Line, o.Column
		}
	}
	return p
}

// around returns the first position in the file at which something was set at path,
// in the same section, or in the nearest enclosing section.
func (l *Loader) around(path string) (at Origin, ok bool) {
	for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		for p, o := range l.Origins {
			if o.Kind == FromFile && (p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[")) &&
				(!ok || o.Line < at.Line || o.Line == at.Line && o.Column < at.Column) {
				at, ok = o, true
			}
		}
		if ok {
			return at, true
		}
	}
	return Origin{}, false
}

// Validate calls the Validate methods of sections that have one and no problems
// yet.
func (l *Loader) Validate() { l.validate(l.fields, l.root, "") }

func (l *Loader) validate(fs []*field, v reflect.Value, path string) {
	for _, f := range fs {
		if f.kind != section {
			continue
		}
		fv, p := v.FieldByIndex(f.index), join(path, f.name)
		l.validate(f.sub, fv, p)
		c, ok := fv.Interface().(interface{ Validate() error })
		if !ok || l.BadBelow(p) {
			continue
		}
		for _, err := range flatten(c.Validate()) {
			key, msg := p, err.Error()
			if first, rest, ok := strings.Cut(msg, ":"); ok && find(f.sub, first) != nil {
				key, msg = join(p, first), strings.TrimSpace(rest)
			}
			l.ProblemAt(key, "%s", msg)
		}
	}
}

// flatten returns the errors that were joined into err.
func flatten(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return []error{err}
}

// elementName matches valid names of table elements.
var elementName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// defaults sets every key below fs to its default.
func (l *Loader) defaults(fs []*field, v reflect.Value) {
	for _, f := range fs {
		fv := v.FieldByIndex(f.index)
		switch {
		case f.kind == section:
			l.defaults(f.sub, fv)
		case f.leaf() && f.def != "":
			if err := setText(f, fv, f.def); err != nil {
				panic(fmt.Sprintf("keys: the default of %s: %v", f.path, err))
			}
		}
	}
}

func (l *Loader) problem(n *yaml.Node, path, format string, args ...any) {
	l.bad[path] = true
	l.Problems = append(l.Problems, Problem{File: l.o.File, Line: max(1, n.Line), Column: max(1, n.Column), Key: path, Text: fmt.Sprintf(format, args...)})
}

// WarnNode reports a warning about the key at path, at the position of n.
func (l *Loader) WarnNode(n *yaml.Node, path, format string, args ...any) {
	l.warn(n, path, format, args...)
}

func (l *Loader) warn(n *yaml.Node, path, format string, args ...any) {
	l.Warnings = append(l.Warnings, Problem{File: l.o.File, Line: max(1, n.Line), Column: max(1, n.Column), Key: path, Text: fmt.Sprintf(format, args...)})
}

// ReadFile reads a regular file of at most limit bytes. Its errors do not contain
// the path.
func ReadFile(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return data, nil
}

// cause returns an error of the file system without operation and path.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Readable reports whether users other than the owner can read a file.
func Readable(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o044 != 0
}
