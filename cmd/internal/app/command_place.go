package app

import (
	"os"
	"path/filepath"
	"slices"

	"hermesd/agent/cmdpolicy"
	"hermesd/agent/tools/terminal"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/active"
	"hermesd/internal/spawn"
)

// commandRules say where and how commands run.
type commandRules struct {
	opts    Options
	prompts *promptInputs
	active  *active.Turns
	sandbox func() (*spawn.Sandbox, error)
}

// place returns what the command policy must know of the machine for a command.
func (s commandRules) place(r terminal.PolicyRequest) cmdpolicy.Place {
	p := PolicyPlace(s.opts.Config, s.opts.Report, s.opts.Home, s.prompts.workspace)
	p.Dir, p.NeedsNetwork = r.Dir, r.Network
	box, err := s.sandbox() // if it fails, the command does not run
	if err == nil {
		p.Sandbox = SandboxKind(box.Status())
		p.NoNetwork = p.Sandbox != cmdpolicy.NoSandbox && !s.opts.Config.Terminal.Network
	}
	p.Listening = func(port uint16) bool { return slices.Contains(r.ListeningPorts(), port) }
	return p
}

// PolicyPlace returns what the command policy must know of the machine for commands in a
// workspace: what belongs to the daemon, what may be read, and the table. What the sandbox
// hides belongs to the daemon.
func PolicyPlace(c *config.Config, r config.Report, home, workspace string) cmdpolicy.Place {
	p := SandboxPolicy(c, r, home)
	own := p.Hide
	for _, file := range homeFiles(home) { // also where all of the home directory is hidden
		// the names of most directories in it are usual in a workspace too
		if name := filepath.Base(file); name == "memories" || !slices.Contains(homeDirs(), name) {
			own = append(own, file)
		}
	}
	work := realPaths(workspace)
	slices.Reverse(work)
	return cmdpolicy.Place{
		Workspace: work, Homes: userHomes(), Own: realPaths(own...), Readable: realPaths(p.Read...), Table: r.Commands,
		Instructs: func(path string) bool { return instructs(c, path) != "" },
	}
}

// SandboxKind returns what the command policy calls a sandbox.
func SandboxKind(s spawn.Status) cmdpolicy.Sandbox {
	switch {
	case s.Full():
		return cmdpolicy.Full
	case s.Mechanism == spawn.None:
		return cmdpolicy.NoSandbox
	}
	return cmdpolicy.Landlock
}

// userHomes returns the names of the home directory of the daemon's account.
func userHomes() []string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return nil
	}
	return realPaths(home)
}

// realPaths returns each path as it is and, if that is different, with symbolic links
// resolved. Of a path that does not exist the directory is resolved.
func realPaths(paths ...string) []string {
	var all []string
	for _, p := range paths {
		p = filepath.Clean(p)
		all = append(all, p)
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			if real, err = filepath.EvalSymlinks(filepath.Dir(p)); err != nil {
				continue
			}
			real = filepath.Join(real, filepath.Base(p))
		}
		if real != p {
			all = append(all, real)
		}
	}
	return all
}
