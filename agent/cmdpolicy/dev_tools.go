package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

func anyOf(args []string, of ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(of, a) })
}

// gits judges git.
func gits(j *evaluator, c call) (text, bool) {
	if c.name != "git" && c.name != "hub" && c.name != "gh" && c.name != "glab" {
		return text{}, false
	}
	args := c.args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 1
		switch args[0] {
		case "-c", "--config-env", "--exec-path":
			j.gitConfig(args[min(1, len(args)-1)])
			n = 2
		case "-C", "--git-dir", "--work-tree", "--namespace":
			n = 2
		}
		if strings.HasPrefix(args[0], "--exec-path=") {
			j.hit("git-run", c.name, "")
		}
		args = args[min(n, len(args)):]
	}
	if len(args) == 0 {
		return handled()
	}
	j.touched(call{name: c.name, args: args})
	verb, rest := args[0], args[1:]
	target := strings.Join(args, " ")
	if strings.ContainsAny(verb, string([]rune{hole, many, one})) {
		j.hit("unknown-command", "git", "")
	}
	o, _ := parse(rest, "m C c b B u o x", false)
	switch verb {
	case "push":
		if o.any("f", "force", "force-with-lease", "force-if-includes", "delete", "d", "mirror", "prune") || slices.ContainsFunc(rest, func(a string) bool {
			return strings.HasPrefix(a, "+") || strings.HasPrefix(a, ":")
		}) {
			j.hit("git-force", c.name, target)
		}
	case "config":
		if len(rest) > 1 {
			k := slices.IndexFunc(rest, func(a string) bool { return !strings.HasPrefix(a, "-") })
			if k >= 0 && k+1 < len(rest) {
				j.gitConfig(rest[k] + "=" + rest[k+1])
			}
			if o.any("global", "system") && !o.any("get", "list", "l", "get-all") && len(rest) > 2 {
				j.hit("write-startup", c.name, target)
			}
		}
	case "repo", "release", "secret", "auth", "gist", "ssh-key": // gh
		if c.name != "git" && anyOf(rest, "delete", "archive", "remove", "token", "set") {
			j.hit("git-force", c.name, target)
		}
	default:
		j.gitLoss(verb, rest, o, target)
	}
	j.gitRuns(verb, rest, c.stdin)
	return handled()
}

// gitLoss judges verbs that throw away work.
func (j *evaluator) gitLoss(verb string, rest []string, o options, target string) {
	lost := false
	switch verb {
	case "reset":
		lost = o.any("hard", "merge")
	case "clean":
		lost = o.any("f", "force") && !o.any("n", "dry-run")
	case "checkout", "switch":
		lost = o.any("f", "force", "discard-changes") || anyOf(rest, "--", ".") && verb == "checkout"
	case "restore":
		lost = !o.any("staged", "S") || o.any("worktree", "W")
	case "branch", "tag":
		lost = o.any("D", "delete") || o.any("d") && o.any("f", "force") || verb == "tag" && o.any("d")
	case "stash":
		lost = anyOf(rest, "drop", "clear")
	case "reflog":
		lost = anyOf(rest, "expire", "delete")
	case "gc":
		lost = slices.ContainsFunc(rest, func(a string) bool { return strings.HasPrefix(a, "--prune") || a == "--aggressive" })
	case "worktree", "submodule", "remote", "lfs", "update-ref":
		lost = anyOf(rest, "remove", "deinit", "prune", "-d") && (verb != "remote" || anyOf(rest, "remove"))
	case "filter-branch", "filter-repo", "prune":
		lost = true
	case "rm":
		lost = o.any("r", "f", "force") && !o.any("cached")
	}
	if lost {
		j.hit("git-discard", "git", target)
	}
}

// gitRuns judges verbs that run a command.
func (j *evaluator) gitRuns(verb string, rest []string, in text) {
	run := ""
	switch {
	case verb == "bisect" && len(rest) > 1 && rest[0] == "run":
		j.run(rest[1:], in)
		return
	case verb == "submodule" && anyOf(rest, "foreach"):
		run = strings.Join(rest[slices.Index(rest, "foreach")+1:], " ")
	case verb == "rebase":
		run = valueOf(rest, "-x") + valueOf(rest, "--exec")
	case verb == "filter-branch":
		for i, a := range rest {
			if strings.HasSuffix(a, "-filter") && i+1 < len(rest) {
				run = rest[i+1]
			}
		}
	case verb == "difftool" || verb == "mergetool":
		run = valueOf(rest, "-x") + valueOf(rest, "--extcmd")
	}
	for _, a := range rest {
		for _, p := range []string{"--exec=", "--upload-pack=", "--receive-pack=", "--extcmd=", "ext::"} {
			if v, ok := strings.CutPrefix(a, p); ok {
				run = v
			}
		}
	}
	if run != "" {
		j.hit("git-run", "git", "")
		j.subshell(run, in, "sh", nil)
	}
}

