package demo

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	asksForSum = regexp.MustCompile(`(?i)^\W*(?:what(?:'s| is)|how much is|calculate|compute|please calculate)?\s*([0-9(][0-9+\-*/()., ]*[0-9)])\s*[=?.! ]*(?:\[\[.*|#.*)?$`)
	operator   = regexp.MustCompile(`[0-9) ][+\-*/]`)
)

// arithmetic returns the value of the expression that text asks for, if it is one.
func arithmetic(text string) (string, bool) {
	m := asksForSum.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || !operator.MatchString(m[1]) || len(m[1]) > 200 {
		return "", false
	}
	s := expression{s: strings.ReplaceAll(m[1], " ", "")}
	v := s.add(0)
	if s.invalid || s.i != len(s.s) {
		return "", false
	}
	return strconv.FormatFloat(v, 'g', 12, 64), true
}

// An expression is evaluated while it is parsed.
type expression struct {
	s       string
	i       int
	invalid bool // the expression is malformed
}

func (s *expression) next(ops string) byte {
	if s.i < len(s.s) && strings.IndexByte(ops, s.s[s.i]) >= 0 {
		s.i++
		return s.s[s.i-1]
	}
	return 0
}

func (s *expression) add(depth int) float64 {
	v := s.multiply(depth)
	for op := s.next("+-"); op != 0; op = s.next("+-") {
		w := s.multiply(depth)
		if op == '-' {
			w = -w
		}
		v += w
	}
	return v
}

func (s *expression) multiply(depth int) float64 {
	v := s.value(depth)
	for op := s.next("*/"); op != 0; op = s.next("*/") {
		w := s.value(depth)
		if op == '/' && w == 0 {
			s.invalid = true
			return 0
		}
		if op == '/' {
			v /= w
		} else {
			v *= w
		}
	}
	return v
}

func (s *expression) value(depth int) float64 {
	if s.next("-") != 0 {
		return -s.value(depth + 1)
	}
	if s.next("(") != 0 && depth < 50 {
		v := s.add(depth + 1)
		if s.next(")") == 0 {
			s.invalid = true
		}
		return v
	}
	from := s.i
	for s.next("0123456789.") != 0 {
	}
	v, err := strconv.ParseFloat(s.s[from:s.i], 64)
	if err != nil {
		s.invalid = true
	}
	return v
}
