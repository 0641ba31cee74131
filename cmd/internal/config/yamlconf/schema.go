package yamlconf

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON schema of the struct to which root points. It has every
// key with its other names, but not the exceptions of Options.
func Schema(root any, title string) ([]byte, error) {
	s := object(fieldsOf(reflect.TypeOf(root).Elem()))
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = title
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(b, '\n'), nil
}

func object(fs []*field) *jsonschema.Schema {
	s := &jsonschema.Schema{Types: []string{"object", "null"}, Properties: make(map[string]*jsonschema.Schema), AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	add := func(name string, p *jsonschema.Schema) {
		s.Properties[name] = p
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	for _, f := range fs {
		add(f.name, f.schema())
		for _, a := range f.aliases {
			add(a, f.schema())
		}
		for _, a := range f.former {
			old := f.schema()
			old.Deprecated, old.Description = true, "Now "+f.name+". "+old.Description
			add(a, old)
		}
		if f.kind == secretText {
			add(f.name+fileSuffix, &jsonschema.Schema{Types: []string{"string", "null"}, Description: "Name of a file that holds " + f.name + "."})
		}
	}
	return s
}

// variableForm matches values with variables, which are unknown to the schema.
const variableForm = `\$\{`

// schema returns the schema of one key. Keys that are not strings also accept a
// string with a variable.
func (f *field) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Description: f.doc}
	switch f.kind {
	case section:
		return f.sectionSchema()
	case list:
		s.Types = []string{"array", "null"}
		s.Items = object(f.sub)
		return s
	case table:
		s.Types = []string{"object", "null"}
		if !f.anyName {
			s.PropertyNames = &jsonschema.Schema{Pattern: elementName.String()}
		}
		s.AdditionalProperties = object(f.sub)
		return s
	case stringMap:
		s.Types = []string{"object", "null"}
		s.AdditionalProperties = plainValue()
		return s
	case stringList:
		s.AnyOf = []*jsonschema.Schema{{Type: "array", Items: plainValue()}, plainValue()}
	case boolean:
		s.AnyOf = []*jsonschema.Schema{{Types: []string{"boolean", "null"}}, {Enum: []any{"yes", "no", "on", "off", "true", "false"}}, {Type: "string", Pattern: variableForm}}
	case integer, float:
		n := &jsonschema.Schema{Types: []string{"integer", "null"}}
		if f.kind == float {
			n.Types[0] = "number"
		}
		n.Minimum, n.Maximum = f.limits()
		s.AnyOf = []*jsonschema.Schema{n, {Type: "string", Pattern: variableForm}}
	case span:
		s.AnyOf = []*jsonschema.Schema{{Type: "string"}, {Types: []string{"number", "null"}, Minimum: jsonschema.Ptr(0.0)}}
		if r := f.rangeWords(); f.rng != "" {
			s.Description += " (" + r + ")"
		}
	default:
		s.AnyOf = f.textSchema()
	}
	if f.def != "" {
		if b, err := json.Marshal(f.defaultValue()); err == nil {
			s.Default = b
		}
	}
	return s
}

// textSchema returns the alternatives for a string. YAML readers turn strings that
// look like numbers or booleans into those.
func (f *field) textSchema() []*jsonschema.Schema {
	if len(f.enum) == 0 {
		return []*jsonschema.Schema{plainValue()}
	}
	choices := &jsonschema.Schema{}
	for _, e := range f.enum {
		choices.Enum = append(choices.Enum, e)
		if e == "off" {
			choices.Enum = append(choices.Enum, false)
		}
	}
	return []*jsonschema.Schema{choices, {Type: "null"}, {Type: "string", Pattern: variableForm}}
}

func (f *field) sectionSchema() *jsonschema.Schema {
	o := object(f.sub)
	if f.short == "" {
		return o
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{o, {Type: "string", Description: "As " + f.name + "." + f.short + "."}}}
}

func plainValue() *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"string", "number", "boolean", "null"}}
}

// limits returns the range of a number; nil if it is unlimited.
func (f *field) limits() (lo, hi *float64) {
	a, b := f.bounds()
	if !math.IsInf(a, 0) {
		lo = &a
	}
	if !math.IsInf(b, 0) {
		hi = &b
	}
	return lo, hi
}

func (f *field) defaultValue() any {
	switch f.kind {
	case boolean:
		return f.def == "true"
	case integer, float:
		return json.Number(f.def)
	case stringList:
		return strings.Split(f.def, ",")
	}
	return f.def
}

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
