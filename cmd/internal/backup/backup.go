// Package backup writes the contents of a home directory to an archive and restores
// them.
//
// [Write] creates an archive: a gzipped tar file that contains the files of the home
// directory and, as its last entry, manifest.json with their sizes and SHA-256 sums. An
// archive without a manifest is incomplete and is rejected. It is written under a
// temporary name and renamed when it is complete and on disk.
//
// [Restore] extracts the archive into a directory in the home directory, checks all
// files, verifies the store, and only then renames the parts into place. The plan of
// the renames is on disk before the first one, so that [Resume] can complete an
// interrupted restore. The replaced files are kept in a separate directory.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
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

	"hermesd/agent/memory/provider/holographic"
	"hermesd/internal/atomicfile"
)

const (
	storeName    = "hermesd.db"
	manifestName = "manifest.json"
	configName   = "config.yaml"
	// format is the version of the archive.
	format = 1
	// LeftOut replaces each secret in config.yaml. The variable is not set, so loading
	// the configuration reports what is missing and where.
	LeftOut = "${LEFT_OUT_OF_BACKUP}"
)

// parts returns the names in a home directory that belong into a backup, including
// files with secrets if secrets is set.
func parts(secrets bool) []string {
	names := []string{storeName, configName, "SOUL.md", "memories", "skills", "cron", "scripts", "plugins"}
	if secrets {
		names = append(names, ".env", "http.key", "metrics.key")
	}
	return append(names, memoryParts(secrets)...)
}

// factsName is the file of the memory provider holographic, and factsDir the directory of
// those of other people than the owner.
const (
	factsName = "memory_store.db"
	factsDir  = "memory_store"
)

// memoryParts returns the names in a home directory that memory providers use. Archives of
// earlier versions of hermesd do not contain them.
func memoryParts(secrets bool) []string {
	names := []string{factsName, factsDir, "byterover"}
	if secrets {
		names = append(names, "honcho.json", "mem0.json", "supermemory.json", "hindsight")
	}
	return names
}

// isFacts reports whether a file of the home directory is a database of the memory provider
// holographic, and isFactsLog whether it belongs to one.
func isFacts(name string) bool {
	return name == factsName || path.Dir(name) == factsDir && path.Ext(name) == ".db"
}

func isFactsLog(name string) bool {
	return slices.ContainsFunc([]string{"-wal", "-shm", "-journal"}, func(suffix string) bool {
		db, ok := strings.CutSuffix(name, suffix)
		return ok && isFacts(db)
	})
}

// A Manifest describes the contents of an archive.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // version of hermesd
	Schema  int       `json:"schema"`  // schema of the store
	Secrets bool      `json:"secrets"` // whether secrets are included
	Waiting int       `json:"waiting"` // messages not answered yet
	Outbox  int       `json:"outbox"`  // messages not delivered yet
	// Memory: the files of memory providers are included, if there are any.
	Memory bool   `json:"memory,omitempty"`
	Files  []File `json:"files"`
	// Skipped lists what is not included, with reasons.
	Skipped []string `json:"skipped,omitempty"`
}

// A File is one file of an archive.
type File struct {
	Name   string `json:"name"` // with slashes, relative to the home directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"mode"`
}

// Options configure Write.
type Options struct {
	Home    string
	Store   string // a copy of the store that nobody changes; "" if there is none
	Secrets bool   // include .env, the keys, and config.yaml unchanged
	// Mask replaces the secrets in the text of config.yaml by Masked. It may be nil.
	Mask func(string) string
	// Masked is the placeholder that Mask uses.
	Masked string
	// Manifest contains the fields that Write does not set itself.
	Manifest Manifest
}

// maxBytes limits the size of files other than the store, because they are read into
// memory.
const maxBytes = 256 << 20

