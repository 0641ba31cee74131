package release

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Pack writes the files below dir to an archive, a .tar.gz or .zip depending on the name
// of file, in a directory named after the archive. The archive does not depend on the
// machine: files are sorted by name, all times are when, executable files have mode 0755
// and others 0644.
func Pack(file, dir string, when time.Time) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	base := filepath.Base(file)
	if folder, ok := strings.CutSuffix(base, ".zip"); ok {
		w := zip.NewWriter(f)
		return errors.Join(walkFiles(dir, zipWriter(w, folder, when)), w.Close())
	}
	folder, ok := strings.CutSuffix(base, ".tar.gz")
	if !ok {
		return fmt.Errorf("release: %s is neither a .tar.gz nor a .zip", base)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	w := tar.NewWriter(z)
	return errors.Join(walkFiles(dir, tarWriter(w, folder, when)), w.Close(), z.Close())
}

// walkFiles calls add for every file below dir, sorted by name.
func walkFiles(dir string, add func(name string, info fs.FileInfo, r io.Reader) error) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("release: %s is not a file", at)
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		return errors.Join(add(filepath.ToSlash(name), info, f), f.Close())
	})
}

func modeOf(info fs.FileInfo) fs.FileMode {
	if info.Mode().Perm()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func tarWriter(w *tar.Writer, folder string, when time.Time) func(string, fs.FileInfo, io.Reader) error {
	return func(name string, info fs.FileInfo, r io.Reader) error {
		h := &tar.Header{Name: path.Join(folder, name), Mode: int64(modeOf(info)), Size: info.Size(), ModTime: when, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(w, r)
		return err
	}
}

func zipWriter(w *zip.Writer, folder string, when time.Time) func(string, fs.FileInfo, io.Reader) error {
	return func(name string, info fs.FileInfo, r io.Reader) error {
		h := &zip.FileHeader{Name: path.Join(folder, name), Method: zip.Deflate, Modified: when.UTC()}
		h.SetMode(modeOf(info))
		to, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, r)
		return err
	}
}
