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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermesd/internal/atomicfile"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

const (
	planName    = "restore.plan" // in the home directory while parts are being moved
	stagePrefix = ".restore-"    // prefix of the directories that archives are extracted into
	asidePrefix = "before-restore-"
	asideStamp  = "20060102-150405"
)

type renameFunc func(from, to string) error

// A plan lists the renames of a restore. It is on disk from before the first rename
// until after the last.
type plan struct {
	Stage string   `json:"stage"` // directory of the new parts
	Aside string   `json:"aside"` // directory for the replaced parts
	In    []string `json:"in"`    // parts to move in, replacing existing ones
	Out   []string `json:"out"`   // parts to move out without a replacement
}

// A Report is the result of Restore.
type Report struct {
	Manifest Manifest `json:"manifest"`
	Aside    string   `json:"previous_files,omitempty"` // directory of the replaced parts
}

// Restore replaces the contents of home, which must not be in use, by those of an
// archive. The archive is checked completely before anything is changed. Parts of the
// home directory that the archive does not contain (workspace, logs, and secrets if
// they are not included) remain unchanged.
//
// The error is a *storage.LockedError if a daemon runs, a *DamagedError if the archive
// cannot be used, and a *storage.NewerError if its store has a newer schema.
func Restore(ctx context.Context, home, archive string, now time.Time) (Report, error) {
	h, err := storage.Open(home)
	if err != nil {
		return Report{}, err
	}
	r, err := restore(ctx, h, archive, now, os.Rename)
	return r, errors.Join(err, h.Close())
}

func restore(ctx context.Context, h *storage.Home, archive string, now time.Time, rename renameFunc) (r Report, err error) {
	if err := applyPlan(h, rename); err != nil {
		return r, fmt.Errorf("resume earlier restore: %w", err)
	}
	if err := removeStages(h.Path()); err != nil {
		return r, err
	}
	f, err := os.Open(archive)
	if err != nil {
		return r, fmt.Errorf("open backup: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	stage, err := os.MkdirTemp(h.Path(), stagePrefix)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	if r.Manifest, err = extract(f, stage); err == nil {
		err = verifyStore(ctx, filepath.Join(stage, storeName), r.Manifest.Schema)
	}
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(stage))
	}
	p, err := newPlan(h, stage, r.Manifest, now)
	if err == nil {
		err = writePlan(h, p)
	}
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(stage))
	}
	r.Aside = h.Path(p.Aside)
	return r, applyPlan(h, rename)
}

// verifyStore opens the store of an archive and reads every record.
func verifyStore(ctx context.Context, path string, schema int) error {
	if schema > bolt.SchemaNow() {
		return &storage.NewerError{Path: "the store in the backup", Have: schema, Know: bolt.SchemaNow()}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // created before the first message
	}
	s, err := bolt.Open(ctx, path, bolt.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Verify(ctx), s.Close()); err != nil {
		return &DamagedError{"its store", err}
	}
	return nil
}

// newPlan determines which parts are moved in and out.
func newPlan(h *storage.Home, stage string, m Manifest, now time.Time) (plan, error) {
	p := plan{Stage: filepath.Base(stage), Aside: asidePrefix + now.Format(asideStamp)}
	for i := 2; exists(h.Path(p.Aside)); i++ {
		p.Aside = fmt.Sprintf("%s%s-%d", asidePrefix, now.Format(asideStamp), i)
	}
	entries, err := os.ReadDir(stage)
	if err != nil {
		return p, fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		p.In = append(p.In, e.Name())
	}
	replaced := append(parts(m.Secrets), "search.db", "search.db-wal", "search.db-shm") // the index is rebuilt
	if m.Memory {
		replaced = append(replaced, factsName+"-wal", factsName+"-shm") // of the database that is replaced
	} else {
		replaced = slices.DeleteFunc(replaced, func(name string) bool { return slices.Contains(memoryParts(true), name) })
	}
	for _, name := range replaced {
		if !slices.Contains(p.In, name) && exists(h.Path(name)) {
			p.Out = append(p.Out, name)
		}
	}
	return p, nil
}

