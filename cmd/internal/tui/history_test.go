package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHistoryPersists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "chat_history")
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one", "two\nlines <b>", "two\nlines <b>", "  ", "three"} {
		if err := h.add(s); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can read what was typed", info.Mode(), err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`"cut by a cra`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two\nlines <b>", "three"}, again.lines); diff != "" {
		t.Error(diff)
	}
	if s, ok := again.previous("draft"); !ok || s != "three" {
		t.Errorf("got %q", s)
	}
}

func TestHistoryIsShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat_history")
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2*maxHistory + 1 {
		if err := h.add(fmt.Sprint("line ", i)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openHistory(path)
	if err != nil || len(again.lines) != maxHistory || again.lines[maxHistory-1] != fmt.Sprint("line ", 2*maxHistory) {
		t.Errorf("%d lines, %v", len(again.lines), err)
	}
	after, err := os.Stat(path)
	if err != nil || after.Size() >= before.Size() || after.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes became %d, %v", before.Size(), after.Size(), err)
	}
}

func TestHistoryWithoutFileIsEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(filepath.Join(file, "chat_history"))
	if err == nil {
		t.Error("it says nothing")
	}
	if err := h.add("still works"); err != nil {
		t.Error(err)
	}
	if s, ok := h.previous(""); !ok || s != "still works" {
		t.Errorf("got %q", s)
	}
}
