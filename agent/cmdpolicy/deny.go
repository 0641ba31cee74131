package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxRecorded limits the bytes of the commands that are recorded in one evaluation.
const maxRecorded = 256 << 10

// record notes a command for Denied: as it is called, and by its name without directories.
func (e *evaluator) record(argv []string) {
	for _, name := range []string{argv[0], path.Base(argv[0])} {
		line := strings.ReplaceAll(strings.TrimSpace(name+" "+strings.Join(argv[1:], " ")), measured, hole)
		if e.recorded += len(line); e.recorded <= maxRecorded && !slices.Contains(e.commands, line) {
			e.commands = append(e.commands, line)
		}
	}
}

// Denied returns the first of patterns that forbids command, whose result v is, or "". A
// pattern with *, ? and [...], in any case, is compared with the whole text and with each
// command that was found in it: after quotes and variables, in pipes, substitutions and
// shells, and behind programs such as sudo and env. What is not known of a command is
// taken for a text that matches.
func (v Result) Denied(command string, patterns []string) string {
	for _, p := range patterns {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		re := glob(p)
		if re.MatchString(strings.TrimSpace(command)) {
			return p
		}
		for _, c := range v.Commands {
			if re.MatchString(c) || strings.Contains(c, hole) && mayMatch(c, p) {
				return p
			}
		}
	}
	return ""
}

// mayMatch reports whether a command with unknown parts may be one that p forbids: they
// agree up to the first part that is not known.
func mayMatch(command, p string) bool {
	known := command[:strings.Index(command, hole)]
	fixed := p
	if i := strings.IndexAny(p, "*?["); i >= 0 {
		fixed = p[:i]
	}
	known, fixed = strings.ToLower(known), strings.ToLower(fixed)
	return known != "" && (strings.HasPrefix(fixed, known) || fixed != "" && strings.HasPrefix(known, fixed) && strings.ContainsAny(p, "*?["))
}

var globs sync.Map // of compiled patterns, by their text

// glob returns the expression of a pattern.
func glob(p string) *regexp.Regexp {
	if re, ok := globs.Load(p); ok {
		return re.(*regexp.Regexp)
	}
	var b strings.Builder
	b.WriteString(`(?is)^`)
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		case '[':
			end := strings.IndexByte(p[i+1:], ']')
			class := ""
			if end > 0 {
				class = "[" + strings.ReplaceAll(strings.Replace(p[i+1:i+1+end], "!", "^", 1), `\`, `\\`) + "]"
			}
			if _, err := regexp.Compile(class); end <= 0 || err != nil {
				b.WriteString(`\[`)
				continue
			}
			b.WriteString(class)
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	re, err := regexp.Compile(b.String() + `$`)
	if err != nil { // bytes that are no text
		re = regexp.MustCompile(`(?is)^` + regexp.QuoteMeta(strings.ToValidUTF8(p, "")) + `$`)
	}
	globs.Store(p, re)
	return re
}
