package spawn

import (
	"os"
	"slices"
	"strings"
)

// Passed returns the names of the environment variables that every process gets. None
// of them contains a secret.
func Passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
		"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramFiles", "ProgramData",
	}
}

// environment returns the environment of a child: the variables of this process in
// Passed and pass, then more. The last value of a name wins.
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
		env = []string{} // nil would mean the whole environment of this process
	}
	return env
}

// set sets kv in env, replacing the variable of the same name.
func set(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, kv)
}
