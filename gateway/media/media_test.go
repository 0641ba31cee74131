package media_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/gateway/chat"
	"hermesd/gateway/media"
	"hermesd/internal/safehttp"
)

var limits = media.Config{MaxBytes: 1000, CacheBytes: 3000}

func open(t *testing.T, dir string, limits media.Config) *media.Cache {
	t.Helper()
	c, err := media.Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// content returns a fetch func that writes s in small pieces.
func content(s string) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{strings.NewReader(s)}, make([]byte, 7))
		return err
	}
}

func save(t *testing.T, c *media.Cache, s string, f chat.File) chat.File {
	t.Helper()
	got, err := c.Save(t.Context(), content(s), f)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "media")
	c := open(t, dir, limits)
	got := save(t, c, "hello", chat.File{Kind: chat.Document, Ref: "r1", Name: "a\x00/../b\u202etxt.exe", MIME: "text/markdown; charset=x", Size: 99})
	want := chat.File{
		Kind: chat.Document, Ref: "r1", Name: "a_.._btxt.exe", MIME: "text/markdown", Size: 5,
		Path: filepath.Join(dir, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824.txt"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raw, err := os.ReadFile(got.Path)
	if err != nil || string(raw) != "hello" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	info, err := os.Stat(got.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if len(names(t, dir)) != 1 || c.Bytes() != 5 {
		t.Errorf("there are %v with %d bytes", names(t, dir), c.Bytes())
	}
}

// A name never influences the path of the file.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	c := open(t, filepath.Join(dir, "media"), limits)
	for i, name := range []string{
		"../../etc/passwd", "/etc/passwd", `..\..\boot.ini`, "C:\\x", "a/../../b", "..", ".", "", "%2e%2e%2fx", "%252e%252e%252fx", "x\x00.png", "con", "-rf",
		strings.Repeat("../", 300), strings.Repeat("n", 5000), ".part-x", "file\n/etc", "\u202egnp.exe", "~/.ssh/authorized_keys", "$(reboot)", "http://x/y", "\xff\xfe",
	} {
		got := save(t, c, fmt.Sprint("content ", i), chat.File{Name: name, Ref: name})
		if filepath.Dir(got.Path) != filepath.Join(dir, "media") || len(filepath.Base(got.Path)) != 64+len(".txt") {
			t.Errorf("%q lies at %s", name, got.Path)
		}
		if strings.ContainsAny(got.Name, "/\\\n\x00\u202e") || len([]rune(got.Name)) > 240 {
			t.Errorf("%q is shown as %q", name, got.Name)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("next to the cache there are %v", got)
	}
}

func TestSaveSameContentOnce(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, limits)
	a := save(t, c, "same", chat.File{Name: "a"})
	b := save(t, c, "same", chat.File{Name: "b"})
	if a.Path != b.Path || b.Name != "b" || c.Bytes() != 4 || len(names(t, dir)) != 1 {
		t.Errorf("got %v and %v, %d bytes, %v", a, b, c.Bytes(), names(t, dir))
	}
}

// A file that was changed or replaced by a link is stored again.
func TestSaveAfterFileWasChanged(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, limits)
	outside := filepath.Join(t.TempDir(), "outside")
	for name, meddle := range map[string]func(path string) error{
		"removed":  os.Remove,
		"cut":      func(p string) error { return os.Truncate(p, 1) },
		"linked":   func(p string) error { return errors.Join(os.Remove(p), os.Symlink(outside, p)) },
		"emptied ": func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		f := save(t, c, "same", chat.File{})
		if err := meddle(f.Path); err != nil {
			t.Fatal(err)
		}
		f = save(t, c, "same", chat.File{})
		info, err := os.Lstat(f.Path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != 4 || c.Bytes() != 4 {
			t.Errorf("%s: %v, %v, %d bytes", name, info, err, c.Bytes())
		}
	}
	if _, err := os.Lstat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestSaveErrorStoresNothing(t *testing.T) {
	broken := errors.New("https://api.example/file/bot123:SECRET/x: broken")
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	gone, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(errors.New("stopped"))
	for _, c := range []struct {
		name    string
		ctx     context.Context
		fetch   func(context.Context, io.Writer) error
		size    int64
		problem string
	}{
		{"broken", t.Context(), func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "half")
			return errors.Join(err, broken)
		}, 0, "the file could not be fetched"},
		{"too large", t.Context(), content(strings.Repeat("x", 1001)), 0, "the file is larger than the 1000 bytes that can be taken"},
		{"too large, and fetch does not care", t.Context(), func(_ context.Context, w io.Writer) error {
			_, _ = w.Write(make([]byte, 1001))
			_, _ = w.Write([]byte("x"))
			return nil
		}, 0, "the file is larger than the 1000 bytes that can be taken"},
		{"declared too large", t.Context(), func(context.Context, io.Writer) error {
			return errors.New("was fetched")
		}, 2 << 20, "the file has 2 MB and at most 1000 bytes can be taken"},
		{"too late", late, content("x"), 0, "the file took too long to arrive"},
		{"stopped", gone, content("x"), 0, "the file could not be fetched"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cache := open(t, dir, limits)
			f, err := cache.Save(c.ctx, c.fetch, chat.File{Name: "n", Ref: "r", Size: c.size})
			if err == nil {
				t.Fatal("there is no error")
			}
			if diff := cmp.Diff(chat.File{Name: "n", Ref: "r", Size: c.size, FetchError: c.problem}, f); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var large *safehttp.TooLarge
			if errors.As(err, &large) != strings.Contains(c.problem, "taken") {
				t.Errorf("%v is a %T", err, err)
			}
			if got := names(t, dir); len(got) != 0 || cache.Bytes() != 0 {
				t.Errorf("there are %v with %d bytes", got, cache.Bytes())
			}
		})
	}
}

