package files

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A glob matches file names, or paths if it contains a slash.
type glob struct {
	re           *regexp.Regexp
	matchesPaths bool
}

// compile parses a glob: * and ? do not match slashes, ** does, [a-z] and [!a-z] match one
// character, {a,b} matches one of several patterns.
func compile(pattern string) (*glob, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	var b strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			end := strings.IndexByte(pattern[i+1:], ']')
			if end <= 0 {
				return nil, fmt.Errorf("the glob %q has a bracket that is not closed", pattern)
			}
			b.WriteString(class(pattern[i+1 : i+1+end]))
			i += end + 1
		case c == '{':
			depth++
			b.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case c == ',' && depth > 0:
			b.WriteString(`|`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("the glob %q has a brace that is not closed", pattern)
	}
	re, err := regexp.Compile(`(?s)^(?:` + b.String() + `)$`)
	if err != nil {
		return nil, fmt.Errorf("the glob %q cannot be read", pattern)
	}
	return &glob{re, strings.Contains(pattern, "/")}, nil
}

func class(s string) string {
	not := ""
	if s[0] == '!' || s[0] == '^' {
		not, s = "^", s[1:]
	}
	return "[" + not + strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(s) + "]"
}

// match reports whether g matches the file at p.
func (g *glob) match(p string) bool {
	if !g.matchesPaths {
		p = path.Base(p)
	}
	return g.re.MatchString(p)
}
