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
	"os"
	"path/filepath"
)

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

// take extracts one file.
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
		var disk *os.PathError
		if errors.As(err, &disk) {
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
