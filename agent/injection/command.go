package injection

import (
	"path"
	"strings"

	"hermesd/internal/lazyregexp"
)

// A chunk is the last text examined as a path: its end and its classes.
type chunk struct {
	to      int
	classes set
}

// secretPath adds the class of a secret file to w if it is part of the path of one: a file
// with passwords of programs, or a private key.
func (s *scan) secretPath(w *word) {
	if w.offset < s.chunk.to {
		w.classes = w.classes.union(&s.chunk.classes)
		return
	}
	t := s.text
	const ends = " \t\n\"'`()<>,;|="
	from, to := w.offset, w.offset+len(w.text)
	for from > 0 && w.offset-from < 200 && strings.IndexByte(ends, t[from-1]) < 0 {
		from--
	}
	for to < len(t) && to-w.offset < 200 && strings.IndexByte(ends, t[to]) < 0 {
		to++
	}
	s.chunk = chunk{to: to}
	before := strings.TrimRight(t[max(0, from-8):from], " ")
	if strings.HasSuffix(before, ">") {
		return // the file is written, not read
	}
	p := strings.Trim(strings.ReplaceAll(t[from:to], `\`, "/"), ".,:;!?*@")
	if strings.HasPrefix(strings.TrimLeft(t[from:to], "@*"), ".env") {
		p = "." + p
	}
	if p == "credentials" && before[strings.LastIndexAny(before, ends)+1:] == "cat" {
		p = "./" + p // elsewhere it is an English word
	}
	switch secret, key := secretFile(p); {
	case key:
		s.chunk.classes = s.lex.key
	case secret:
		s.chunk.classes = s.lex.secret
	}
	w.classes = w.classes.union(&s.chunk.classes)
}

// secretFile reports whether p is a file with secrets, and whether it is a private key or
// login file that is never meant to be shown.
func secretFile(p string) (secret, key bool) {
	p = strings.NewReplacer("${home}", "~", "$home", "~").Replace(p)
	base := path.Base(p)
	switch base {
	case ".netrc", ".pgpass", ".git-credentials", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa":
		return true, true
	case "netrc": // without a directory it is the name of a module
		return strings.Contains(p, "/"), strings.Contains(p, "/")
	case ".npmrc", ".pypirc", "credentials", "credentials.json", "secrets.json", "secrets.yml", "secrets.yaml":
		return strings.Contains(p, "/") || base != "credentials", false
	}
	if env, ok := strings.CutPrefix(base, ".env"); ok {
		switch env {
		case "", ".local", ".production", ".prod", ".staging", ".development", ".dev":
			return true, false
		}
	}
	for _, k := range []string{"/etc/shadow", ".aws/credentials", ".gnupg/private", ".kube/config", ".docker/config.json", ".config/gh/hosts.yml", ".cursor/mcp.json"} {
		if strings.Contains(p, k) {
			return true, true
		}
	}
	switch strings.TrimRight(p, "/*") {
	case "~/.ssh", "~/.aws", "~/.gnupg":
		return true, false
	}
	return false, false
}

var (
	variable = lazyregexp.New(`\$\{?([a-z_][a-z0-9_]*)`)
	host     = lazyregexp.New(`(?:https?|ftp)://(?:[^@/\s"']*@)?([a-z0-9.-]+)`)
	header   = lazyregexp.New(`(?:-h|--header)[ =]?\s*["'][^"']*["']|(?:-u|--user)[ =]?\s*["']?[^"'\s]+["']?`)
	authName = lazyregexp.New(`authorization:|x-api-key:|private-token:|^(?:-u|--user)|token:`)
	inside   = lazyregexp.New(`(?:\$\(|` + "`" + `)\s*(?:cat|env|printenv|base64|head|tail|<)\b?[^)]*`)
	fileArg  = lazyregexp.New(`(?:@|-t\s+|--upload-file[ =]|--post-file[ =]|--body-file[ =]|<\s*)["']?([~./a-z0-9_${}\-\\]+)`)
)

// matchCommands reports command lines that send secrets to another host.
func (s *scan) matchCommands() {
	const maxPerLine = 64 // commands examined per line; real lines have fewer
	seen := 0             // command lines up to this offset have been examined
	line, last := 0, 0
	for i := range s.list {
		w := &s.list[i]
		switch w.text {
		case "curl", "wget", "nc", "ncat", "netcat":
		default:
			continue
		}
		if end := w.offset + len(w.text); end >= len(s.text) || s.text[end] != ' ' {
			continue
		}
		if line++; strings.IndexByte(s.text[last:w.offset], '\n') >= 0 {
			line = 1
		}
		if last = w.offset; line > maxPerLine && w.offset < seen {
			continue
		}
		from, to := s.line(w.offset)
		before, after := s.text[max(from, w.offset-200):w.offset], s.text[w.offset:to]
		sends := w.offset >= seen && sendsSecret(after)
		seen = max(seen, to)
		if (sends || line <= maxPerLine && pipesSecret(before)) && !s.isNegated(i, 1) && !s.isMentioned(i, i) {
			s.addFinding(ExfilCurl, after)
		}
	}
}

// line returns the bounds of the command line around at, at most 600 bytes to each side. A
// backslash at the end of a line continues it.
func (s *scan) line(at int) (from, to int) {
	t := s.text
	from = max(0, at-600)
	if i := strings.LastIndexByte(t[from:at], '\n'); i >= 0 {
		from += i + 1
	}
	to = at
	for to < min(len(t), at+600) && (t[to] != '\n' || t[to-1] == '\\') {
		to++
	}
	return from, to
}

// pipesSecret reports whether the command before a pipe into curl outputs secrets.
func pipesSecret(before string) bool {
	b, ok := strings.CutSuffix(strings.TrimRight(before, " "), "|")
	if !ok {
		return false
	}
	for segment := range strings.FieldsFuncSeq(b, func(r rune) bool { return strings.ContainsRune("|;&`\"", r) }) {
		f := strings.Fields(segment)
		if len(f) == 0 {
			continue
		}
		if last := f[len(f)-1]; last == "env" || last == "printenv" || f[0] == "env" && len(f) == 1 || f[0] == "printenv" {
			return true
		}
		if v := variable().FindStringSubmatch(segment); v != nil && secretName(v[1]) && (f[0] == "echo" || f[0] == "printf") {
			return true
		}
		for _, w := range f[1:] {
			if secret, _ := secretFile(strings.Trim(w, `"'`)); secret {
				return true
			}
		}
	}
	return false
}

// sendsSecret reports whether a command line sends a secret: in a URL, a body or a file, or
// in a header to a host that the secret does not belong to.
func sendsSecret(cmd string) bool {
	for _, m := range inside().FindAllString(cmd, 4) {
		if strings.Contains(m, "env") || strings.Contains(m, "/etc/") || holdsSecret(m) {
			return true
		}
	}
	for _, m := range fileArg().FindAllStringSubmatch(cmd, 8) {
		if secret, _ := secretFile(m[1]); secret {
			return true
		}
	}
	names := host().FindAllStringSubmatch(cmd, 4)
	rest := header().ReplaceAllStringFunc(cmd, func(h string) string {
		if !authName().MatchString(h) {
			return h
		}
		for _, v := range variable().FindAllStringSubmatch(h, 4) {
			if secretName(v[1]) && !belongsTo(v[1], names) {
				return h
			}
		}
		return ""
	})
	for _, v := range variable().FindAllStringSubmatch(rest, 16) {
		if secretName(v[1]) {
			return true
		}
	}
	return false
}

func holdsSecret(cmd string) bool {
	for f := range strings.FieldsSeq(cmd) {
		if secret, _ := secretFile(strings.Trim(f, `"'$()`)); secret {
			return true
		}
	}
	return false
}

// secretName reports whether the name of a variable suggests a secret.
func secretName(name string) bool {
	for part := range strings.SplitSeq(name, "_") {
		switch part {
		case "key", "token", "secret", "secrets", "password", "passwd", "pass", "credential", "credentials", "pat", "apikey":
			return true
		}
	}
	return false
}

// belongsTo reports whether a secret of this name belongs to one of the hosts: it contains
// a part of the host's name, the host is this machine or a variable, or the name is
// generic.
func belongsTo(name string, hosts [][]string) bool {
	switch name {
	case "token", "access_token", "auth_token", "api_token", "api_key", "apikey", "password", "pass":
		return true
	}
	if len(hosts) == 0 {
		return true
	}
	for _, h := range hosts {
		if h[1] == "localhost" || strings.HasPrefix(h[1], "127.") || strings.HasSuffix(h[1], ".localhost") {
			return true
		}
		for part := range strings.SplitSeq(name, "_") {
			if len(part) > 3 && !secretName(part) && strings.Contains(h[1], part) {
				return true
			}
		}
	}
	return false
}
