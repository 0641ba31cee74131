package tui

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/internal/atomicfile"
)

const (
	maxHistory    = 500
	maxEntryBytes = 64 << 10 // bytes of one entry
)

// A history contains the entered lines, oldest first, and a cursor. It is stored in
// a file that only its owner may read.
type history struct {
	path   string // "" if it is not stored
	lines  []string
	cursor int    // cursor; len(lines) is after the newest
	draft  string // the input before the first step back
}

// openHistory reads the history from path. After an error it is empty and is not
// stored.
func openHistory(path string) (*history, error) {
	h := &history{}
	if path == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h, err
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, err
	}
	h.path = path
	in := bufio.NewScanner(bytes.NewReader(raw))
	in.Buffer(nil, 8*maxEntryBytes)
	for in.Scan() {
		var s string
		if json.Unmarshal(in.Bytes(), &s) == nil { // skips a line that was cut by a crash
			h.lines = append(h.lines, s)
		}
	}
	long := len(h.lines) > 2*maxHistory
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	h.cursor = len(h.lines)
	if long {
		return h, h.shorten()
	}
	return h, nil
}

// add appends s unless it is equal to the newest entry.
func (h *history) add(s string) error {
	defer func() { h.cursor, h.draft = len(h.lines), "" }()
	if strings.TrimSpace(s) == "" || len(s) > maxEntryBytes || len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return nil
	}
	h.lines = append(h.lines, s)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	if h.path == "" {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// shorten rewrites the file with the remaining entries.
func (h *history) shorten() error {
	var b bytes.Buffer
	for _, l := range h.lines {
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(append(raw, '\n'))
	}
	return atomicfile.Replace(h.path, b.Bytes(), 0o600)
}

func (h *history) previous(now string) (string, bool) {
	if h.cursor == 0 {
		return "", false
	}
	if h.cursor == len(h.lines) {
		h.draft = now
	}
	h.cursor--
	return h.lines[h.cursor], true
}

func (h *history) next() (string, bool) {
	if h.cursor >= len(h.lines) {
		return "", false
	}
	h.cursor++
	if h.cursor == len(h.lines) {
		return h.draft, true
	}
	return h.lines[h.cursor], true
}
