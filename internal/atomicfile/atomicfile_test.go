package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hermesd/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, step := range []struct {
		write func(string, []byte, fs.FileMode) error
		text  string
		want  string
		err   error
	}{
		{atomicfile.Create, "one", "one", nil},
		{atomicfile.Create, "two", "one", fs.ErrExist},
		{atomicfile.Replace, "three", "three", nil},
	} {
		err := step.write(path, []byte(step.text), 0o640)
		got, _ := os.ReadFile(path)
		if !errors.Is(err, step.err) || string(got) != step.want {
			t.Errorf("%s: got %q, %v", step.text, got, err)
		}
	}
	if err := atomicfile.Replace(filepath.Join(dir, "none", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}
