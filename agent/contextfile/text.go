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

// maxBytes is the largest file that is read at all.
const maxBytes = 1 << 20

// Truncate returns text, or if it has more than MaxChars characters its first
// 70 % of so many, a marker that names the file, and its last 20 %.
func Truncate(name, text string) string {
	if len(text) <= MaxChars {
		return text
	}
	total := utf8.RuneCountInString(text)
	if total <= MaxChars {
		return text
	}
	const head, tail = MaxChars * 7 / 10, MaxChars * 2 / 10
	runes := []rune(text)
	return fmt.Sprintf("%s\n\n[...truncated %s: kept %d+%d of %d chars. Use file tools to read the full file.]\n\n%s",
		string(runes[:head]), name, head, tail, total, string(runes[total-tail:]))
}

// frontMatter returns text without the YAML block that it begins with. A text
// that is nothing else is returned whole.
func frontMatter(text string) string {
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

// readText reads a file inside of root: without a BOM, with line feeds only.
// broken says that it was not valid UTF-8. It opens nothing but regular files,
// and so waits for nobody.
func readText(root *os.Root, name string) (text string, broken bool, err error) {
	info, err := root.Stat(name)
	if err != nil {
		return "", false, err
	}
	if err := fits(info); err != nil {
		return "", false, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err = f.Stat(); err != nil {
		return "", false, err
	}
	if err := fits(info); err != nil {
		return "", false, err // it was exchanged meanwhile
	}
	raw := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := raw.ReadFrom(io.LimitReader(f, maxBytes+1)); err != nil {
		return "", false, err
	}
	if raw.Len() > maxBytes {
		return "", false, errHuge
	}
	text = strings.ReplaceAll(strings.TrimPrefix(raw.String(), "\uFEFF"), "\r\n", "\n")
	if utf8.ValidString(text) {
		return text, false, nil
	}
	return strings.ToValidUTF8(text, "\uFFFD"), true, nil
}

var errHuge = fmt.Errorf("it has more than %d bytes", maxBytes)

func fits(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("it is a folder")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("it is a pipe")
	case !mode.IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > maxBytes:
		return errHuge
	}
	return nil
}

// plainError leaves away the call and the path, which the sentence around names.
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
