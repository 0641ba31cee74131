package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"hermesd/storage"
	"hermesd/storage/bolt"
)

const (
	planName   = "restore.plan" // in the home, while parts are being moved
	stagePart  = ".restore-"    // begins the names of directories that archives are read into
	asidePart  = "before-restore-"
	asideStamp = "20060102-150405"
)

// A move gives a file or a directory another name.
type move func(from, to string) error

// A plan is the moves of a restore. It is on disk from before the first until
// after the last.
type plan struct {
	Stage string   `json:"stage"` // directory of the new parts
	Aside string   `json:"aside"` // directory of the old ones
	In    []string `json:"in"`    // parts that come in, in place of those that are there
	Out   []string `json:"out"`   // parts that only go
}

// A Report says what Restore has done.
type Report struct {
	Manifest Manifest `json:"manifest"`
	Aside    string   `json:"aside,omitempty"` // where the old parts are
}

// Restore puts an archive in the place of what home holds, which must not be in
// use. Whatever is wrong with the archive is found before anything is changed.
// Parts of the home that no backup holds (workspace, logs, and the secrets if
// they are not in it) stay as they are.
//
// The error is a *storage.LockedError if a daemon runs, a *DamagedError if the
// archive cannot be used, and a *storage.NewerError if its store is of a newer
// version.
func Restore(ctx context.Context, home, archive string, now time.Time) (Report, error) {
	h, err := storage.Open(home)
	if err != nil {
		return Report{}, err
	}
	r, err := restore(ctx, h, archive, now, os.Rename)
	return r, errors.Join(err, h.Close())
}

func restore(ctx context.Context, h *storage.Home, archive string, now time.Time, rename move) (r Report, err error) {
	if err := finish(h, rename); err != nil {
		return r, fmt.Errorf("finish an earlier restore: %w", err)
	}
	if err := sweep(h.Path()); err != nil {
		return r, err
	}
	f, err := os.Open(archive)
	if err != nil {
		return r, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	stage, err := os.MkdirTemp(h.Path(), stagePart)
	if err != nil {
		return r, fmt.Errorf("restore: %w", err)
	}
	if r.Manifest, err = extract(f, stage); err == nil {
		err = proven(ctx, filepath.Join(stage, storeName), r.Manifest.Schema)
	}
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(stage))
	}
	p, err := planOf(h, stage, r.Manifest, now)
	if err == nil {
		err = begin(h, p)
	}
	if err != nil {
		return r, errors.Join(err, os.RemoveAll(stage))
	}
	r.Aside = h.Path(p.Aside)
	return r, finish(h, rename)
}

// proven opens the store of an archive and reads every record of it.
func proven(ctx context.Context, path string, schema int) error {
	if schema > bolt.SchemaNow() {
		return &storage.NewerError{Path: "the store in the backup", Have: schema, Know: bolt.SchemaNow()}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // made before anything was said
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

// planOf decides what comes in and what goes.
func planOf(h *storage.Home, stage string, m Manifest, now time.Time) (plan, error) {
	p := plan{Stage: filepath.Base(stage), Aside: asidePart + now.Format(asideStamp)}
	for i := 2; exists(h.Path(p.Aside)); i++ {
		p.Aside = fmt.Sprintf("%s%s-%d", asidePart, now.Format(asideStamp), i)
	}
	entries, err := os.ReadDir(stage)
	if err != nil {
		return p, fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		p.In = append(p.In, e.Name())
	}
	gone := append(parts(m.Secrets), "search.db", "search.db-wal", "search.db-shm") // the index is made anew
	for _, name := range gone {
		if !slices.Contains(p.In, name) && exists(h.Path(name)) {
			p.Out = append(p.Out, name)
		}
	}
	return p, nil
}

// begin writes the plan down. From here on the restore can only go forward.
func begin(h *storage.Home, p plan) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := syncDir(h.Path(p.Stage)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	tmp := h.Path(p.Stage + ".plan")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, h.Path(planName))
	}
	if err == nil {
		err = syncDir(h.Path())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), os.Remove(tmp))
	}
	return nil
}

// Resume finishes a restore of home that was cut off, if there is one, and
// reports whether there was. It must be called before the store is opened.
func Resume(home string) (bool, error) {
	if !exists(filepath.Join(home, planName)) {
		return false, nil
	}
	h, err := storage.Open(home)
	if err != nil {
		return false, err
	}
	err = errors.Join(finish(h, os.Rename), h.Close())
	if err != nil {
		return false, fmt.Errorf("finish a restore that was cut off: %w", err)
	}
	return true, nil
}

// finish makes the moves of the plan that are not made yet. It may be called
// again after it was cut off anywhere.
func finish(h *storage.Home, rename move) error {
	raw, err := os.ReadFile(h.Path(planName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("%s cannot be read: %w; the parts lie in %s* and %s* of the home, move them by hand", planName, err, stagePart, asidePart)
	}
	if err := os.MkdirAll(h.Path(p.Aside), 0o700); err != nil {
		return err
	}
	for _, name := range p.In {
		if !exists(h.Path(p.Stage, name)) {
			continue // it is in its place
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
	if err := errors.Join(syncDir(h.Path()), syncDir(h.Path(p.Aside))); err != nil {
		return err
	}
	if err := os.Remove(h.Path(planName)); err != nil {
		return err
	}
	_ = os.Remove(h.Path(p.Aside)) // if nothing was there before
	return errors.Join(os.RemoveAll(h.Path(p.Stage)), syncDir(h.Path()))
}

// sweep removes what a restore has left that had changed nothing yet.
func sweep(home string) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), stagePart) {
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

// syncDir makes names in dir last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // it cannot, and does not need to
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
