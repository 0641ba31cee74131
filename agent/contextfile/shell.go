package contextfile

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// maxCommand is how much of a shell command is looked at, in bytes.
const maxCommand = 64 << 10

// pathsOf returns what in the arguments of a tool may be a path: path, file_path,
// workdir, and the words of a shell command that look like one. Relative paths
// are in workdir where that is given.
func pathsOf(input json.RawMessage) []string {
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
	add := func(p string) {
		if workdir != "" && !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
			p = filepath.Join(workdir, p)
		}
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
	for _, key := range []string{"command", "cmd"} {
		for _, token := range tokens(text(key)) {
			if likePath(token) {
				add(token)
			}
		}
	}
	return out
}

// likePath reports whether a word of a command may be a path.
func likePath(token string) bool {
	if strings.HasPrefix(token, "-") || !strings.ContainsAny(token, "/.") || strings.Contains(token, "://") {
		return false
	}
	return !strings.HasPrefix(token, "git@")
}

// tokens cuts a command into words as a shell would. If its quotes do not match,
// it is cut at white space.
func tokens(command string) []string {
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
