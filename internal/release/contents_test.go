package release_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hermesd/internal/release"
)

var root = filepath.Join("..", "..")

// holds reports whether the archive for t contains a file or a directory.
func holds(t release.Target, name string) bool {
	return slices.ContainsFunc(t.Contents(), func(item string) bool {
		return item == name || strings.HasPrefix(item, strings.TrimSuffix(name, "/")+"/") || strings.HasSuffix(item, "/") && strings.HasPrefix(name+"/", item)
	})
}

func TestTargetsAreReadByTheirNames(t *testing.T) {
	all, err := release.ParseTargets("")
	if err != nil || len(all) != 7 {
		t.Errorf("all are %v, %v", all, err)
	}
	some, err := release.ParseTargets("linux/arm, windows/arm64,linux/arm")
	if err != nil || !slices.Equal(some, []release.Target{{OS: "linux", Arch: "arm"}, {OS: "windows", Arch: "arm64"}}) {
		t.Errorf("some are %v, %v", some, err)
	}
	for _, list := range []string{"linux", "plan9/386", "linux/arm64,", "/"} {
		if got, err := release.ParseTargets(list); err == nil || !strings.Contains(err.Error(), "darwin/arm64") {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}

func TestWhatGoesIntoAnArchiveIsThere(t *testing.T) {
	for _, target := range release.Targets() {
		for _, want := range []string{target.Programs()[0], target.Programs()[1], "LICENSE", "README.md", "THIRD_PARTY_LICENSES.txt", "completions/", "config.example.yaml"} {
			if !holds(target, want) {
				t.Errorf("%v: %s is missing", target, want)
			}
		}
		if got, want := holds(target, "man/"), target.OS != "windows"; got != want {
			t.Errorf("%v: manual pages are %v", target, got)
		}
		if got, want := holds(target, "systemd/hermesd.service"), target.OS == "linux"; got != want {
			t.Errorf("%v: units are %v", target, got)
		}
		for _, item := range target.Contents()[2:] {
			if slices.Contains([]string{"THIRD_PARTY_LICENSES.txt", "completions/", "man/"}, item) {
				continue // generated
			}
			if info, err := os.Stat(filepath.Join(root, item)); err != nil || info.IsDir() != strings.HasSuffix(item, "/") {
				t.Errorf("%v: %s: %v", target, item, err)
			}
		}
	}
}

// The simulators of a release are in hermesd-demo, not in the daemon.
func TestReleasedDaemonHasNoSimulators(t *testing.T) {
	simulators := func(program string) (found []string) {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", release.Tag, "hermesd/cmd/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "hermesd/internal/sim/") || strings.HasPrefix(line, "hermesd/internal/daemontest") || strings.HasPrefix(line, "hermesd/cmd/internal/demo") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found
	}
	if found := simulators("hermesd"); len(found) > 0 {
		t.Errorf("hermesd contains %v", found)
	}
	if len(simulators("hermesd-demo")) == 0 {
		t.Error("hermesd-demo contains no simulators")
	}
}

// Links of pages in an archive lead to files in the archive.
func TestPagesOfAnArchiveLinkOnlyWhatIsInIt(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(raw), -1) {
			if to := path.Join(path.Dir(filepath.ToSlash(rel)), m[1]); !holds(release.Target{OS: "linux", Arch: "arm"}, to) {
				t.Errorf("%s links %s, which the archive does not hold", rel, m[1])
			} else if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links %s: %v", rel, m[1], err)
			}
		}
	}
}
