// Package memory keeps what the agent remembers from session to session: two
// small files of entries, its notes and what it knows of the user.
//
// A session's prompt holds a snapshot that is taken once and never changes;
// writes go to disk at once and are in the next session's snapshot. Several
// processes may write at the same time: each write takes the store's lock file,
// reads the file again, and puts a new one in its place, so that an accepted
// write is on disk before it is answered, and none is lost.
//
// Entries are separated by a line that holds § and nothing else. Sizes are
// counted in Unicode code points of the entries with the delimiters between.
package memory

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/injection"
)

// A Target is one of the two stores.
type Target string

// The stores.
const (
	Notes Target = "memory" // MEMORY.md: environment, conventions, lessons
	User  Target = "user"   // USER.md: who the user is
)

// The limits of the stores, in characters, where Config says nothing.
const (
	DefaultNotesLimit = 2200
	DefaultUserLimit  = 1375
)

// Config says where a Store is and what it may hold.
type Config struct {
	// Dir is the folder of the files, $HERMES_HOME/memories. It is made with
	// the first write.
	Dir string
	// NotesLimit and UserLimit are in characters; 0 is the default.
	NotesLimit, UserLimit int
	// LockWait is the longest wait for another writer; 0 is ten seconds.
	LockWait time.Duration
}

// A Store is both files. It keeps nothing in memory and may be used by several
// goroutines and processes at once.
type Store struct{ c Config }

// New returns the store of c. It touches no file.
func New(c Config) *Store {
	if c.NotesLimit <= 0 {
		c.NotesLimit = DefaultNotesLimit
	}
	if c.UserLimit <= 0 {
		c.UserLimit = DefaultUserLimit
	}
	if c.LockWait <= 0 {
		c.LockWait = 10 * time.Second
	}
	return &Store{c}
}

// ParseTarget reads the name of a store; "" is Notes.
func ParseTarget(s string) (Target, error) {
	switch Target(s) {
	case "", Notes:
		return Notes, nil
	case User:
		return User, nil
	}
	return "", fmt.Errorf("there is no store %q; use memory or user", s)
}

// File returns the name of the store's file, without its folder.
func (t Target) File() string {
	if t == User {
		return "USER.md"
	}
	return "MEMORY.md"
}

// Path returns where the store's file is.
func (s *Store) Path(t Target) string { return filepath.Join(s.c.Dir, t.File()) }

// Limit returns how many characters the store may hold.
func (s *Store) Limit(t Target) int {
	if t == User {
		return s.c.UserLimit
	}
	return s.c.NotesLimit
}

// Entries returns what the store holds now, in order; nothing if there is no
// file yet.
func (s *Store) Entries(t Target) ([]string, error) {
	f, err := s.read(t)
	return f.entries, err
}

// Usage returns how full entries make the store: "67% — 1,474/2,200 chars". The
// percentage is rounded down and at most 100.
func (s *Store) Usage(t Target, entries []string) string {
	n, limit := size(entries), s.Limit(t)
	return fmt.Sprintf("%d%% — %s/%s chars", min(n*100/limit, 100), commas(n), commas(limit))
}

const delimiter = "\n§\n"

// size returns how many characters entries take in their file.
func size(entries []string) int { return utf8.RuneCountInString(strings.Join(entries, delimiter)) }

// parse reads the entries of a file: a line with § alone ends one. Entries are
// trimmed, and empty ones vanish.
func parse(text string) []string {
	var entries []string
	var lines []string
	end := func() {
		if e := tidy(strings.Join(lines, "\n")); e != "" {
			entries = append(entries, e)
		}
		lines = lines[:0]
	}
	for line := range strings.SplitSeq(tidy(text), "\n") {
		if tidy(line) == "§" {
			end()
			continue
		}
		lines = append(lines, line)
	}
	end()
	return entries
}

func commas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A Blocked is an entry that a snapshot leaves out.
type Blocked struct {
	Target Target
	Entry  string
	IDs    string // what was found in it
}

// String says what happened and what to do.
func (b Blocked) String() string {
	return fmt.Sprintf("An entry of %s is left out of the prompt, because it looks like an attack (%s). Read it with \"hermesd memory show\" and remove it.",
		b.Target.File(), b.IDs)
}

// Snapshot returns the store as it stands in a prompt: a box with how full it
// is, and the entries, each only once. It is "" if there are none. Entries that
// look like an attack are replaced by a marker and returned.
func (s *Store) Snapshot(t Target) (string, []Blocked, error) {
	entries, err := s.Entries(t)
	if err != nil || len(entries) == 0 {
		return "", nil, err
	}
	var shown []string
	var blocked []Blocked
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e] {
			continue
		}
		seen[e] = true
		if found := injection.ScanMemory(e); len(found) > 0 {
			blocked = append(blocked, Blocked{t, e, injection.JoinIDs(found)})
			e = injection.Placeholder(t.File(), found)
		}
		shown = append(shown, e)
	}
	title := "MEMORY (your personal notes)"
	if t == User {
		title = "USER PROFILE (who the user is)"
	}
	rule := strings.Repeat("═", 46)
	return fmt.Sprintf("%s\n%s [%s]\n%s\n%s", rule, title, s.Usage(t, entries), rule, strings.Join(shown, delimiter)), blocked, nil
}
