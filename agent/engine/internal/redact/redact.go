// Package redact replaces text in the form of a secret: keys of well-known
// services, bearer tokens, private keys, and values assigned to names such as
// password. It knows no secret by its value. Its functions are safe for
// concurrent use.
package redact

import (
	"regexp"

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
