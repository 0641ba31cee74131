package release_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hermesd/internal/release"
)

// words returns the instructions of the Containerfile with its variables replaced.
func words(t *testing.T, version, arch string) (all [][]string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("${VERSION}", version, "${TARGETARCH}", arch).Replace(string(raw))
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(line, "#") {
			all = append(all, f)
		}
	}
	return all
}

func TestTheContainerIsMadeOfARelease(t *testing.T) {
	for _, target := range release.Targets() {
		if target.OS != "linux" {
			continue
		}
		unpacked, copied := "", map[string]string{}
		for _, f := range words(t, "v1.2.3", target.Arch) {
			switch {
			case f[0] == "ADD":
				unpacked = f[1]
			case f[0] == "COPY" && f[1] == "--from=release" && !strings.HasPrefix(f[2], "--"):
				copied[f[2]] = f[3]
			}
		}
		if want := "dist/v1.2.3/" + target.Archive("v1.2.3"); unpacked != want {
			t.Errorf("%v: it unpacks %s, want %s", target, unpacked, want)
		}
		folder := "/" + target.Name("v1.2.3") + "/"
		for from := range copied {
			if name, ok := strings.CutPrefix(from, folder); !ok || !holds(target, name) {
				t.Errorf("%v: it takes %s, which the archive does not hold", target, from)
			}
		}
		if got := copied[folder+target.Programs()[0]]; got != "/usr/local/bin/hermesd" {
			t.Errorf("%v: the program goes to %q", target, got)
		}
	}
}

func TestTheContainerIsNobodysRoot(t *testing.T) {
	last := map[string][]string{}
	for _, f := range words(t, "v1.2.3", "amd64") {
		last[f[0]] = f[1:]
	}
	line := func(name string) string { return strings.Join(last[name], " ") }
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(line("USER")) {
		t.Errorf("it runs as %q; only a number proves that it is not root", line("USER"))
	}
	owner := regexp.MustCompile(`--chown=(\S+) --chmod=0700 /empty/ /var/lib/$`).FindStringSubmatch(line("COPY"))
	if owner == nil || owner[1] != line("USER") {
		t.Errorf("the home is made by %q", line("COPY"))
	}
	if home := "/var/lib/hermesd"; line("ENV") != "HERMES_HOME="+home || line("VOLUME") != home {
		t.Errorf("the home is %q, the volume %q", line("ENV"), line("VOLUME"))
	}
	if line("ENTRYPOINT") != `["/usr/local/bin/hermesd"]` || line("CMD") != `["run"]` {
		t.Errorf("it starts %s %s", line("ENTRYPOINT"), line("CMD"))
	}
	if !strings.HasSuffix(line("HEALTHCHECK"), `CMD ["/usr/local/bin/hermesd", "status"]`) {
		t.Errorf("its health is %s", line("HEALTHCHECK"))
	}
}
