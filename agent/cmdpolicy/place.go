package cmdpolicy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Place says where a command runs and where the files are that need an approval. All paths
// are absolute. The zero Place is a directory of which nothing is known.
type Place struct {
	Dir       string   // the directory in which the command runs
	Workspace []string // names of the directory in which commands work, the one without symbolic links first; nil: Dir
	Homes     []string // names of the user's home directory; "~" is the first one
	// Own lists files and directories of the daemon. What is in Workspace is excepted from a
	// directory that contains Workspace.
	Own []string
	// Readable lists directories of the daemon that commands may read without an approval.
	Readable []string
	// Instructs reports whether agents read the file at a path as instructions, so that a
	// change needs an approval; nil: no file.
	Instructs func(path string) bool
}

// A place is a Place in the form that the evaluator compares.
type place struct {
	dir       string // "" if it is not known
	workspace string
	homes     []string
	aliases   []string // other names of workspace
	own       []string // with "~" for the home directory, in lower case
	readable  []string // with "~" for the home directory
	instructs func(string) bool
	// separate says that the workspace is apart from the user's home and the system: names in
	// it are relative to dir. Otherwise all names are absolute.
	separate bool
}

func newPlace(p Place) place {
	at := place{dir: slashed(p.Dir), instructs: p.Instructs}
	at.workspace = at.dir
	for i, w := range p.Workspace {
		if w = slashed(w); i == 0 {
			at.workspace = w
		} else {
			at.aliases = append(at.aliases, w)
		}
	}
	for _, h := range p.Homes {
		if h = slashed(h); h != "" && h != "/" {
			at.homes = append(at.homes, h)
		}
	}
	for _, o := range p.Own {
		at.own = append(at.own, strings.ToLower(at.withTilde(slashed(o))))
	}
	for _, r := range p.Readable {
		at.readable = append(at.readable, at.withTilde(slashed(r)))
	}
	c := classifyPath(at.withTilde(at.workspace))
	at.separate = at.dir != "" && c != systemRoot && c != homeRoot && !slices.ContainsFunc(at.homes, func(h string) bool { return under(h, at.workspace) })
	return at
}

// slashed returns an absolute path in the form of a shell, "" for "".
func slashed(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean("/" + filepath.ToSlash(p))
}

// withTilde writes the user's home directory, and what looks like that of another user, as "~".
func (at place) withTilde(p string) string {
	for _, h := range at.homes {
		if under(p, h) {
			return "~" + p[len(h):]
		}
	}
	return homes(p)
}

// absolute returns the absolute form of a path that is relative to dir.
func (at place) absolute(p string) string {
	if at.dir == "" || isAnchored(p) {
		return p
	}
	return path.Clean(at.dir + "/" + p)
}

// isAnchored reports whether a path does not depend on the directory.
func isAnchored(p string) bool {
	return strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || strings.HasPrefix(p, unknown)
}

// relative returns an absolute path relative to dir if it is in a separate workspace.
func (at place) relative(p string) (string, bool) {
	for _, w := range at.aliases {
		if under(p, w) {
			p = path.Clean(at.workspace + p[len(w):])
			break
		}
	}
	if !at.separate || !under(p, at.workspace) {
		return p, false
	}
	r, err := filepath.Rel(at.dir, p)
	return filepath.ToSlash(r), err == nil
}

// settle returns the form in which a located path is judged: relative to dir in a separate
// workspace, otherwise absolute. A path that leads out of dir, but not from the directory in
// which the script most likely is, stays as it is unless it leads to something of value.
func (at place) settle(p string, likely bool) string {
	if at.dir == "" || isAnchored(p) {
		return p
	}
	abs := at.absolute(p)
	if r, ok := at.relative(abs); ok {
		return keepSlash(r, p)
	}
	full := keepSlash(at.withTilde(abs), p)
	if likely || !strings.HasPrefix(p, "..") || strings.HasPrefix(p, strings.Repeat("../", deep)) ||
		classifyPath(full) == inSystem || secret(full) || at.contains(full, false) {
		return full
	}
	return p
}

// keepSlash returns p with the slash that marks something unknown in a directory.
func keepSlash(p, as string) string {
	if strings.HasSuffix(as, "/") && !strings.HasSuffix(p, "/") {
		return p + "/"
	}
	return p
}

// directory returns the directory in which the script most likely is.
func (j *evaluator) directory() string { return j.place.absolute(j.dirs[len(j.dirs)-1]) }

// contains reports whether p is in one of the own paths; with around, also in one that
// contains the workspace. Case is ignored, because some file systems ignore it.
func (at place) contains(p string, around bool) bool {
	p, work := strings.ToLower(p), strings.ToLower(at.withTilde(at.workspace))
	return slices.ContainsFunc(at.own, func(o string) bool {
		return (under(p, o) || patternOf(p, o)) && (around || !under(work, o))
	})
}

// isReadable reports whether a resolved path may be read although the daemon owns it.
func (at place) isReadable(p string) bool {
	full := at.withTilde(at.absolute(p))
	return slices.ContainsFunc(at.readable, func(dir string) bool { return under(full, dir) })
}

// owned reports whether a resolved path belongs to the daemon itself.
func (j *evaluator) owned(p string) bool {
	at := j.place
	if at.dir == "" || strings.HasPrefix(p, unknown) {
		return ownedName(p)
	}
	full := at.withTilde(at.absolute(p))
	workspace := at.withTilde(at.workspace)
	switch work := under(full, workspace); {
	case work && at.contains(full, false):
		return true
	case work:
		return ownedName(strings.TrimPrefix(strings.TrimPrefix(full, workspace), "/"))
	case !isAnchored(p): // settle has left it
		return ownedName(p)
	}
	return at.contains(full, true) || ownedName(full)
}
