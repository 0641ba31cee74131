package config

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

// varName is what a variable may be called.
var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// A dotVar is one variable of a .env file.
type dotVar struct {
	name, value  string
	line, column int // of the name
}

// parseDotenv reads a .env file: NAME=value, one per line, with an optional
// `export` ahead. Values may stand in single quotes, taken as they are, or in
// double quotes, with \n \r \t \" \\ and \$; both may go over several lines. In
// a value without quotes a # after a space begins a comment. Nothing is
// expanded: a $ is a $. A line that cannot be read is a warning and is left
// out; problems never show what the line holds.
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

// next reads what begins on the line at pos, and moves to the line after it.
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

// skip moves n bytes on and counts the lines.
func (p *dotParser) skip(n int) {
	end := min(p.pos+n, len(p.text))
	p.line += strings.Count(p.text[p.pos:end], "\n")
	p.pos = end
}

// unquoted cuts the comment off a value.
func unquoted(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// quoted reads the value in quotes at an index of text, and moves behind the
// line on which it ends. ok is false if it does not end; then nothing moves.
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

// unescape returns what a backslash and c stand for in double quotes.
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
