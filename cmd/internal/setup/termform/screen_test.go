package termform_test

import (
	"strings"
	"unicode/utf8"
)

// A screen interprets output as a plain terminal does. It supports the cursor
// movements and erasures of a VT220, and nothing else.
type screen struct {
	rows     [][]rune
	row, col int
	insert   bool   // characters shift the rest of the line to the right
	rest     []byte // incomplete sequence
}

const columns, rows = 100, 40

// Write interprets b.
func (s *screen) Write(b []byte) {
	b = append(s.rest, b...)
	for len(b) > 0 {
		n := s.step(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	s.rest = b
}

// step interprets the beginning of b and returns its length, or 0 if it is
// incomplete.
func (s *screen) step(b []byte) int {
	switch c := b[0]; {
	case c == '\r':
		s.col = 0
	case c == '\n':
		s.row++
	case c == '\b':
		s.col = max(0, min(s.col, columns-1)-1)
	case c == '\t':
		s.col = min(columns-1, s.col/8*8+8)
	case c == 0x1b:
		return s.escape(b)
	case c >= ' ':
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		s.put(r)
		return n
	}
	return 1
}

// put writes one character. After the last column, only the next character moves to
// the next row.
func (s *screen) put(r rune) {
	if s.col == columns {
		s.row, s.col = s.row+1, 0
	}
	s.reach()
	if line := s.rows[s.row]; s.insert {
		copy(line[s.col+1:], line[s.col:])
	}
	s.rows[s.row][s.col] = r
	s.col++
}

// reach adds rows down to the cursor.
func (s *screen) reach() {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, []rune(strings.Repeat(" ", columns)))
	}
}

// escape interprets a CSI sequence.
func (s *screen) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		if b[1] == 'M' {
			s.row = max(0, s.row-1)
		}
		return 2
	}
	end := 2
	for end < len(b) && (b[end] < '@' || b[end] > '~') {
		end++
	}
	if end == len(b) {
		return 0
	}
	n := 0
	for _, c := range b[2:end] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	if b[end] >= 'A' && b[end] <= 'K' {
		s.col = min(s.col, columns-1)
	}
	switch b[end] {
	case 'A':
		s.row = max(0, s.row-max(n, 1))
	case 'B':
		s.row += max(n, 1)
	case 'C':
		s.col = min(columns-1, s.col+max(n, 1))
	case 'D':
		s.col = max(0, s.col-max(n, 1))
	case 'Z':
		s.col = max(0, (s.col-1)/8*8)
	case 'h', 'l':
		s.insert = n == 4 && b[end] == 'h'
	case 'J', 'K':
		s.reach()
		copy(s.rows[s.row][s.col:], []rune(strings.Repeat(" ", columns)))
		if b[end] == 'J' {
			s.rows = s.rows[:s.row+1]
		}
	}
	return end + 1
}

// String returns the last lines that fit, without trailing blanks.
func (s *screen) String() string {
	var lines []string
	for _, r := range s.rows[max(0, len(s.rows)-rows):] {
		lines = append(lines, strings.TrimRight(string(r), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}
