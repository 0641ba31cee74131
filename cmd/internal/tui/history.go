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
)

const (
	maxHistory  = 500
	maxRecalled = 64 << 10 // bytes of one entry that is kept
)

// A history is what was typed, oldest first, with a cursor in it. It is kept in
// a file that only its owner may read.
type history struct {
	path  string // "": nowhere
	lines []string
	at    int    // len(lines): below the newest
	draft string // what stood in the input before the first look back
}

// openHistory reads the history in path. On an error it is empty and not kept.
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
	in.Buffer(nil, 8*maxRecalled)
	for in.Scan() {
		var s string
		if json.Unmarshal(in.Bytes(), &s) == nil { // a line that a crash has cut is left out
			h.lines = append(h.lines, s)
		}
	}
	long := len(h.lines) > 2*maxHistory
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	h.at = len(h.lines)
	if long {
		return h, h.shorten()
	}
	return h, nil
}

// add keeps s as the newest, unless it is already.
func (h *history) add(s string) error {
	defer func() { h.at, h.draft = len(h.lines), "" }()
	if strings.TrimSpace(s) == "" || len(s) > maxRecalled || len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return nil
	}
	h.lines = append(h.lines, s)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	if h.path == "" {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// shorten writes the file anew with what is left of it.
func (h *history) shorten() error {
	var b bytes.Buffer
	for _, l := range h.lines {
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(append(raw, '\n'))
	}
	tmp := h.path + ".new"
	if err := os.WriteFile(tmp, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, h.path)
}

// back returns the entry before the present one; now is what the input says.
func (h *history) back(now string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.lines) {
		h.draft = now
	}
	h.at--
	return h.lines[h.at], true
}

// forth returns the entry after the present one, at last the draft.
func (h *history) forth() (string, bool) {
	if h.at >= len(h.lines) {
		return "", false
	}
	h.at++
	if h.at == len(h.lines) {
		return h.draft, true
	}
	return h.lines[h.at], true
}
