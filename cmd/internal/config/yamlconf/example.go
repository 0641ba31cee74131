package yamlconf

import (
	"fmt"
	"reflect"
	"strings"
)

// Example returns head and every key of the struct to which root points, with
// its default, range and one line of explanation. Used unchanged it
// has no effect; removing the # before a key sets it.
func Example(root any, head string) []byte {
	var b strings.Builder
	b.WriteString(head)
	for _, f := range fieldsOf(reflect.TypeOf(root).Elem()) {
		b.WriteString("\n")
		example(&b, f, "")
	}
	return []byte(b.String())
}

// example writes one key and what is below it.
func example(b *strings.Builder, f *field, indent string) {
	switch f.kind {
	case section:
		fmt.Fprintf(b, "%s%s:\n", indent, f.name)
		for _, s := range f.sub {
			example(b, s, indent+"  ")
		}
	case list:
		fmt.Fprintf(b, "%s# %s Each has:\n", indent, f.doc)
		for _, s := range f.sub {
			fmt.Fprintf(b, "%s#   %s: %s\n", indent, s.name, s.explain())
		}
		fmt.Fprintf(b, "%s#%s: []\n", indent, f.name)
	case table:
		fmt.Fprintf(b, "%s# %s\n%s#%s: {}\n", indent, f.doc, indent, f.name)
	default:
		fmt.Fprintf(b, "%s# %s\n%s#%s: %s\n", indent, f.explain(), indent, f.name, f.sample())
	}
}

// explain returns the line of explanation with what may be written.
func (f *field) explain() string {
	var more []string
	if len(f.enum) > 0 {
		var choices []string
		for _, c := range f.enum {
			if c != "" {
				choices = append(choices, c)
			}
		}
		more = append(more, strings.Join(choices, " | "))
	} else if r := f.rangeWords(); r != "" && f.rng != "" {
		more = append(more, r)
	}
	for _, a := range f.aliases {
		more = append(more, "also "+a)
	}
	if len(more) == 0 {
		return f.doc
	}
	return f.doc + " (" + strings.Join(more, "; ") + ")"
}

// sample returns the default as it is written.
func (f *field) sample() string {
	switch f.kind {
	case text, secretText:
		return Quoted(f.def)
	case stringList:
		return Flow(split(f.def, ","))
	case stringMap:
		return "{}"
	case boolean:
		if f.def == "" {
			return "false"
		}
	case integer, float:
		if f.def == "" {
			return "0"
		}
	case span:
		if f.def == "" {
			return "0s"
		}
	}
	return f.def
}
