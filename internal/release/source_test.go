package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermesd/internal/release"
)

// repo creates a repository with one commit of 2026-01-02, and returns it with a func that
// runs git in it.
func repo(t *testing.T) (string, func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", ".")
	put(t, filepath.Join(dir, "a", "b.txt"), "committed\n")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	return dir, git
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func source(t *testing.T, dir, ref string) release.Source {
	t.Helper()
	s, err := release.ReadSource(t.Context(), dir, ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheVersionComesFromTheTags(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, git := repo(t)
	s := source(t, dir, "HEAD")
	if want := "v0.0.0-20260102030405-" + git("rev-parse", "HEAD")[:12]; s.Version != want || s.Commit != git("rev-parse", "HEAD") {
		t.Errorf("without a tag it is %+v, want version %s", s, want)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !s.Time.Equal(want) || s.Time.Location() != time.UTC {
		t.Errorf("its time is %v, want %v", s.Time, want)
	}
	git("tag", "nightly")
	git("tag", "v1.2.3")
	if s := source(t, dir, "HEAD"); s.Version != "v1.2.3" {
		t.Errorf("with a tag it is %s", s.Version)
	}
	git("commit", "-q", "--allow-empty", "-m", "two")
	if s := source(t, dir, "HEAD"); !regexp.MustCompile(`^v1\.2\.3-1-g[0-9a-f]{12}$`).MatchString(s.Version) {
		t.Errorf("after a tag it is %s", s.Version)
	}
	if s := source(t, dir, "v1.2.3"); s.Version != "v1.2.3" {
		t.Errorf("the tag itself is %s", s.Version)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if s := source(t, dir, "v1.2.3"); !s.Time.Equal(time.Unix(86400, 0)) {
		t.Errorf("SOURCE_DATE_EPOCH is not its time: %v", s.Time)
	}
}

func TestASourceThatCannotBeIsRefused(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, git := repo(t)
	git("tag", "v1$(id)")
	for ref, want := range map[string]string{"no-such": "not found", "--help": "not found", "HEAD": "cannot be part of a file name"} {
		if s, err := release.ReadSource(t.Context(), dir, ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", ref, s, err, want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := release.ReadSource(t.Context(), dir, "HEAD"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyWhatIsCommittedIsReleased(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	dir, git := repo(t)
	put(t, filepath.Join(dir, "a", "b.txt"), "changed")
	put(t, filepath.Join(dir, "new.txt"), "new")
	git("config", "core.autocrlf", "true") // the default on Windows
	out := t.TempDir()
	if err := source(t, dir, "HEAD").Export(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(out, "a", "b.txt")); err != nil || string(got) != "committed\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(out, "new.txt")); err == nil {
		t.Error("a file that is not committed is there")
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	git("add", ".")
	git("commit", "-q", "-m", "a link")
	if err := source(t, dir, "HEAD").Export(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a link: %v", err)
	}
}
