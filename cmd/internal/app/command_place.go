package app

import (
	"os"
	"path/filepath"
	"slices"

	"hermesd/agent/cmdpolicy"
)

// commandPlace returns what the command policy must know of the machine for a command
// that runs in dir.
func (a *App) commandPlace(dir string) cmdpolicy.Place {
	p := SandboxPolicy(a.opts.Config, a.opts.Report, a.opts.Home)
	work := realPaths(a.prompts.workspace)
	slices.Reverse(work)
	own := realPaths(append(p.Hide, homeFiles(a.opts.Home)...)...)
	return cmdpolicy.Place{Dir: dir, Workspace: work, Homes: userHomes(), Own: own, Readable: realPaths(p.Read...)}
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