// Write writes an archive to name, readable by its owner only. It writes the whole
// archive or nothing. An existing file is an error and is not replaced.
func Write(ctx context.Context, name string, o Options) (Manifest, error) {
	if _, err := os.Lstat(name); err == nil {
		return Manifest{}, fmt.Errorf("%s exists already; name another file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".hermesd-backup-*")
	if err != nil {
		return Manifest{}, fmt.Errorf("backup: %w", err)
	}
	m, err := write(ctx, f, o)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), name) // does not replace an existing file
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
			err = os.Rename(f.Name(), name)
		}
	}
	_ = os.Remove(f.Name()) // linked under its name, or incomplete
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return m, fmt.Errorf("backup to %s: %w", name, err)
	}
	return m, nil
}

type archive struct {
	ctx context.Context
	tar *tar.Writer
	m   Manifest
	o   Options
	tmp string // directory for copies of databases
}

func write(ctx context.Context, f *os.File, o Options) (Manifest, error) {
	z := gzip.NewWriter(f)
	a := &archive{ctx: ctx, tar: tar.NewWriter(z), m: o.Manifest, o: o, tmp: f.Name() + ".d"}
	a.m.Format, a.m.Secrets, a.m.Memory = format, o.Secrets, true
	if err := os.Mkdir(a.tmp, 0o700); err != nil {
		return a.m, err
	}
	defer func() { _ = os.RemoveAll(a.tmp) }() // copies
	root, err := os.OpenRoot(o.Home)
	if err != nil {
		return a.m, err
	}
	defer func() { _ = root.Close() }() // read only
	for _, part := range parts(o.Secrets) {
		if part == storeName {
			err = a.writeStore()
		} else {
			err = a.writeTree(root, part)
		}
		if err != nil {
			return a.m, err
		}
	}
	raw, err := json.MarshalIndent(a.m, "", "  ")
	if err == nil {
		err = a.writeFile(manifestName, int64(len(raw)), 0o600, strings.NewReader(string(raw)))
	}
	return a.m, errors.Join(err, a.tar.Close(), z.Close())
}

func (a *archive) writeStore() error {
	if a.o.Store == "" {
		return nil
	}
	return a.writeCopy(storeName, a.o.Store)
}

// writeCopy adds a copy, of any size, of a file of the home directory.
func (a *archive) writeCopy(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.writeFile(name, info.Size(), 0o600, f)
}

// addFacts adds a database of the memory provider holographic, as it is at one moment.
func (a *archive) addFacts(name string) error {
	file := filepath.Join(a.tmp, path.Base(name))
	if err := holographic.Copy(a.ctx, filepath.Join(a.o.Home, filepath.FromSlash(name)), file); err != nil {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		a.m.Skipped = append(a.m.Skipped, fmt.Sprintf("%s: it cannot be copied: %v", name, err))
		return nil
	}
	return errors.Join(a.writeCopy(name, file), os.Remove(file))
}

// writeTree adds a file of the home directory, or all files below a directory. Links
// are skipped.
func (a *archive) writeTree(root *os.Root, part string) error {
	if info, err := root.Lstat(part); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		a.m.Skipped = append(a.m.Skipped, part+": it is a link; back up what it leads to by other means")
		return nil
	}
	return fs.WalkDir(root.FS(), part, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // or deleted meanwhile
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			a.m.Skipped = append(a.m.Skipped, name+": it is not a regular file")
			return nil
		case isFactsLog(name):
			return nil // its content is in the copy of the database
		case isFacts(name):
			return a.addFacts(name)
		}
		return a.addFile(root, name, d)
	})
}

func (a *archive) addFile(root *os.Root, name string, d fs.DirEntry) error {
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
	raw, err := root.ReadFile(name) // at once, because it may be replaced meanwhile
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
	return a.writeFile(name, int64(len(text)), info.Mode().Perm(), strings.NewReader(text))
}

// writeFile adds one file and records its checksum.
func (a *archive) writeFile(name string, size int64, mode fs.FileMode, r io.Reader) error {
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

// rejectReason returns why a name in an archive does not belong into a home
// directory, or "" if it does.
func rejectReason(name string) string {
	if name == "" || !fs.ValidPath(name) || strings.ContainsAny(name, "\\:\x00") && filepath.Separator == '\\' {
		return "it leads out of the home"
	}
	first, _, _ := strings.Cut(name, "/")
	if name != path.Clean(name) || !slices.Contains(parts(true), first) {
		return "it is no part of a home"
	}
	return ""
}