var gitCommand = regexp.MustCompile(`(?i)^(alias\.|core\.(sshcommand|pager|editor|hookspath|fsmonitor|gitproxy|askpass)|.*\.(cmd|textconv|clean|smudge|process|driver|helper|program|command|path)$|pager\.|sequence\.editor|diff\.external|uploadpack\.|url\.|include)`)

// gitConfig judges a setting of git: some are commands.
func (j *evaluator) gitConfig(kv string) {
	k, v, _ := strings.Cut(kv, "=")
	if !gitCommand.MatchString(k) {
		return
	}
	v, shell := strings.CutPrefix(v, "!")
	if strings.HasPrefix(strings.ToLower(k), "alias.") && !shell {
		return
	}
	j.hit("git-run", "git", "")
	j.subshell(v, text{kind: anything}, "sh", nil)
}

// installs says for each package manager what changes software.
var installs = map[string]string{
	"apt": "install remove purge upgrade full-upgrade dist-upgrade autoremove reinstall", "apt-get": "install remove purge upgrade dist-upgrade autoremove build-dep", "aptitude": "install remove purge",
	"dpkg": "-i -r -P --install --remove --purge --unpack", "rpm": "-i -e -U -F -ivh -Uvh --install --erase", "yum": "install remove erase update upgrade localinstall", "dnf": "install remove erase update upgrade",
	"zypper": "install in remove rm update up", "pacman": "-S -R -U -Sy -Syu -Rs -Rns -Syyu", "yay": "-S -R -Syu", "apk": "add del upgrade", "snap": "install remove refresh", "flatpak": "install uninstall update",
	"brew": "install uninstall remove upgrade tap reinstall", "port": "install uninstall", "pip": "install uninstall", "pip3": "install uninstall", "pipx": "install uninstall run upgrade inject", "easy_install": "*",
	"conda": "install remove create update", "mamba": "install remove create", "npm": "install i add ci uninstall remove rm update exec publish unpublish link", "pnpm": "install i add remove update dlx publish", "yarn": "add install remove upgrade dlx publish global",
	"npx": "*", "bunx": "*", "uvx": "*", "gem": "install uninstall update push", "cargo": "install uninstall publish yank", "go": "install get", "composer": "install require update remove global", "nix-env": "-i -e -u -iA --install", "nix": "profile run shell",
	"emerge": "*", "pkg": "install remove delete upgrade", "pkg_add": "*", "choco": "install uninstall upgrade", "winget": "install uninstall", "scoop": "install uninstall", "cpan": "*", "cpanm": "*", "luarocks": "install remove", "opam": "install remove", "cabal": "install", "stack": "install", "helm-plugin": "*", "mix": "deps.get archive.install", "dotnet": "add tool", "swift-package": "*", "twine": "upload", "installer": "*", "softwareupdate": "-i --install", "update-alternatives": "--install --set --remove --config", "ldconfig": "*", "rustup": "install update default uninstall self toolchain", "nvm": "install uninstall", "asdf": "install uninstall", "corepack": "*", "code": "--install-extension",
}

// packaged judges package managers.
func packaged(j *evaluator, c call) (text, bool) {
	name := c.name
	if m := regexp.MustCompile(`^pip[0-9.]*$`).FindString(name); m != "" {
		name = "pip"
	}
	verbs, ok := installs[name]
	if !ok {
		return text{}, false
	}
	if verbs == "*" && len(c.args) > 0 || anyOf(c.args, strings.Fields(verbs)...) {
		if name != "go" && name != "npm" || !anyOf(c.args, "--dry-run", "test", "run") {
			j.hit("packages", c.name, strings.Join(c.args, " "))
		}
	}
	if name == "npm" || name == "pnpm" || name == "yarn" {
		if i := slices.Index(c.args, "-c"); i >= 0 && i+1 < len(c.args) {
			j.subshell(c.args[i+1], text{kind: anything}, "sh", nil)
		}
	}
	if name == "go" {
		for i, a := range c.args {
			if v, ok := strings.CutPrefix(a, "-exec="); ok || a == "-exec" || a == "-toolexec" || strings.HasPrefix(a, "-toolexec=") {
				j.hit("run-code", "", "")
				if !ok && i+1 < len(c.args) {
					v = c.args[i+1]
				}
				j.subshell(v, text{kind: anything}, "sh", nil)
			}
		}
	}
	return handled()
}

