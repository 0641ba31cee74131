package skills

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"hermesd/agent/skills/internal/frontmatter"
)

// A header is the parsed front matter of a SKILL.md.
type header struct {
	Name        string   `json:"name"`
	Description string   `json:"desc,omitempty"`
	Platforms   []string `json:"os,omitempty"`
	Toolsets    []string `json:"toolsets,omitempty"` // required toolsets
	Tools       []string `json:"tools,omitempty"`
	NoToolsets  []string `json:"no_toolsets,omitempty"` // toolsets that the skill replaces
	NoTools     []string `json:"no_tools,omitempty"`
}

// parse parses the front matter of a SKILL.md in folder, or of its beginning,
// and returns its problems. The returned header always has a name.
func parse(folder string, text []byte) (header, []string) {
	h := header{Name: defaultName(folder)}
	var problems []string
	if !utf8.Valid(text) {
		if len(text) < maxHeader { // otherwise it may be cut inside a character
			problems = append(problems, "it is not valid UTF-8")
		}
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	matter, _, ok := frontmatter.Split(text)
	if !ok {
		what := "it does not begin with a front matter between two lines ---"
		if len(text) >= maxHeader {
			what = fmt.Sprintf("its front matter does not end within %d KiB", maxHeader>>10)
		}
		return h, append(problems, what)
	}
	fields, err := frontmatter.Mapping(matter)
	if err != nil {
		problems = append(problems, err.Error())
		fields = frontmatter.Plain(matter)
	}
	return h, append(problems, h.setFields(folder, fields)...)
}

// setFields sets the header from fields.
func (h *header) setFields(folder string, fields map[string]any) (problems []string) {
	if name, _ := fields["name"].(string); validName.MatchString(name) {
		if name != h.Name {
			problems = append(problems, fmt.Sprintf("it calls itself %s, but its folder is %s", name, path.Base(folder)))
		}
		h.Name = name
	} else {
		problems = append(problems, "it has no valid name (small letters, digits, dot, dash, underscore; 64 at most); that of its folder is used")
	}
	d, _ := fields["description"].(string)
	h.Description = strings.Join(strings.Fields(d), " ")
	switch n := utf8.RuneCountInString(h.Description); {
	case n == 0:
		problems = append(problems, "it has no description, so the model does not know when to use it")
	case n > maxDescription:
		problems = append(problems, fmt.Sprintf("its description has %d characters; the most is %d", n, maxDescription))
		h.Description = string([]rune(h.Description)[:maxDescription])
	}
	h.Platforms = stringList(fields["platforms"])
	places := []map[string]any{fields}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		places = append(places, meta)
		if own, ok := meta["hermes"].(map[string]any); ok {
			places = append(places, own)
		}
	}
	for _, p := range places {
		h.Toolsets = append(h.Toolsets, stringList(p["requires_toolsets"])...)
		h.Tools = append(h.Tools, stringList(p["requires_tools"])...)
		h.NoToolsets = append(h.NoToolsets, stringList(p["fallback_for_toolsets"])...)
		h.NoTools = append(h.NoTools, stringList(p["fallback_for_tools"])...)
	}
	return problems
}

// defaultName returns the name of a skill derived from its directory.
func defaultName(folder string) string {
	name := strings.Join(strings.Fields(strings.ToValidUTF8(path.Base(folder), "")), "-")
	if r := []rune(name); len(r) > maxName {
		name = string(r[:maxName])
	}
	if name == "" || name == "." {
		return "skill"
	}
	return name
}

// stringList returns the strings of a value that is a string or a list of
// strings, in lower case.
func stringList(v any) []string {
	switch v := v.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" && v != "null" && v != "~" {
			return []string{strings.ToLower(v)}
		}
	case []any:
		var out []string
		for _, x := range v {
			if s, ok := x.(string); ok && strings.TrimSpace(s) != "" {
				out = append(out, strings.ToLower(strings.TrimSpace(s)))
			}
		}
		return out
	}
	return nil
}
