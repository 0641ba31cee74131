package protected

import (
	"bytes"
	"encoding/json"
	"path"
	"reflect"
	"strings"

	"hermesd/internal/lazyregexp"
)

// manifestKeys lists the package manifests in JSON, and the keys in them that hold programs.
var manifestKeys = map[string][]string{
	"package.json":  {"scripts", "hooks", "husky", "lint-staged", "simple-git-hooks", "pre-commit", "pre-push", "gitHooks"},
	"composer.json": {"scripts"},
}

// Manifest returns why it needs an approval to change the content of the file at p from
// before to after, "" if it needs none. Of a package manifest only scripts and hooks count:
// package.json, composer.json and pyproject.toml. before is nil for a file that does not exist
// or whose content is not known.
func Manifest(p string, before, after []byte) string {
	name := fold(path.Base(p))
	var changed bool
	if keys, ok := manifestKeys[name]; ok {
		changed = !reflect.DeepEqual(jsonPrograms(before, keys), jsonPrograms(after, keys))
	} else if name == "pyproject.toml" {
		changed = tomlPrograms(before) != tomlPrograms(after)
	}
	if changed {
		return scripts
	}
	return ""
}

// jsonPrograms returns the values of keys in a manifest. If the text is not JSON but names one
// of the keys, it returns the whole text.
func jsonPrograms(text []byte, keys []string) map[string]any {
	out := map[string]any{}
	var all map[string]any
	err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &all)
	for _, k := range keys {
		switch v, ok := all[k]; {
		case err != nil && bytes.Contains(text, []byte(`"`+k+`"`)):
			out[""] = string(text)
		case err == nil && ok:
			out[k] = v
		}
	}
	return out
}

var (
	tomlHeader = lazyregexp.New(`^\s*\[+([^\]]*)\]+`)
	// tomlSection matches the tables whose values are run when a package is built, installed
	// or worked on. The scripts of project and poetry name functions; nothing runs them.
	tomlSection = lazyregexp.New(`^(build-system|tool\..*(scripts|hooks|tasks|cmdclass).*)$`)
	tomlKey     = lazyregexp.New(`(^|[.\s"'])(scripts|hooks|tasks|cmdclass|build-backend|build-system)["']?\s*[.=]`)
)

// tomlPrograms returns the lines of pyproject.toml that name programs.
func tomlPrograms(text []byte) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := tomlHeader().FindStringSubmatch(line); m != nil {
			name := strings.NewReplacer(" ", "", `"`, "", "'", "").Replace(m[1])
			inside = tomlSection().MatchString(name) && name != "tool.poetry.scripts"
		}
		if line != "" && (inside || tomlKey().MatchString(line)) && !strings.HasPrefix(line, "#") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
