package contextfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/agent/injection"
	"hermesd/internal/atomicfile"
)

// SoulFile is the name of the file with the agent's identity, in the home
// directory.
const SoulFile = "SOUL.md"

// LoadSoul calls Soul of a new Reader for a window of unknown size.
func LoadSoul(home string) (string, []Note) { return new(Reader).Soul(home, 0) }

// Soul reads SOUL.md in the home directory. It returns "" if the built-in
// identity is to be used: there is no file, it is empty, it cannot be read, or
// it looks like an attack. The last two are noted, also for the chat. The text gets
// its Share of the context window.
func (r *Reader) Soul(home string, window int) (string, []Note) {
	instead := func(format string, args ...any) []Note {
		return []Note{{Level: Chat, Text: fmt.Sprintf(format, args...), Format: format, Args: args}}
	}
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", instead("%s cannot be read: %v. The built-in identity is used instead.", SoulFile, plainError(err))
	}
	defer func() { _ = root.Close() }() // read-only
	text, broken, err := readText(root, SoulFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if link, err := root.Lstat(SoulFile); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			return "", instead("%s is a link to a file that does not exist. The built-in identity is used instead.", SoulFile)
		}
		return "", nil
	case err != nil:
		return "", instead("%s cannot be read: %v. The built-in identity is used instead.", SoulFile, plainError(err))
	case strings.TrimSpace(text) == "":
		return "", nil
	}
	if found := r.cache.Scan(text); len(found) > 0 {
		return "", instead("%s is not used, because it looks like prompt injection (%s): %q. The built-in identity is used instead. Correct the file and start a new session.",
			SoulFile, injection.JoinIDs(found), found[0].Excerpt)
	}
	var notes []Note
	if broken {
		notes = append(notes, Note{Level: Operator, Text: SoulFile + " is not valid UTF-8; what could not be read is shown as \uFFFD."})
	}
	return strings.TrimSpace(truncateFile(SoulFile, text, Share(MaxChars, window))), notes
}

// starterFile records the text that WriteStarterSoul wrote last.
const starterFile = "cache/starter-soul.md"

// WriteStarterSoul writes text to SOUL.md in home, which must exist, with mode
// 0600, and reports whether it wrote. It replaces an existing file only if nobody
// has changed it: if it has the text that WriteStarterSoul wrote last, or earlier,
// the starter text of versions that recorded nothing. The write is atomic.
func WriteStarterSoul(home, text, earlier string) (bool, error) {
	text = strings.TrimSpace(text)
	path, record := filepath.Join(home, SoulFile), filepath.Join(home, filepath.FromSlash(starterFile))
	info, err := os.Lstat(path)
	exists := err == nil
	if exists {
		old, recorded := readStarter(home, SoulFile), readStarter(home, starterFile)
		switch {
		case !info.Mode().IsRegular() || old == "": // Soul reports what is wrong
			return false, nil
		case old == text && recorded == text:
			return false, nil
		case old != text && old != recorded && old != strings.TrimSpace(earlier):
			return false, nil
		}
	}
	write := atomicfile.Create
	if exists {
		write = atomicfile.Replace
	}
	if err := write(path, []byte(text+"\n"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("write the starter %s: %w", SoulFile, err)
	} else if err != nil {
		return false, nil // somebody has written one meanwhile
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		return true, fmt.Errorf("record the starter %s: %w", SoulFile, err)
	}
	if err := os.WriteFile(record, []byte(text+"\n"), 0o600); err != nil {
		return true, fmt.Errorf("record the starter %s: %w", SoulFile, err)
	}
	return true, nil
}

// readStarter returns the text of a file in home; "" if there is none or it cannot be
// read.
func readStarter(home, name string) string {
	root, err := os.OpenRoot(home)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }() // read-only
	text, broken, err := readText(root, name)
	if err != nil || broken {
		return ""
	}
	return strings.TrimSpace(text)
}
