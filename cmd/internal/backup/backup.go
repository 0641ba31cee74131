// Package backup writes what a home holds into one archive, and puts it back.
//
// An archive is a gzipped tar: the files of the home, and at its end
// manifest.json with their sizes and SHA-256 sums. An archive without a manifest
// is a part of one, and is refused. It is written under another name and gets
// its own when it is whole and on disk.
//
// A restore reads the archive into a directory of the home, checks all of it,
// opens the store that is in it, and only then moves the parts into place, one
// rename each. The plan of the moves is on disk before the first: a restore that
// was cut off goes on with Resume. What stood there before is kept in a
// directory of its own.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	storeName    = "hermesd.db"
	manifestName = "manifest.json"
	configName   = "config.yaml"
	// format is the version of the archive.
	format = 1
	// LeftOut stands in a config.yaml in place of each secret: the variable is
	// not set, so the configuration says itself what is missing and where.
	LeftOut = "${LEFT_OUT_OF_BACKUP}"
)

// parts are the names in a home that belong into a backup; secrets only if that
// is wanted.
func parts(secrets bool) []string {
	names := []string{storeName, configName, "SOUL.md", "memories", "skills", "cron", "scripts", "plugins"}
	if secrets {
		names = append(names, secretParts()...)
	}
	return names
}

func secretParts() []string { return []string{".env", "http.key", "metrics.key"} }

// A Manifest says what is in an archive.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of hermesd
	Schema  int       `json:"schema"`  // of the store
	Secrets bool      `json:"secrets"` // whether they are in it
	Waiting int       `json:"waiting"` // messages that were not answered yet
	Outbox  int       `json:"outbox"`  // messages that were not delivered yet
	Files   []File    `json:"files"`
	// Skipped are files that are not in it, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// A File is one file of an archive.
type File struct {
	Name   string `json:"name"` // with slashes, relative to the home
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"mode"`
}

// Options say what Write writes.
type Options struct {
	Home    string
	Store   string // a copy of the store that nobody changes; "": there is none
	Secrets bool   // .env, the keys, and config.yaml as it stands
	// Mask hides the secrets of a config.yaml in a text.
	Mask func(string) string
	// Masked is what Mask puts in place of a secret.
	Masked string
	// Manifest is what is known beside the files.
	Manifest Manifest
}

// maxBytes bounds a file other than the store: it is held in memory.
const maxBytes = 256 << 20

// Write writes an archive to name, whole or not at all, for its owner only. A
// file that is there already stays, and is an error.
func Write(name string, o Options) (Manifest, error) {
	if _, err := os.Lstat(name); err == nil {
		return Manifest{}, fmt.Errorf("%s exists already; name another file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".hermesd-backup-*")
	if err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	m, err := write(f, o)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), name) // never over another file
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
			err = os.Rename(f.Name(), name)
		}
	}
	_ = os.Remove(f.Name()) // it has its name now, or is of no use
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	if err != nil {
		return m, fmt.Errorf("backup to %s: %w", name, err)
	}
	return m, nil
}

// An archive is being written.
type archive struct {
	tar *tar.Writer
	m   Manifest
	o   Options
}

func write(w io.Writer, o Options) (Manifest, error) {
	z := gzip.NewWriter(w)
	a := &archive{tar: tar.NewWriter(z), m: o.Manifest, o: o}
	a.m.Format, a.m.Secrets = format, o.Secrets
	root, err := os.OpenRoot(o.Home)
	if err != nil {
		return a.m, err
	}
	defer func() { _ = root.Close() }() // it was only read
	for _, part := range parts(o.Secrets) {
		if part == storeName {
			err = a.store()
		} else {
			err = a.tree(root, part)
		}
		if err != nil {
			return a.m, err
		}
	}
	raw, err := json.MarshalIndent(a.m, "", "  ")
	if err == nil {
		err = a.put(manifestName, int64(len(raw)), 0o600, strings.NewReader(string(raw)))
	}
	return a.m, errors.Join(err, a.tar.Close(), z.Close())
}

// store writes the copy of the store.
func (a *archive) store() error {
	if a.o.Store == "" {
		return nil
	}
	f, err := os.Open(a.o.Store)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.put(storeName, info.Size(), 0o600, f)
}

// tree writes a file of the home, or all files below a directory. Links lead
// elsewhere and are not followed.
func (a *archive) tree(root *os.Root, part string) error {
	if info, err := root.Lstat(part); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		a.m.Skipped = append(a.m.Skipped, part+": it is a link; back up what it leads to by other means")
		return nil
	}
	return fs.WalkDir(root.FS(), part, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // or gone meanwhile
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			a.m.Skipped = append(a.m.Skipped, name+": it is not a regular file")
			return nil
		}
		return a.file(root, name, d)
	})
}

func (a *archive) file(root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size() > maxBytes {
		a.m.Skipped = append(a.m.Skipped, fmt.Sprintf("%s: it is larger than %d MB", name, maxBytes>>20))
		return nil
	}
	raw, err := root.ReadFile(name) // whole: it may be replaced meanwhile
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text := string(raw)
	if name == configName && !a.o.Secrets && a.o.Mask != nil {
		if masked := a.o.Mask(text); masked != text {
			text = strings.ReplaceAll(masked, a.o.Masked, LeftOut)
			a.m.Skipped = append(a.m.Skipped, "the secrets in config.yaml: "+LeftOut+" stands in their place")
		}
	}
	return a.put(name, int64(len(text)), info.Mode().Perm(), strings.NewReader(text))
}

// put writes one file and notes its sum.
func (a *archive) put(name string, size int64, mode fs.FileMode, r io.Reader) error {
	h := &tar.Header{Name: name, Size: size, Mode: int64(mode), ModTime: a.m.Made, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.tar, sum), r, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name != manifestName {
		a.m.Files = append(a.m.Files, File{name, size, hex.EncodeToString(sum.Sum(nil)), uint32(mode)})
	}
	return nil
}

// allowed says why a name of an archive does not belong into a home; "" if it
// does.
func allowed(name string) string {
	if name == "" || !fs.ValidPath(name) || strings.ContainsAny(name, "\\:\x00") && filepath.Separator == '\\' {
		return "it leads out of the home"
	}
	first, _, _ := strings.Cut(name, "/")
	if name != path.Clean(name) || !slices.Contains(parts(true), first) {
		return "it is no part of a home"
	}
	return ""
}