// services judges what starts and stops services, and what plans runs.
func services(j *evaluator, c call) (text, bool) {
	all := strings.Join(c.args, " ")
	switch c.name {
	case "systemctl":
		if anyOf(c.args, "poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "rescue", "emergency", "soft-reboot", "exit", "isolate", "hybrid-sleep") {
			j.hit("power", c.name, "")
		} else if !anyOf(c.args, "status", "is-active", "is-enabled", "is-failed", "list-units", "list-unit-files", "list-timers", "show", "cat", "--version", "list-sockets", "get-default", "list-dependencies") && len(c.args) > 0 {
			j.hit("service", c.name, all)
			if strings.Contains(all, "hermes") {
				j.hit("own-daemon", c.name, "")
			}
		}
	case "loginctl":
		if anyOf(c.args, "poweroff", "reboot", "halt", "suspend") {
			j.hit("power", c.name, "")
		} else if anyOf(c.args, "terminate-user", "kill-user", "terminate-session", "kill-session") {
			j.hit("kill", c.name, all)
		}
	case "service", "rc-service", "initctl", "launchctl", "sv", "rc-update", "chkconfig", "update-rc.d", "svcadm", "supervisorctl", "pm2", "sc":
		if len(c.args) > 0 && !anyOf(c.args, "status", "list", "--status-all", "print", "ls", "logs") {
			j.hit("service", c.name, all)
		}
	case "crontab":
		if len(c.args) == 0 || !anyOf(c.args, "-l") {
			j.hit("schedule", c.name, "")
		}
	case "at", "batch", "atd", "anacron":
		if !anyOf(c.args, "-l", "-c", "-V") {
			j.hit("schedule", c.name, "")
			if c.stdin.kind == known {
				j.subshell(c.stdin.s, text{kind: none}, "sh", nil)
			}
		}
	case "tmux", "screen", "byobu", "zellij", "xterm", "gnome-terminal", "konsole", "x-terminal-emulator":
		for i, a := range c.args {
			if i == len(c.args)-1 || a == "-e" || a == "-dmS" || a == "-dm" || a == "send-keys" {
				j.subshell(strings.Join(c.args[min(i+1, len(c.args)-1):], " "), text{kind: none}, "sh", nil)
			}
			if strings.Contains(a, " ") {
				j.subshell(a, text{kind: none}, "sh", nil)
			}
		}
	default:
		return text{}, false
	}
	return handled()
}

// containers judges what runs in containers.
func containers(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "docker", "podman", "nerdctl", "docker-compose", "lxc", "kubectl", "oc", "k3s", "crictl", "ctr", "bwrap", "machinectl", "vagrant":
	default:
		return text{}, false
	}
	for i, a := range c.args {
		v := valueOf(c.args[i:], a)
		if _, w, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			v = w
		}
		switch n, _, _ := strings.Cut(a, "="); n {
		case "--privileged", "--cap-add", "--device", "--security-opt", "--uts", "--userns":
			j.hit("container", c.name, "")
		case "--pid", "--net", "--network", "--ipc":
			if v == "host" {
				j.hit("container", c.name, "")
			}
		case "-v", "--volume", "--mount", "--bind":
			j.mounted(c.name, v)
		}
	}
	if i := slices.IndexFunc(c.args, func(a string) bool { return a == "exec" || a == "run" }); i >= 0 {
		j.within(c, c.args[i+1:])
	}
	all := strings.Join(c.args, " ")
	if anyOf(c.args, "prune", "rm", "rmi", "kill", "delete", "drain", "down", "destroy") || c.name == "kubectl" && anyOf(c.args, "apply", "replace", "scale", "patch") {
		j.hit("infrastructure", c.name, all)
	}
	return handled()
}

func (j *evaluator) mounted(program, v string) {
	if i := strings.Index(v, "src="); i >= 0 {
		v = v[i+4:]
	} else if i := strings.Index(v, "source="); i >= 0 {
		v = v[i+7:]
	}
	v, _, _ = strings.Cut(v, ":")
	v, _, _ = strings.Cut(v, ",")
	if v == "" {
		return
	}
	for _, p := range j.resolve(v) {
		if classifyPath(p) != elsewhere || strings.HasSuffix(p, ".sock") || strings.HasPrefix(p, unknown) || secret(p) || j.owned(p) {
			j.hit("container", program, "")
		}
	}
}

// within judges the command that is run in a container, wherever it begins.
func (j *evaluator) within(c call, args []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		j.run(args[i+1:], c.stdin)
		return
	}
	o, rest := parse(args, "e u w n c l v p h name workdir user env entrypoint network volume mount label hostname memory cpus platform pod container namespace env-file publish", true)
	if e, ok := o.get("entrypoint"); ok && len(rest) > 0 {
		j.run(append([]string{e}, rest[1:]...), c.stdin)
	}
	if len(rest) > 1 {
		j.run(rest[1:], c.stdin)
	}
}
