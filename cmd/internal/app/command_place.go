package app

import (
	"os"
	"path/filepath"
	"slices"

	"hermesd/agent/cmdpolicy"
)

// commandPlace returns what the command policy must know of the machine for a command
// that runs in dir. What the sandbox hides belongs to the daemon.
func (a *App) commandPlace(dir string) cmdpolicy.Place {
	p := SandboxPolicy(a.opts.Config, a.opts.Report, a.opts.Home)
	own := p.Hide
	for _, file := range homeFiles(a.opts.Home) { // also where all of the home directory is hidden
		// the names of most directories in it are usual in a workspace too
		if name := filepath.Base(file); name == "memories" || !slices.Contains(homeDirs(), name) {
			own = append(own, file)
		}
	}
	work := realPaths(a.prompts.workspace)
	slices.Reverse(work)
	return cmdpolicy.Place{Dir: dir, Workspace: work, Homes: userHomes(), Own: realPaths(own...), Readable: realPaths(p.Read...),
		Instructs: func(path string) bool { return a.instructs(path) != "" }}
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
