package protected_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/agent/protected"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPath(t *testing.T) {
	seen := map[string]bool{}
	for word, paths := range map[string]string{
		"start": `.bashrc a/.bash_profile .zshenv .profile ~/.bashrc ~/.config/fish/config.fish a/.config/fish/conf.d/x.fish ~/.vimrc .inputrc ~/.foorc ~/.local/bin/ls`,
		"git": `.git/hooks/pre-commit .git/hooks a/.git/hooks/x/y .git/config a/b/.git/config.worktree .git/modules/sub/config .git/worktrees/w/gitdir ` +
			`.git/commondir x.git/hooks/update x.git/config .git .gitconfig ~/.gitconfig a/HEAD .GIT/hooks/x .Git/CONFIG git~1/config .gi` + "\u200c" + `t/config .git./hooks/x /w/.git/hooks/x`,
		"SSH":    `.ssh/config ~/.ssh/authorized_keys a/.ssh/rc .SSH/config .rhosts authorized_keys`,
		"itself": `~/Library/LaunchAgents/x.plist .config/autostart/x.desktop a/.config/systemd/user/x.service /etc/systemd/system/x.timer /etc/cron.d/x /var/spool/cron/ann crontab`,
		"CI":     `.github/workflows/ci.yml a/.github/workflows/ci.yaml .github/actions/x/action.yml .gitlab-ci.yml .GitLab-CI.yaml .circleci/config.yml Jenkinsfile Jenkinsfile.release .travis.yml .ci/run.sh azure-pipelines.yml`,
		"editor": `.envrc .mcp.json a/.cursor/mcp.json .claude/settings.json a/.envrc .vscode/tasks.json .vscode/settings.json a/.vscode/launch.json .npmrc .pre-commit-config.yaml .husky/pre-commit lefthook.yml .devcontainer/devcontainer.json x.code-workspace .yarnrc.yml .cargo/config.toml`,
	} {
		for p := range strings.FieldsSeq(paths) {
			got := protected.Path(p)
			if seen[got] = true; !strings.Contains(got, word) {
				// "~/." is what programs read when they start, whatever else it is
				if !strings.HasPrefix(p, "~/.") || got == "" {
					t.Errorf("%s: got %q, want %q", p, got, word)
				}
			}
		}
	}
	for _, p := range strings.Fields(`a.txt main.go .gitignore .gitattributes .gitmodules .github/CODEOWNERS .github/ISSUE_TEMPLATE/a.md config .config/x hooks/x git/hooks/x a.git .git/info/exclude ` +
		`.git/COMMIT_EDITMSG src/head.go header.h app.service deploy/x.timer .eslintrc .env.example Makefile package.json .vscode/extensions.json docs/.bashrc.md ~/a.txt ~/.cache/x ~/.local/share/x /etc/x ssh/config cron.d/x CI.md ` +
		`/home/ann/.hermes/workspace/a.txt .`) {
		if got := protected.Path(p); got != "" {
			t.Errorf("%s: got %q", p, got)
		}
	}
	seen[protected.Manifest("package.json", nil, []byte(`{"scripts":{"a":"b"}}`))] = true
	for _, p := range []string{"AGENTS.md", "a/agents.MD", "/w/CLAUDE.md", "CLAUDE.local.md", "SOUL.md", ".hermes.md", ".cursorrules", "a/.cursor/rules/x.mdc", ".github/copilot-instructions.md", "x.mdc", "agents.md. "} {
		got := protected.Instructions(p, []string{"*.MDC"})
		if seen[got] = true; got == "" {
			t.Errorf("%s needs no approval", p)
		}
	}
	for _, p := range []string{"/home/ann/.hermes/workspace/a.txt", "agents.txt", "README.md", "notes/soul.md.bak"} {
		if got := protected.Instructions(p, nil); got != "" {
			t.Errorf("%s: got %q", p, got)
		}
	}
	for _, r := range protected.Reasons {
		if !seen[r] {
			t.Errorf("nothing has the reason %q", r)
		}
	}
}

func TestManifest(t *testing.T) {
	const toml = "[project]\nname = \"x\"\nversion = \"1\"\n\n[build-system]\nrequires = [\"hatchling\"]\n"
	for _, c := range []struct {
		sentence, path, before, after string
		ask                           bool
	}{
		{"a version", "a/package.json", `{"version":"1","scripts":{"test":"jest"}}`, "{\n  \"scripts\": {\"test\": \"jest\"},\n  \"version\": \"2\"\n}", false},
		{"a dependency", "package.json", `{}`, `{"dependencies":{"x":"1"}}`, false},
		{"a new manifest without scripts", "package.json", "", `{"name":"x"}`, false},
		{"a new manifest with a script", "package.json", "", `{"scripts":{"test":"jest"}}`, true},
		{"another script", "package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"jest","postinstall":"./x"}}`, true},
		{"a changed script", "Package.JSON", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"./x"}}`, true},
		{"an escaped key", "package.json", `{}`, `{"\u0073cripts":{"test":"./x"}}`, true},
		{"a key twice", "package.json", `{"scripts":{"a":"b"}}`, `{"scripts":{"a":"b"},"scripts":{"a":"c"}}`, true},
		{"a byte order mark", "package.json", "", "\ufeff" + `{"scripts":{"a":"b"}}`, true},
		{"a hook", "package.json", `{}`, `{"husky":{"hooks":{"pre-commit":"./x"}}}`, true},
		{"JSON with a mistake", "package.json", `{}`, `{"scripts":{"a":"b"},}`, true},
		{"JSON with a mistake and no scripts", "package.json", `{}`, `{"name":"x",}`, false},
		{"scripts of composer", "composer.json", `{}`, `{"scripts":{"post-install-cmd":"./x"}}`, true},
		{"another file", "data.json", `{}`, `{"scripts":{"a":"b"}}`, false},
		{"a version in TOML", "pyproject.toml", toml, strings.Replace(toml, `"1"`, `"2"`, 1), false},
		{"a build backend", "pyproject.toml", toml, toml + "build-backend = \"x\"\nbackend-path = [\".\"]\n", true},
		{"a task", "pyproject.toml", toml, toml + "[tool.poe.tasks]\ntest = \"./x\"\n", true},
		{"a script in a dotted key", "pyproject.toml", toml, toml + "[tool.pdm]\nscripts.post_install = \"./x\"\n", true},
		{"an entry point", "pyproject.toml", toml, toml + "[project.scripts]\nx = \"x:main\"\n", false},
		{"a comment", "pyproject.toml", toml, toml + "# it has no scripts\n", false},
	} {
		var before []byte
		if c.before != "" {
			before = []byte(c.before)
		}
		got := protected.Manifest(c.path, before, []byte(c.after))
		if (got != "") != c.ask || got != "" && !slices.Contains(protected.Reasons, got) {
			t.Errorf("%s: got %q, want an approval: %v", c.sentence, got, c.ask)
		}
	}
}
