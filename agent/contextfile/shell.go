package contextfile

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// maxCommand limits the bytes of a shell command that are parsed.
const maxCommand = 64 << 10

// findPaths returns the possible paths in the arguments of a tool: path,
// file_path, workdir, and the words of a shell command that look like one or that
// isDir reports to be a directory. Relative paths are resolved against workdir if it
// is given.
func findPaths(input json.RawMessage, isDir func(string) bool) []string {
	var in map[string]json.RawMessage
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	text := func(key string) string {
		var s string
		if json.Unmarshal(in[key], &s) != nil || strings.ContainsRune(s, 0) || len(s) > maxCommand {
			return ""
		}
		return s
	}
	var out []string
	workdir := text("workdir")
	resolved := func(p string) string {
		if workdir != "" && !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
			return filepath.Join(workdir, p)
		}
		return p
	}
	add := func(p string) {
		p = resolved(p)
		if p != "" && len(p) < 4096 && len(out) < maxPaths {
			out = append(out, p)
		}
	}
	for _, key := range []string{"path", "file_path"} {
		if p := text(key); p != "" {
			add(p)
		}
	}
	if workdir != "" {
		out = append(out, workdir)
	}
	names := 0
	for _, key := range []string{"command", "cmd"} {
		for _, token := range splitWords(text(key)) {
			switch {
			case looksLikePath(token):
				add(token)
			case isName(token) && names < maxPaths:
				names++
				if isDir(resolved(token)) {
					add(token)
				}
			}
		}
	}
	return out
}

// looksLikePath reports whether a word of a command may be a path.
func looksLikePath(token string) bool {
	if strings.HasPrefix(token, "-") || !strings.ContainsAny(token, "/.") || strings.Contains(token, "://") {
		return false
	}
	return !strings.HasPrefix(token, "git@")
}

// isName reports whether a word of a command may be the name of a directory.
func isName(token string) bool {
	return !strings.ContainsAny(token, "/.:") && !strings.HasPrefix(token, "-")
}

// splitWords splits a command into words as a shell does. If its quotes do not
// match, it is split at white space.
func splitWords(command string) []string {
	var out []string
	var word strings.Builder
	quote := byte(0)
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
		}
		word.Reset()
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(command):
			i++
			word.WriteByte(command[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte(" \t\n;|&()<>=", c) >= 0:
			end()
		default:
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return strings.Fields(command)
	}
	end()
	return out
}
