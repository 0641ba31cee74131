// Package redact replaces text in the form of a secret: keys of well-known
// services, bearer tokens, private keys, and values assigned to names such as
// password. It knows no secret by its value. Its functions are safe for
// concurrent use.
package redact

import (
	"regexp"
	"strings"

	"hermesd/internal/lazyregexp"
)

// Placeholder replaces a secret.
const Placeholder = "[REDACTED]"

var patterns = []struct {
	re   func() *regexp.Regexp
	with string
}{
	{lazyregexp.New(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), Placeholder},
	{lazyregexp.New(`\b(sk|pk|rk)[-_](ant-|live_|test_|proj-|or-)?[A-Za-z0-9_-]{16,}`), Placeholder},
	{lazyregexp.New(`\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})`), Placeholder},
	{lazyregexp.New(`\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}`), Placeholder},
	{lazyregexp.New(`\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}`), Placeholder},
	{lazyregexp.New(`\b[0-9]{8,10}:[A-Za-z0-9_-]{35}\b`), Placeholder},
	{lazyregexp.New(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), Placeholder},
	{lazyregexp.New(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}`), "${1} " + Placeholder},
	{lazyregexp.New(`(://[^/\s:@]+:)[^@\s/]+@`), "${1}" + Placeholder + "@"},
	{lazyregexp.New(`(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key)["']?\s*[:=]\s*["']?)[^\s"',;\[]{6,}`), "${1}" + Placeholder},
}

// Text returns s without text that looks like a secret. It is idempotent.
func Text(s string) string {
	likely := hintFinder.find(s)
	for i, f := range patterns {
		if likely&(1<<i) == 0 {
			continue
		}
		s = f.re().ReplaceAllString(s, f.with)
	}
	return s
}

// A hint is a text without which a pattern cannot match: comparing it is much
// cheaper than matching the expression, and most texts contain no secret.
type hint struct {
	text string
	form int
	fold bool // case-insensitive
}

// hints returns the hints of all patterns. The last two are the non-ASCII
// letters that fold to s and k.
func hints() (all []hint) {
	add := func(form int, fold bool, texts ...string) {
		for _, t := range texts {
			all = append(all, hint{t, form, fold})
		}
	}
	add(0, false, "-----BEGIN ")
	add(1, false, "sk-", "sk_", "pk-", "pk_", "rk-", "rk_")
	add(2, false, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-")
	add(3, false, "xox", "xapp-")
	add(4, false, "AKIA", "ASIA", "AIza")
	add(5, false, "0:", "1:", "2:", "3:", "4:", "5:", "6:", "7:", "8:", "9:")
	add(6, false, "eyJ")
	add(7, true, "bearer", "basic")
	add(8, false, "://")
	add(9, true, "password", "passwd", "secret", "token", "api", "access")
	for _, form := range []int{7, 9} {
		add(form, false, "\u017f", "\u212a")
	}
	return all
}

// A finder finds hints by their first two bytes.
type finder struct {
	index [1 << 16]uint8 // index into lists, 0 for none
	lists [][]hint
}

func newFinder(all []hint) *finder {
	f := &finder{lists: make([][]hint, 1)}
	for _, h := range all {
		starts := []string{h.text[:2]}
		if h.fold {
			a, b := h.text[:1], h.text[1:2]
			starts = append(starts, strings.ToUpper(a)+b, a+strings.ToUpper(b), strings.ToUpper(a+b))
		}
		for _, s := range starts {
			k := pairKey(s[0], s[1])
			if f.index[k] == 0 {
				f.index[k] = uint8(len(f.lists))
				f.lists = append(f.lists, nil)
			}
			f.lists[f.index[k]] = append(f.lists[f.index[k]], h)
		}
	}
	return f
}

func pairKey(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// find returns a bit for each pattern that may match s.
func (f *finder) find(s string) (forms uint) {
	for i := 1; i < len(s); i++ {
		k := f.index[pairKey(s[i-1], s[i])]
		if k == 0 {
			continue
		}
		for _, h := range f.lists[k] {
			if end := i - 1 + len(h.text); end <= len(s) {
				if is := s[i-1 : end]; is == h.text || h.fold && strings.EqualFold(is, h.text) {
					forms |= 1 << h.form
				}
			}
		}
	}
	return forms
}

var hintFinder = newFinder(hints())
