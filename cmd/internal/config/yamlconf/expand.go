package yamlconf

import (
	"fmt"
	"regexp"
	"strings"
)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} by the variable, ${NAME:-text} by the variable or, if
// that is unset or empty, by text, and $$ by $. Any other $ is literal.
// Values of variables are not expanded again. Errors contain names of variables,
// never their values.
func expand(s string, look func(string) (string, bool)) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			s = s[i+2:]
			continue
		case '{':
		default:
			b.WriteByte('$')
			s = s[i+1:]
			continue
		}
		body, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", fmt.Errorf("${ has no closing brace; write $${ for the characters themselves")
		}
		v, err := variable(body, look)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		s = rest
	}
}

// variable returns the value for the text inside ${…}.
func variable(body string, look func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !varName.MatchString(name) {
		return "", fmt.Errorf("${…} needs the name of a variable, or NAME:-default; write $${ for the characters themselves")
	}
	v, ok := look(name)
	switch {
	case ok && (v != "" || !hasFallback):
		return v, nil
	case hasFallback:
		return fallback, nil
	}
	return "", fmt.Errorf("the variable %s is not set; set it in the environment or in .env, or write ${%s:-default}", name, name)
}
