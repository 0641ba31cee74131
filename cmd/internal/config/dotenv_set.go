package config

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Variable is the name and the value of a variable in a .env file.
type Variable struct{ Name, Value string }

// SetDotenv returns the text of a .env file with variables set in the form that
// Load reads. For an existing name the last line, which is the effective one, is
// replaced; new names are appended. All other lines are unchanged. It is an error
// if an unclosed quote would absorb an appended line. Errors contain no values.
func SetDotenv(data []byte, vars ...Variable) ([]byte, error) {
	bom := []byte("\xef\xbb\xbf")
	marked := bytes.HasPrefix(data, bom)
	text := string(bytes.TrimPrefix(data, bom))
	windows := strings.Contains(text, "\r\n") && strings.Count(text, "\r\n") == strings.Count(text, "\n")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, v := range vars {
		quoted, err := dotQuote(v)
		if err != nil {
			return nil, err
		}
		now := setLine(text, v.Name, v.Name+"="+quoted+"\n")
		if !sets(text, now, v) {
			return nil, fmt.Errorf("%s cannot be added: a quote is not closed in a line above; close it first", v.Name)
		}
		text = now
	}
	if windows {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if marked {
		text = string(bom) + text
	}
	return []byte(text), nil
}

// setLine replaces the last line that sets name, or appends line.
func setLine(text, name, line string) string {
	p := dotParser{text: text}
	from, to := -1, 0
	for p.pos < len(text) {
		start, known := p.pos, len(p.vars)
		p.next()
		if len(p.vars) > known && p.vars[known].name == name {
			from, to = start, p.pos
		}
	}
	switch {
	case from >= 0:
		return text[:from] + line + text[to:]
	case text != "" && !strings.HasSuffix(text, "\n"):
		text += "\n"
	}
	return text + line
}

// sets reports whether after equals before with v set and nothing else changed.
func sets(before, after string, v Variable) bool {
	want := ReadDotenv([]byte(before))
	want[v.Name] = v.Value
	return maps.Equal(want, ReadDotenv([]byte(after)))
}

// ReadDotenv returns the variables that the text of a .env file sets.
func ReadDotenv(data []byte) map[string]string {
	vars, _ := parseDotenv("", data)
	m := make(map[string]string)
	for _, v := range vars {
		m[v.name] = v.value
	}
	return m
}

// plainValue matches values that need no quotes, neither here nor in a shell.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// dotQuote quotes a value so that it is read back unchanged. It prefers single
// quotes, in which no program expands anything.
func dotQuote(v Variable) (string, error) {
	switch {
	case !varName.MatchString(v.Name):
		return "", fmt.Errorf("%q cannot be the name of a variable", v.Name)
	case !utf8.ValidString(v.Value):
		return "", fmt.Errorf("%s: the value is not UTF-8", v.Name)
	case strings.ContainsRune(v.Value, 0):
		return "", fmt.Errorf("%s: the value contains a null character", v.Name)
	case v.Value == "" || plainValue.MatchString(v.Value):
		return v.Value, nil
	case !strings.ContainsAny(v.Value, "'\\\r\n"):
		return "'" + v.Value + "'", nil
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	return `"` + escape.Replace(v.Value) + `"`, nil
}
