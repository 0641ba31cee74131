package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/tools/terminal"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/profile"
	"hermesd/cmd/internal/userns"
	"hermesd/internal/spawn"
	"hermesd/storage"
)

// SandboxPolicy returns what commands may do under a configuration.
func SandboxPolicy(c *config.Config, r config.Report, home string) spawn.Policy {
	in := func(names ...string) string { return filepath.Join(append([]string{home}, names...)...) }
	return spawn.Policy{
		Write: []string{c.Workspace(home)}, Read: append([]string{in("cache", "terminal"), in("cache", "media"), in("skills")}, c.ReadPaths(home)...),
		Hide: hiddenPaths(c, r, home), Network: c.Terminal.Network, Temp: in("cache", "tmp"), Processes: c.Terminal.MaxProcesses,
	}
}

// hiddenPaths returns the paths that commands cannot see: the home directory, for a
// profile also the main one, and files with secrets in other places. A home directory
// that is the workspace itself cannot be hidden: its files are.
func hiddenPaths(c *config.Config, r config.Report, home string) []string {
	hidden := slices.Clone(r.SecretFiles)
	for _, file := range []string{r.File, c.LogFile(home)} {
		if abs, err := filepath.Abs(file); err == nil && file != "" { // --config may be relative
			hidden = append(hidden, abs)
		}
	}
	homes := []string{home}
	if main, err := profile.Home(home, ""); err == nil && main != home {
		homes = append(homes, main)
	}
	for _, h := range homes {
		if isSameDir(h, c.Workspace(home)) {
			hidden = append(hidden, homeFiles(h)...)
		} else {
			hidden = append(hidden, h)
		}
	}
	return hidden
}

