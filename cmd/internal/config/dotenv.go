package config

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

// varName matches valid names of variables.
var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// A dotVar is one variable of a .env file.
type dotVar struct {
	name, value  string
	line, column int  // of the name
	inConfig     bool // it stands in the config file
}

// parseDotenv reads a .env file: NAME=value, one per line, with an optional
// leading `export`. Values may be in single quotes, which are literal, or in
// double quotes, with \n \r \t \" \\ and \$; both may span several lines. In
// an unquoted value a # after a space starts a comment. Variables are not
// expanded. An invalid line is a warning and is skipped; problems never contain
// the text of the line.
func parseDotenv(file string, data []byte) (vars []dotVar, problems []Problem) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	p := dotParser{file: file, text: strings.ReplaceAll(string(data), "\r\n", "\n")}
	for p.pos < len(p.text) {
		p.next()
	}
	return p.vars, p.problems
}

type dotParser struct {
	file     string
	text     string
	pos      int // in text
	line     int // lines before pos
	vars     []dotVar
	problems []Problem
}

func (p *dotParser) problem(line, column int, text string) {
	p.problems = append(p.problems, Problem{File: p.file, Line: line, Column: column, Text: text})
}

// next reads the variable that begins on the line at pos and advances to the next
// line.
func (p *dotParser) next() {
	row, _, _ := strings.Cut(p.text[p.pos:], "\n")
	start := p.pos
	line := p.line + 1
	p.skip(len(row) + 1)
	indent := len(row) - len(strings.TrimLeft(row, " \t\f\v"))
	s := row[indent:]
	if s == "" || s[0] == '#' || strings.TrimSpace(s) == "" {
		return
	}
	column := indent + 1
	if rest, ok := strings.CutPrefix(s, "export"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		trimmed := strings.TrimLeft(rest, " \t")
		column += len(s) - len(trimmed)
		s = trimmed
	}
	name, value, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	switch {
	case !utf8.ValidString(row):
		p.problem(line, column, "this line is not UTF-8 and is left out")
		return
	case !ok:
		p.problem(line, column, "this line is not NAME=value and is left out")
		return
	case !varName.MatchString(name):
		p.problem(line, column, "what stands ahead of = is not the name of a variable; the line is left out")
		return
	}
	lead := strings.TrimLeft(value, " \t")
	v := dotVar{name: name, line: line, column: column}
	if lead != "" && (lead[0] == '"' || lead[0] == '\'') {
		at := start + len(row) - len(lead)
		v.value, ok = p.quoted(at, line)
		if !ok {
			p.problem(line, len(row)-len(lead)+1, "the quote is not closed; the line is left out")
			return
		}
	} else {
		v.value = unquoted(value)
	}
	p.vars = append(p.vars, v)
}

// skip advances by n bytes and counts the lines.
func (p *dotParser) skip(n int) {
	end := min(p.pos+n, len(p.text))
	p.line += strings.Count(p.text[p.pos:end], "\n")
	p.pos = end
}

func unquoted(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// quoted reads the quoted value at an index of text and advances past the line on
// which it ends. If it does not end, ok is false and the position is unchanged.
func (p *dotParser) quoted(at, line int) (v string, ok bool) {
	quote := p.text[at]
	var b strings.Builder
	for i := at + 1; i < len(p.text); i++ {
		c := p.text[i]
		switch {
		case c == quote:
			eol := len(p.text)
			if n := strings.IndexByte(p.text[i:], '\n'); n >= 0 {
				eol = i + n
			}
			if rest := strings.TrimSpace(p.text[i+1 : eol]); rest != "" && rest[0] != '#' {
				p.problem(line, 1, "what stands behind the closing quote is left out")
			}
			p.skip(eol + 1 - p.pos)
			return b.String(), true
		case quote == '"' && c == '\\' && i+1 < len(p.text):
			i++
			b.WriteString(unescape(p.text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// unescape returns the meaning of a backslash followed by c in double quotes.
func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$', '\'':
		return string(rune(c))
	}
	return string([]byte{'\\', c})
}
