package contextfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// maxBytes is the size of the largest file that is read.
const maxBytes = 1 << 20

// fullWindow is the context window, in tokens, from which on limits apply in full.
const fullWindow = 64_000

// Share returns the part of a limit that a context window of so many tokens gets. A window of 0
// is not known and gets all.
func Share(limit, window int) int {
	if window <= 0 || window >= fullWindow {
		return limit
	}
	return limit * window / fullWindow
}

// Truncate returns text, or if it has more than limit characters, its first
// characters (70 % of limit), a marker with the name of the text and a hint where
// all of it is, and its last (20 %).
func Truncate(name, text string, limit int, hint string) string {
	if len(text) <= limit {
		return text
	}
	total := utf8.RuneCountInString(text)
	if total <= limit {
		return text
	}
	head, tail := limit*7/10, limit*2/10
	runes := []rune(text)
	return fmt.Sprintf("%s\n\n[...truncated %s: kept %d+%d of %d chars. %s]\n\n%s",
		string(runes[:head]), name, head, tail, total, hint, string(runes[total-tail:]))
}

func truncateFile(name, text string, limit int) string {
	return Truncate(name, text, limit, "Use file tools to read the full file.")
}

// stripFrontMatter returns text without a leading YAML block. A text without
// anything else is returned unchanged.
func stripFrontMatter(text string) string {
	rest, ok := strings.CutPrefix(text, "---")
	if !ok {
		return text
	}
	first, rest, ok := strings.Cut(rest, "\n")
	if !ok || strings.TrimSpace(first) != "" {
		return text
	}
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		if strings.TrimRight(line, " \t") == "---" {
			if body := strings.TrimLeft(after, "\n"); strings.TrimSpace(body) != "" {
				return body
			}
			return text
		}
		rest = after
	}
	return text
}

// readText reads a file inside root, without a byte order mark and with line
// feeds only. broken reports whether it was not valid UTF-8. It opens only
// regular files, so it does not block.
func readText(root *os.Root, name string) (text string, broken bool, err error) {
	info, err := root.Stat(name)
	if err != nil {
		return "", false, err
	}
	if err := checkFile(info); err != nil {
		return "", false, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }() // read-only
	if info, err = f.Stat(); err != nil {
		return "", false, err
	}
	if err := checkFile(info); err != nil {
		return "", false, err // the file was replaced meanwhile
	}
	raw := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := raw.ReadFrom(io.LimitReader(f, maxBytes+1)); err != nil {
		return "", false, err
	}
	if raw.Len() > maxBytes {
		return "", false, errTooLarge
	}
	text = strings.ReplaceAll(strings.TrimPrefix(raw.String(), "\uFEFF"), "\r\n", "\n")
	if utf8.ValidString(text) {
		return text, false, nil
	}
	return strings.ToValidUTF8(text, "\uFFFD"), true, nil
}

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxBytes)

func checkFile(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("it is a folder")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("it is a pipe")
	case !mode.IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > maxBytes:
		return errTooLarge
	}
	return nil
}

// plainError removes the operation and the path, which the surrounding sentence
// names.
func plainError(err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return err
	}
	if strings.Contains(p.Err.Error(), "escapes") {
		return errors.New("it is a link that leads out of the folder")
	}
	return p.Err
}