// writePlan writes the plan to disk. From then on the restore must be completed.
func writePlan(h *storage.Home, p plan) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := atomicfile.SyncDir(h.Path(p.Stage)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := atomicfile.Replace(h.Path(planName), raw, 0o600); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// Resume completes an interrupted restore of home and reports whether there was one.
// It must be called before the store is opened.
func Resume(home string) (bool, error) {
	if !exists(filepath.Join(home, planName)) {
		return false, nil
	}
	h, err := storage.Open(home)
	if err != nil {
		return false, err
	}
	err = errors.Join(applyPlan(h, os.Rename), h.Close())
	if err != nil {
		return false, fmt.Errorf("resume interrupted restore: %w", err)
	}
	return true, nil
}

// applyPlan performs the renames of the plan that are not done yet. It can be
// repeated after an interruption at any point.
func applyPlan(h *storage.Home, rename renameFunc) error {
	raw, err := os.ReadFile(h.Path(planName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("%s cannot be read: %w; the parts lie in %s* and %s* of the home, move them by hand", planName, err, stagePrefix, asidePrefix)
	}
	if err := os.MkdirAll(h.Path(p.Aside), 0o700); err != nil {
		return err
	}
	for _, name := range p.In {
		if !exists(h.Path(p.Stage, name)) {
			continue // already in place
		}
		if exists(h.Path(name)) {
			if err := rename(h.Path(name), h.Path(p.Aside, name)); err != nil {
				return err
			}
		}
		if err := rename(h.Path(p.Stage, name), h.Path(name)); err != nil {
			return err
		}
	}
	for _, name := range p.Out {
		if exists(h.Path(name)) {
			if err := rename(h.Path(name), h.Path(p.Aside, name)); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(atomicfile.SyncDir(h.Path()), atomicfile.SyncDir(h.Path(p.Aside))); err != nil {
		return err
	}
	if err := os.Remove(h.Path(planName)); err != nil {
		return err
	}
	_ = os.Remove(h.Path(p.Aside)) // removes it if it is empty
	return errors.Join(os.RemoveAll(h.Path(p.Stage)), atomicfile.SyncDir(h.Path()))
}

// removeStages removes the directories of restores that were interrupted before they
// changed anything.
func removeStages(home string) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), stagePrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(home, e.Name())); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A DamagedError reports an archive that cannot be used.
type DamagedError struct {
	Reason string
	Err    error
}

func (e *DamagedError) Error() string {
	s := "the backup is damaged: " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; use another one"
}

func (e *DamagedError) Unwrap() error { return e.Err }

// Limits of an archive: number of files, and bytes of the manifest.
const (
	maxFiles    = 200_000
	maxManifest = 64 << 20
)

// extract extracts an archive into the empty directory dir and checks all of it.
func extract(r io.Reader, dir string) (Manifest, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return Manifest{}, &DamagedError{"it is no gzipped tar", err}
	}
	defer func() { _ = z.Close() }() // read to its end
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = root.Close() }() // all files are synced
	in := tar.NewReader(z)
	got := map[string]File{}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return Manifest{}, &DamagedError{Reason: "its end is missing"}
		}
		if err != nil {
			return Manifest{}, &DamagedError{"it cannot be read", err}
		}
		if h.Name == manifestName {
			return check(in, z, got)
		}
		if _, twice := got[h.Name]; twice || h.Typeflag != tar.TypeReg || len(got) >= maxFiles {
			return Manifest{}, &DamagedError{Reason: fmt.Sprintf("%q does not belong into it", h.Name)}
		}
		if why := rejectReason(h.Name); why != "" {
			return Manifest{}, &DamagedError{Reason: fmt.Sprintf("%q: %s", h.Name, why)}
		}
		if got[h.Name], err = take(in, h, root); err != nil {
			return Manifest{}, fmt.Errorf("restore %s: %w", h.Name, err)
		}
	}
}

func take(in io.Reader, h *tar.Header, root *os.Root) (File, error) {
	name := filepath.FromSlash(h.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return File{}, err
	}
	mode := os.FileMode(h.Mode) & 0o700 // owner only
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), in)
	if err != nil {
		err = &DamagedError{"it cannot be read", err}
		if disk, ok := errors.AsType[*os.PathError](err); ok {
			err = disk
		}
	}
	err = errors.Join(err, f.Sync(), f.Close())
	return File{h.Name, n, hex.EncodeToString(sum.Sum(nil)), uint32(mode)}, err
}

// check reads the manifest and compares it with the extracted files.
func check(in io.Reader, rest io.Reader, got map[string]File) (Manifest, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxManifest))
	if err != nil {
		return Manifest{}, &DamagedError{"its manifest cannot be read", err}
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, &DamagedError{"its manifest cannot be read", err}
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d, this program knows %d: it was made by another version (%s); install that one", m.Format, format, m.Version)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(rest, 1<<20)); err != nil { // and verify gzip's checksum
		return m, &DamagedError{"it is cut off", err}
	}
	for _, f := range m.Files {
		have, ok := got[f.Name]
		switch {
		case !ok:
			return m, &DamagedError{Reason: f.Name + " is missing"}
		case have.Size != f.Size || have.SHA256 != f.SHA256:
			return m, &DamagedError{Reason: f.Name + " is not what was put in"}
		}
		delete(got, f.Name)
	}
	for name := range got {
		return m, &DamagedError{Reason: name + " is not in its manifest"}
	}
	return m, nil
}