func TestSaveAtLimit(t *testing.T) {
	c := open(t, t.TempDir(), limits)
	if f := save(t, c, strings.Repeat("x", 1000), chat.File{Size: 1000}); f.Size != 1000 {
		t.Errorf("got %v", f)
	}
}

func TestPruneOldestFirst(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, limits)
	page := func(s string) string { return strings.Repeat(s, 1000) }
	a, b, d := save(t, c, page("a"), chat.File{}), save(t, c, page("b"), chat.File{}), save(t, c, page("d"), chat.File{})
	save(t, c, page("a"), chat.File{}) // saved again
	e := save(t, c, page("e"), chat.File{})
	there := func(fs ...chat.File) (all []bool) {
		for _, f := range fs {
			_, err := os.Stat(f.Path)
			all = append(all, err == nil)
		}
		return all
	}
	if diff := cmp.Diff([]bool{true, false, true, true}, there(a, b, d, e)); diff != "" {
		t.Errorf("a, b, d, e (-want +got):\n%s", diff)
	}
	if c.Bytes() != 3000 {
		t.Errorf("there are %d bytes", c.Bytes())
	}
	// The order survives a restart, and a smaller budget takes effect with it.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(e.Path, old, old); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, media.Config{MaxBytes: 1000, CacheBytes: 2000})
	if diff := cmp.Diff([]bool{true, true, false}, there(a, d, e)); diff != "" || c.Bytes() != 2000 {
		t.Errorf("%d bytes; a, d, e (-want +got):\n%s", c.Bytes(), diff)
	}
}

func TestOpenRemovesIncompleteFiles(t *testing.T) {
	dir := t.TempDir()
	keep := save(t, open(t, dir, limits), "keep", chat.File{})
	for _, name := range []string{".part-123", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, dir, limits)
	if diff := cmp.Diff([]string{filepath.Base(keep.Path), "notes.txt"}, names(t, dir)); diff != "" || c.Bytes() != 4 {
		t.Errorf("%d bytes (-want +got):\n%s", c.Bytes(), diff)
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	c := open(t, filepath.Join(dir, "media"), limits)
	f := save(t, c, "x", chat.File{})
	other := filepath.Join(dir, filepath.Base(f.Path))
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, filepath.Join(dir, "media", "..", filepath.Base(f.Path)), "/etc/passwd", "", f.Path, f.Path} {
		if err := c.Remove(path); err != nil {
			t.Errorf("Remove(%q): %v", path, err)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file outside is gone: %v", err)
	}
	if got := names(t, c.Dir()); len(got) != 0 || c.Bytes() != 0 {
		t.Errorf("there are %v with %d bytes", got, c.Bytes())
	}
}

func TestSaveConcurrently(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, media.Config{MaxBytes: 1000, CacheBytes: 1000})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				if _, err := c.Save(t.Context(), content(strings.Repeat(fmt.Sprint((i+k)%5), 400)), chat.File{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var total int64
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total != c.Bytes() || total > 1000 || total == 0 {
		t.Errorf("%d bytes lie there, %d are counted", total, c.Bytes())
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config media.Config
		ok     bool
	}{
		{media.Config{MaxBytes: 10, CacheBytes: 10}, true},
		{media.Config{MaxBytes: 0, CacheBytes: 10}, false},
		{media.Config{MaxBytes: 11, CacheBytes: 10}, false},
	} {
		if err := c.config.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.config, err)
		}
		if _, err := media.Open(t.TempDir(), c.config); (err == nil) != c.ok {
			t.Errorf("Open with %+v: %v", c.config, err)
		}
	}
}

func TestOpenError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := media.Open(path, limits); err == nil {
		t.Error("there is no error")
	}
}
