// Package release makes what is handed to people: for each platform an archive
// with the program and what belongs to it, an inventory of what it is made of
// (SBOM), and one list of checksums. The same commit, built with the same
// version of Go, gives the same bytes wherever and whenever it is built.
package release

import (
	"fmt"
	"slices"
	"strings"
)

// A Target is a platform that a release is made for.
type Target struct{ OS, Arch string }

// Targets returns the platforms of a release. arm is ARMv6, so that it also
// runs on the smallest Raspberry Pi.
func Targets() []Target {
	return []Target{
		{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "arm"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{"windows", "amd64"}, {"windows", "arm64"},
	}
}

// ParseTargets reads a list such as linux/arm64,windows/amd64; "" means all.
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

// Program returns the file name of the program.
func (t Target) Program() string {
	if t.OS == "windows" {
		return "hermesd.exe"
	}
	return "hermesd"
}

// Name returns what the files of a version are called: the folder that its
// archive holds, and with an ending the archive and the SBOM.
func (t Target) Name(version string) string {
	return "hermesd_" + version + "_" + t.OS + "_" + t.Arch
}

// Archive returns the file name of the archive of a version.
func (t Target) Archive(version string) string {
	if t.OS == "windows" {
		return t.Name(version) + ".zip"
	}
	return t.Name(version) + ".tar.gz"
}

// Contents returns what the archive holds, as paths below its folder. A name
// that ends in / is a folder with all that is in it. It is only what is of use
// on that platform: units on Linux, manual pages where there is a man.
func (t Target) Contents() []string {
	all := append([]string{t.Program()}, fromSource...)
	all = append(all, fromMade...)
	if t.OS != "windows" {
		all = append(all, "man/")
	}
	if t.OS == "linux" {
		all = append(all, units...)
	}
	return all
}

// What an archive holds beside the program: of the repository, made for it, and
// for Linux.
var (
	fromSource = []string{"ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "config.example.yaml", "docs/"}
	fromMade   = []string{licences, "completions/"}
	units      = []string{"systemd/hermesd.service", "systemd/hermesd-user.service"}
)

// licences is the file with the licences of what the program is made of.
const licences = "THIRD_PARTY_LICENSES.txt"
