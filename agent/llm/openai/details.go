package openai

import (
	"bytes"
	"encoding/json"

	"hermesd/agent/llm/internal/apiclient"
)

// details assembles the reasoning_details of an answer, with which OpenRouter and services
// like it send the reasoning of a model in the form that its maker requires back: texts with
// signatures, encrypted data. They are opaque: unknown members and the order are kept.
type details []*detail

// A detail is one object of the list, with its members in the order of their arrival.
type detail []member

type member struct {
	name  string
	value json.RawMessage
}

// add adds the list of one chunk. An object continues the last one if it is the next piece
// of the same text. What is not a list of objects is ignored.
func (ds *details) add(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, r := range list {
		d, ok := parseDetail(r)
		switch {
		case !ok:
		case len(*ds) > 0 && (*ds)[len(*ds)-1].continuedBy(d):
			(*ds)[len(*ds)-1].merge(d)
		default:
			*ds = append(*ds, &d)
		}
	}
}

func parseDetail(raw json.RawMessage) (detail, bool) {
	var out detail
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		m := member{name: name.(string)} // an object has no other keys
		if d.Decode(&m.value) != nil {
			return nil, false
		}
		out = append(out, m)
	}
	return out, true
}

// get returns the value of the named member; "" if there is none, or null.
func (d *detail) get(name string) string {
	for _, m := range *d {
		if m.name == name && isSet(m.value) {
			return string(m.value)
		}
	}
	return ""
}

// isText reports whether the named member is streamed in pieces.
func isText(name string) bool { return name == "text" || name == "summary" }

// continuedBy reports whether next is a piece of d: a text of the same type and number. What
// follows a signature is a new text.
func (d *detail) continuedBy(next detail) bool {
	kind := d.get("type")
	if kind != `"reasoning.text"` && kind != `"reasoning.summary"` || next.get("type") != kind || next.get("index") != d.get("index") {
		return false
	}
	if id := next.get("id"); id != "" && d.get("id") != "" && id != d.get("id") {
		return false
	}
	return d.get("signature") == "" || next.get("text") == "" && next.get("summary") == ""
}

// merge adds the members of next: pieces of texts are joined, others set what was not set.
func (d *detail) merge(next detail) {
	for _, m := range next {
		i := 0
		for i < len(*d) && (*d)[i].name != m.name {
			i++
		}
		if i == len(*d) {
			*d = append(*d, m)
			continue
		}
		var before, piece string
		old := (*d)[i].value
		switch {
		case !isSet(old):
			(*d)[i].value = m.value
		case isText(m.name) && json.Unmarshal(old, &before) == nil && json.Unmarshal(m.value, &piece) == nil:
			(*d)[i].value = apiclient.AppendString(nil, before+piece)
		}
	}
}

// rename follows the change of the ID of a call in the details that name it.
func (ds details) rename(from, to string) {
	for _, d := range ds {
		for i, m := range *d {
			var id string
			if m.name == "id" && json.Unmarshal(m.value, &id) == nil && id == from {
				(*d)[i].value = apiclient.AppendString(nil, to)
			}
		}
	}
}

// raw returns the list as JSON; nil if it is empty.
func (ds details) raw() json.RawMessage {
	if len(ds) == 0 {
		return nil
	}
	out := []byte{'['}
	for i, d := range ds {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		for j, m := range *d {
			if j > 0 {
				out = append(out, ',')
			}
			out = append(append(apiclient.AppendString(out, m.name), ':'), m.value...)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}
