// Package protected lists the files whose change makes a program run later or lets somebody
// in: start files of shells, git hooks and settings, SSH files, autostart entries, units, CI
// files, and the scripts in package manifests. The main functions are Path and Manifest.
//
// The command policy and the file tools both use it, so that a change needs the same approval
// whichever tool makes it. Its functions look at names and contents that they are given, touch
// no file, and may be called from any goroutine.
package protected

import (
	"bytes"
	"encoding/json"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"hermesd/internal/lazyregexp"
)

// The reasons, as texts for the user.
const (
	startFile = "it changes a file that shells or programs read when they start"
	git       = "it changes hooks or settings of a git repository, which run programs"
	ssh       = "it changes files of SSH, which decide who may log in"
	automatic = "it changes what starts by itself: autostart entries, units, timers"
	ci        = "it changes what a CI service runs"
	settings  = "it changes settings from which an editor or a tool runs programs"
	scripts   = "it changes scripts or hooks in a package manifest"
	instructs = "it changes a file that instructs the agent itself"
)

// Path returns why a change of the file at p needs an approval, "" if it needs none. p is
// clean and separated by slashes: relative, absolute, or "~" and a path in the home directory
// of the user. Symbolic links must be resolved where they can be. Case is ignored, because
// some file systems ignore it.
func Path(p string) string {
	p = fold(p)
	whole := "/" + strings.TrimPrefix(p, "/")
	name := path.Base(whole)
	for _, r := range names {
		if r.pattern().MatchString(name) {
			return r.reason
		}
	}
	if gitFile().MatchString(whole) {
		return git
	}
	for _, d := range directories {
		if strings.Contains(whole+"/", d.name) {
			return d.reason
		}
	}
	for _, dir := range systemDirs {
		if under(p, dir) {
			return automatic
		}
	}
	if homeDotFile(p) {
		return startFile
	}
	return ""
}

// Instructions returns why a change of the file at p, a path as for Path, needs an
// approval because agents read it as instructions; "" if it does not. A file is also one
// of them if its name matches one of more, patterns with *, ? and [...].
func Instructions(p string, more []string) string {
	whole := "/" + strings.TrimPrefix(fold(p), "/")
	name := path.Base(whole)
	if instructionFile().MatchString(name) || strings.HasSuffix(whole, "/.hermes/config.yaml") || strings.Contains(whole, "/.cursor/rules/") {
		return instructs
	}
	for _, pattern := range more {
		if ok, err := path.Match(strings.ToLower(pattern), name); ok || err != nil && strings.EqualFold(pattern, name) {
			return instructs
		}
	}
	return ""
}

// instructionFile matches names of files that agents read as instructions.
var instructionFile = lazyregexp.New(`^(agents|claude|gemini|soul|hermes|\.hermes|copilot-instructions)(\.local|\.override)?\.md$|^\.(cursor|windsurf|cline)rules$`)

// fold returns p as file systems compare it that ignore case, invisible characters (HFS+),
// or dots and spaces at the end of a name (Windows).
func fold(p string) string {
	p = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, p)
	if !strings.Contains(p, ". ") && !strings.Contains(p, "./") && !strings.Contains(p, " /") && !strings.HasSuffix(p, ".") && !strings.HasSuffix(p, " ") {
		return p
	}
	parts := strings.Split(p, "/")
	for i, s := range parts {
		if t := strings.TrimRight(s, ". "); t != "" {
			parts[i] = t
		}
	}
	return strings.Join(parts, "/")
}

// names lists the files that are protected in any directory.
var names = []struct {
	pattern func() *regexp.Regexp
	reason  string
}{
	{lazyregexp.New(`^\.(bash_?(rc|profile|login|logout|aliases)|profile|zsh(rc|env)|z(profile|login|logout)|kshrc|cshrc|tcshrc|login|logout|` +
		`inputrc|xinitrc|xprofile|xsession|xsessionrc|pam_environment|pypirc|vimrc|exrc|nanorc|emacs|tmux\.conf|screenrc|` +
		`gdbinit|curlrc|wgetrc|forward|netrc)$`), startFile},
	{lazyregexp.New(`^(\.git|git~1|\.gitconfig|head)$`), git}, // a directory with HEAD is a bare repository
	{lazyregexp.New(`^(\.rhosts|\.shosts|\.ssh|authorized_keys2?)$`), ssh},
	{lazyregexp.New(`^crontab$`), automatic},
	{lazyregexp.New(`^(jenkinsfile.*|\.?(gitlab-ci|travis|drone|woodpecker|cirrus|appveyor|azure-pipelines|bitbucket-pipelines|buildspec|cloudbuild)\.ya?ml)$`), ci},
	{lazyregexp.New(`^(\.envrc|\.npmrc|\.?mcp\.json|\.yarnrc(\.ya?ml)?|\.pnpmfile\.c?js|\.pre-commit-config\.ya?ml|\.?lefthook(-local)?\.(ya?ml|toml|json)|` +
		`\.devcontainer\.json|.*\.code-workspace)$`), settings},
}

// gitFile matches what makes git run programs: hooks, settings, and the files that name
// another repository, in any repository, submodule or worktree.
var gitFile = lazyregexp.New(`/([^/]*\.git|git~1)/(.*/)?(hooks(/.*)?|config[^/]*|commondir|gitdir)$`)

// directories lists the directories whose files are protected wherever they are.
var directories = []struct{ name, reason string }{
	{"/.ssh/", ssh},
	{"/.config/fish/", startFile}, {"/.config/zsh/", startFile}, {"/.config/git/", git},
	{"/.config/autostart/", automatic}, {"/.config/systemd/", automatic}, {"/.config/environment.d/", automatic},
	{"/systemd/user/", automatic}, {"/library/launchagents/", automatic}, {"/library/launchdaemons/", automatic},
	{"/.github/workflows/", ci}, {"/.github/actions/", ci}, {"/.gitea/workflows/", ci}, {"/.forgejo/workflows/", ci}, {"/.gitlab/ci/", ci},
	{"/.circleci/", ci}, {"/.woodpecker/", ci}, {"/.buildkite/", ci}, {"/.teamcity/", ci}, {"/.azure-pipelines/", ci}, {"/.ci/", ci},
	{"/.vscode/tasks.json/", settings}, {"/.vscode/settings.json/", settings}, {"/.vscode/launch.json/", settings}, {"/.claude/settings", settings},
	{"/.devcontainer/", settings}, {"/.husky/", settings}, {"/.cargo/config/", settings}, {"/.cargo/config.toml/", settings},
}

// systemDirs lists what starts by itself on the whole machine.
var systemDirs = []string{
	"/etc/cron.d", "/etc/cron.daily", "/etc/cron.hourly", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/crontab", "/var/spool/cron", "/etc/profile.d",
	"/etc/profile", "/etc/bash.bashrc", "/etc/rc.local", "/etc/init.d", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/etc/ssh", "/etc/pam.d",
	"/etc/xdg/autostart", "/etc/udev", "/etc/environment", "/etc/zsh",
}

// homeDotFile reports whether p is one of the settings in the home directory of the user.
func homeDotFile(p string) bool {
	rest, ok := strings.CutPrefix(p, "~/.")
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(rest, "/")
	return first != "cache" && first != "local" || slices.ContainsFunc([]string{"local/bin", "local/share/systemd", "local/share/applications"},
		func(dir string) bool { return strings.HasPrefix(rest, dir) })
}

func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

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
