package httpapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/adapters/httpapi"
)

func TestAKeyIsMadeOnceAndKeptToItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http.key")
	key, created, err := httpapi.LoadKey(path)
	if err != nil || !created || len(key.Reveal()) < 40 {
		t.Fatalf("%d characters, created %v, %v", len(key.Reveal()), created, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	again, created, err := httpapi.LoadKey(path)
	if err != nil || created || again != key {
		t.Errorf("again: the same %v, created %v, %v", again == key, created, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
	if strings.Contains(fmt.Sprint(key), key.Reveal()) {
		t.Error("the key prints itself")
	}
}

func TestAKeyThatCannotBeTrustedIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"readable by others": {"hk-0123456789abcdefghij", 0o644, "chmod 600"},
		"readable by group":  {"hk-0123456789abcdefghij", 0o640, "chmod 600"},
		"empty":              {"", 0o600, "remove it"},
		"short":              {"hunter2", 0o600, "remove it"},
		"two lines":          {"hk-0123456789abcdefghij\nmore", 0o600, "remove it"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := os.WriteFile(path, []byte(c.content), c.mode); err != nil {
			t.Fatal(err)
		}
		key, created, err := httpapi.LoadKey(path)
		if err == nil || created || key != "" || !strings.Contains(err.Error(), c.want) || c.content != "" && strings.Contains(err.Error(), c.content) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := httpapi.LoadKey(dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, _, err := httpapi.LoadKey(filepath.Join(dir, "no", "where")); err == nil {
		t.Error("a directory that is missing")
	}
}
