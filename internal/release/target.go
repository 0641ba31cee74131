// Package release builds reproducible releases: for each platform an archive with the
// programs and their files, a software bill of materials (SBOM) of each, and one list of
// checksums. The main function is Make. The same commit built with the same version of Go
// results in the same bytes on every machine. Publishing is not part of this package.
package release

import (
	"fmt"
	"slices"
	"strings"
)

// A Target is a platform for which a release is built.
type Target struct{ OS, Arch string }

// Targets returns the platforms of a release. arm is ARMv6, for the smallest Raspberry
// Pi.
func Targets() []Target {
	return []Target{
		{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "arm"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{"windows", "amd64"}, {"windows", "arm64"},
	}
}

// ParseTargets parses a list such as linux/arm64,windows/amd64; "" means all.
func ParseTargets(list string) ([]Target, error) {
	if list == "" {
		return Targets(), nil
	}
	var some []Target
	for name := range strings.SplitSeq(list, ",") {
		goos, arch, _ := strings.Cut(strings.TrimSpace(name), "/")
		t := Target{goos, arch}
		if !slices.Contains(Targets(), t) {
			return nil, fmt.Errorf("there are no releases for %q; there are for %v", name, Targets())
		}
		if !slices.Contains(some, t) {
			some = append(some, t)
		}
	}
	return some, nil
}

func (t Target) String() string { return t.OS + "/" + t.Arch }

// programs are the names of the programs of a release. Their packages are below cmd.
var programs = []string{"hermesd", "hermesd-demo"}

// Tag is the build tag of a release. With it hermesd contains no simulators: they are in
// hermesd-demo.
const Tag = "release"

// Programs returns the file names of the programs, that of the daemon first.
func (t Target) Programs() []string {
	files := slices.Clone(programs)
	if t.OS == "windows" {
		for i := range files {
			files[i] += ".exe"
		}
	}
	return files
}

// Name returns the name of the directory in the archive of a version and, without
// extension, of the archive.
func (t Target) Name(version string) string { return t.nameOf("hermesd", version) }

// nameOf returns the name of a program's files, without extension.
func (t Target) nameOf(program, version string) string {
	return program + "_" + version + "_" + t.OS + "_" + t.Arch
}

// Archive returns the file name of the archive of a version.
func (t Target) Archive(version string) string {
	if t.OS == "windows" {
		return t.Name(version) + ".zip"
	}
	return t.Name(version) + ".tar.gz"
}

// Contents returns the contents of the archive, as paths below its directory. A name that
// ends in / is a directory with everything below it. Only files of use on the platform are
// included: units on Linux, manual pages on systems with man.
func (t Target) Contents() []string {
	all := append(t.Programs(), fromSource...)
	all = append(all, fromMade...)
	if t.OS != "windows" {
		all = append(all, "man/")
	}
	if t.OS == "linux" {
		all = append(all, units...)
	}
	return all
}

// The contents of an archive besides the programs: files of the repository, generated
// files, and files for Linux.
var (
	fromSource = []string{"ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "config.example.yaml", "docs/"}
	fromMade   = []string{licences, "completions/"}
	units      = []string{"systemd/hermesd.service", "systemd/hermesd-user.service"}
)

// licences is the name of the file with the licenses of all linked modules.
const licences = "THIRD_PARTY_LICENSES.txt"
