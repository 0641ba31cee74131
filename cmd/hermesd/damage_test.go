package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A store whose leaf pages are overwritten passes the checks before it is mapped.
func TestADamagedStoreEndsTheStartWithTheNextStep(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	u := start(t, home, "run")
	_ = client(t, home).Close(t.Context())
	u.signals <- os.Interrupt
	if code := <-u.code; code != 0 {
		t.Fatalf("exit code %d: %s", code, u.errs)
	}
	path := filepath.Join(home, dbName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size, named := os.Getpagesize(), 0
	for page := 2; page*size < len(good) && page < 12; page++ {
		bad := bytes.Clone(good)
		copy(bad[page*size+16:], bytes.Repeat([]byte{0xff}, 64))
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		u := start(t, home, "outbox", "list")
		if <-u.code == 0 {
			continue // the page is not in use, or not read at the open
		}
		named++
		said := u.errs.String()
		if strings.Contains(said, "panic") || strings.Contains(said, "runtime error") || !strings.Contains(said, "hermesd restore") || !strings.Contains(said, "is damaged") {
			t.Errorf("page %d: it says %q", page, said)
		}
		u = start(t, home, "doctor")
		if <-u.code == 0 || !strings.Contains(u.out.String(), " of the file is damaged") {
			t.Errorf("page %d: doctor says %q", page, u.out)
		}
	}
	if named == 0 {
		t.Error("no damaged page was noticed")
	}
}
