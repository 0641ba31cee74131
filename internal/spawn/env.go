package spawn

import (
	"os"
	"slices"
	"strings"
)

// Passed returns the names of the variables that every process gets. None of
// them holds a secret.
func Passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
		"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramFiles", "ProgramData",
	}
}

// environment returns what a child sees: the variables of ours that may pass,
// then more, the last of a name only.
func environment(pass, more []string) []string {
	var env []string
	for _, name := range slices.Concat(Passed(), pass) {
		if v, ok := os.LookupEnv(name); ok {
			env = set(env, name+"="+v)
		}
	}
	for _, kv := range more {
		env = set(env, kv)
	}
	if env == nil {
		env = []string{} // nil would mean all of ours
	}
	return env
}

// set puts kv into env, in place of what has its name.
func set(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, kv)
}