// isSameDir reports whether two paths name the same directory.
func isSameDir(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// homeDirs are the directories of a home directory that belong to the daemon.
func homeDirs() []string {
	return []string{"backups", "cache", "cron", "logs", "memories", "plugins", "profiles", "scripts"}
}

// homeFiles returns the paths of everything that the daemon keeps in a home directory,
// except for what commands may read.
func homeFiles(home string) []string {
	names := slices.Concat(homeDirs(), []string{
		".env", "config.yaml", "SOUL.md", modelsFile, "hermesd.db", "hermesd.db.compact", "hermesd.starts", "search.db",
		keyFile, scrapeKeyFile, admin.SocketName, admin.PathName, storage.LockName, "setup.plan", "restore.plan",
	})
	var paths []string
	for _, n := range names {
		paths = append(paths, filepath.Join(home, n))
	}
	for _, pattern := range []string{"hermesd.db.*", "search.db.*", "before-restore-*", admin.BackupDir + "*", ".hermesd-*", ".setup-*"} {
		more, err := filepath.Glob(filepath.Join(home, pattern))
		if err == nil { // the only error is an invalid pattern, such as a home directory with brackets in its name
			paths = append(paths, more...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// makeSandboxDirs creates the directories that must exist when the sandbox is opened:
// what does not exist can be neither shown nor hidden.
func (a *App) makeSandboxDirs(p spawn.Policy) error {
	dirs := append([]string{MediaDir(a.home), a.home.Path("cache", "terminal"), a.home.Path("skills")}, p.Write...)
	if isSameDir(a.opts.Home, a.prompts.workspace) {
		for _, name := range homeDirs() {
			dirs = append(dirs, a.home.Path(name))
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create directory for commands: %w", err)
		}
	}
	return nil
}

// openSandbox begins to open the sandbox, which takes a while, so that the daemon is
// built meanwhile. a.sandbox returns the result.
func (a *App) openSandbox(ctx context.Context) error {
	c := a.opts.Config.Terminal
	if !c.Enabled {
		a.sandbox = noSandbox
		return nil
	}
	policy := SandboxPolicy(a.opts.Config, a.opts.Report, a.opts.Home)
	if err := a.makeSandboxDirs(policy); err != nil {
		return err
	}
	var opening sync.WaitGroup
	var box *spawn.Sandbox
	var err error
	ctx, cancel := context.WithCancel(ctx)
	opening.Go(func() { box, err = spawn.Open(ctx, spawn.Mode(c.Sandbox), policy) }) // runCleanups waits for it
	a.sandbox = func() (*spawn.Sandbox, error) { opening.Wait(); return box, err }
	a.cleanups = append(a.cleanups, func() error { cancel(); opening.Wait(); return nil })
	return nil
}

// noSandbox is App.sandbox if commands are disabled.
func noSandbox() (*spawn.Sandbox, error) { return nil, nil }

// reportSandbox logs which sandbox is in use. If there is none, it also says at the
// start what the operator can do.
func (a *App) reportSandbox() {
	s := a.sandboxReport()
	if s.HasTerminal() {
		a.opts.Log.Info(s.Text)
		return
	}
	a.opts.Log.Error("no sandbox works; the agent has no terminal", zap.String("err", s.Error), zap.Any("limits", s.Limits))
	a.opts.Say("⚠️ The agent has no terminal: " + s.Error)
	for _, l := range s.Limits {
		a.opts.Say("   " + l.Cause + ": " + l.Fix)
	}
}

// sandboxReport describes the sandbox of the daemon.
func (a *App) sandboxReport() admin.Sandbox {
	box, err := a.sandbox()
	return describeSandbox(a.opts.Config, SandboxPolicy(a.opts.Config, a.opts.Report, a.opts.Home), box, err)
}

// errNoTerminal is the answer of the terminal tools to calls of conversations whose
// prompts still offer them, while no sandbox works.
func errNoTerminal(err error) error {
	return fmt.Errorf("no command runs here, because there is no sandbox for it (%w); tell the person that the operator can change this: `hermesd sandbox` says how", err)
}

// withoutTerminal removes the terminal tools from ts if no sandbox works. They remain
// callable: a conversation that had them before is told why they do not work.
func (a *App) withoutTerminal(ts []llm.Tool) []llm.Tool {
	if _, err := a.sandbox(); err == nil {
		return ts
	}
	return slices.DeleteFunc(ts, func(t llm.Tool) bool { return t.Name == terminal.Name || t.Name == terminal.ProcessName })
}

// CheckSandbox opens the sandbox as the daemon does, and describes it. It changes
// nothing in the home directory: directories that do not exist yet are replaced by a
// temporary one.
func CheckSandbox(ctx context.Context, c *config.Config, r config.Report, home string) admin.Sandbox {
	p := SandboxPolicy(c, r, home)
	if !c.Terminal.Enabled {
		return describeSandbox(c, p, nil, nil)
	}
	probe := p
	tmp, err := os.MkdirTemp("", "hermesd-sandbox-")
	if err != nil {
		return describeSandbox(c, p, nil, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a leftover is harmless
	if isMissing(p.Write[0]) {
		probe.Write = []string{tmp}
	}
	if isMissing(p.Temp) {
		probe.Temp = tmp
	}
	box, err := spawn.Open(ctx, spawn.Mode(c.Terminal.Sandbox), probe)
	return describeSandbox(c, p, box, err)
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// describeSandbox describes the result of opening a sandbox.
func describeSandbox(c *config.Config, p spawn.Policy, box *spawn.Sandbox, err error) admin.Sandbox {
	s := admin.Sandbox{Enabled: c.Terminal.Enabled, Mode: c.Terminal.Sandbox, Mechanism: string(spawn.None)}
	switch {
	case !s.Enabled:
		s.Text = "the agent has no terminal (terminal.enabled: false)"
		return s
	case err != nil:
		s.Text, s.Error = "the agent has no terminal", err.Error()
	case spawn.Mode(s.Mode) == spawn.Off:
		s.Text = "commands run without a sandbox, with all rights of this account (terminal.sandbox: off)"
		return s
	default:
		st := box.Status()
		s.Mechanism, s.Text, s.ABI, s.Network, s.Processes, s.Tested, s.Reasons = string(st.Mechanism), st.String(), st.ABI, st.Net, st.Bound, st.Tested, st.Reason
	}
	s.Write, s.Read, s.Hidden = append(slices.Clone(p.Write), p.Temp), append(spawn.SystemPaths(), p.Read...), p.Hide
	s.Read = slices.DeleteFunc(s.Read, isMissing)
	if m := spawn.Mechanism(s.Mechanism); m == spawn.None || m == spawn.Landlock {
		for _, r := range userns.Restrictions(userns.Proc) {
			s.Limits = append(s.Limits, admin.Limit(r))
		}
	}
	return s
}
