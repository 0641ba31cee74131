package release_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/internal/release"
)

var when = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// pack packs three files, created in the order of names, with the given mode and time.
func pack(t *testing.T, archive string, names []string, mode os.FileMode, clock time.Time) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		put(t, path, "this is "+name)
		m := mode
		if name == "hermesd" {
			m |= 0o100
		}
		if err := errors.Join(os.Chmod(path, m), os.Chtimes(path, clock, clock)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), archive)
	if err := release.Pack(file, dir, when); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestArchivesDoNotDependOnTheMachine(t *testing.T) {
	names := []string{"hermesd", "LICENSE", "docs/a.md", "docs-b.md"}
	for _, archive := range []string{"x_v1_linux_arm.tar.gz", "x_v1_windows_arm64.zip"} {
		one := pack(t, archive, names, 0o600, time.Unix(1e9, 0))
		slices.Reverse(names)
		other := pack(t, archive, names, 0o664, time.Unix(2e9, 5).In(time.FixedZone("", 5*3600)))
		if !bytes.Equal(one, other) {
			t.Errorf("%s: %x and %x", archive, sha256.Sum256(one), sha256.Sum256(other))
		}
	}
}

func TestAnArchiveHoldsFilesInOneFolder(t *testing.T) {
	names := []string{"hermesd", "LICENSE", "docs/a.md"}
	want := []string{
		"x_v1/LICENSE 644 2026-01-02 03:04:06 15 this is LICENSE",
		"x_v1/docs/a.md 644 2026-01-02 03:04:06 17 this is docs/a.md",
		"x_v1/hermesd 755 2026-01-02 03:04:06 15 this is hermesd",
	}
	line := func(name string, mode os.FileMode, at time.Time, size int64, r io.Reader) string {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %o %s %d %s", name, mode.Perm(), at.UTC().Format(time.DateTime), size, text)
	}

	var got []string
	z, err := gzip.NewReader(bytes.NewReader(pack(t, "x_v1.tar.gz", names, 0o640, time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s belongs to somebody: %+v", h.Name, h)
		}
		got = append(got, line(h.Name, h.FileInfo().Mode(), h.ModTime, h.Size, r))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(".tar.gz (-want +got):\n%s", diff)
	}

	got = nil
	raw := pack(t, "x_v1.zip", names, 0o640, time.Now())
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line(f.Name, f.Mode(), f.Modified, int64(f.UncompressedSize64), in))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(".zip (-want +got):\n%s", diff)
	}
}

func TestPackRefusesWhatItCannotKeep(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	if err := release.Pack(filepath.Join(out, "x.rar"), dir, when); err == nil {
		t.Error("a .rar was made")
	}
	if err := os.Symlink("a", filepath.Join(dir, "b")); err != nil {
		t.Skip(err)
	}
	if err := release.Pack(filepath.Join(out, "x.zip"), dir, when); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a link: %v", err)
	}
}

func TestSumsTellWhatDiffers(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, other} {
		put(t, filepath.Join(dir, "same"), "same")
		put(t, filepath.Join(dir, "differs"), dir)
	}
	put(t, filepath.Join(one, "only here"), "")
	put(t, filepath.Join(other, "only there"), "")
	for _, dir := range []string{one, other} {
		if err := release.WriteSums(dir); err != nil {
			t.Fatal(err)
		}
	}
	differ, err := release.Differences(one, other)
	if diff := cmp.Diff([]string{"differs", "only here", "only there"}, differ); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if differ, err := release.Differences(one, one); err != nil || len(differ) > 0 {
		t.Errorf("of the same: %v, %v", differ, err)
	}
	raw, err := os.ReadFile(filepath.Join(one, release.Sums))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x  same\n", sha256.Sum256([]byte("same"))); strings.Count(string(raw), "\n") != 3 || !strings.HasSuffix(string(raw), want) {
		t.Errorf("sums are %q, want at the end %q", raw, want)
	}
}
