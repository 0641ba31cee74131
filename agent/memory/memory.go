// Package memory stores what the agent remembers between sessions: two small
// files of entries, its notes and its knowledge about the user. The main type
// is Store.
//
// A session's prompt has a snapshot that is taken once and never changes; a
// write goes to disk at once and is part of the next session's snapshot.
// Several processes may write at the same time: each write takes the store's
// lock file, reads the file again, and replaces it atomically, so that an
// accepted write is on disk before it is acknowledged, and none is lost.
//
// Entries are separated by a line with only §. Sizes are counted in Unicode
// code points of the entries including the delimiters between them.
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

// The default limits of the stores, in characters.
const (
	DefaultNotesLimit = 2200
	DefaultUserLimit  = 1375
)

// Config holds the parameters of a Store.
type Config struct {
	// Dir is the directory of the files, $HERMES_HOME/memories. It is created
	// by the first write.
	Dir string
	// NotesLimit and UserLimit are in characters; 0 is the default.
	NotesLimit, UserLimit int
	// LockWait limits the wait for another writer; 0 is ten seconds.
	LockWait time.Duration
}

// A Store reads and writes both files. It caches nothing and may be used by
// several goroutines and processes at once.
type Store struct{ c Config }

// New returns the store of c. It accesses no file.
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

// ParseTarget parses the name of a store; "" is Notes.
func ParseTarget(s string) (Target, error) {
	switch Target(s) {
	case "", Notes:
		return Notes, nil
	case User:
		return User, nil
	}
	return "", fmt.Errorf("there is no store %q; use memory or user", s)
}

// File returns the name of the store's file, without its directory.
func (t Target) File() string {
	if t == User {
		return "USER.md"
	}
	return "MEMORY.md"
}

// Path returns the path of the store's file.
func (s *Store) Path(t Target) string { return filepath.Join(s.c.Dir, t.File()) }

// Limit returns the maximum number of characters of the store.
func (s *Store) Limit(t Target) int {
	if t == User {
		return s.c.UserLimit
	}
	return s.c.NotesLimit
}

// Entries returns the current entries of the store, in order; none if there is
// no file.
func (s *Store) Entries(t Target) ([]string, error) {
	f, err := s.read(t)
	return f.entries, err
}

// Usage returns the fill level of the store with entries: "67% — 1,474/2,200
// chars". The percentage is rounded down and at most 100.
func (s *Store) Usage(t Target, entries []string) string {
	n, limit := charCount(entries), s.Limit(t)
	return fmt.Sprintf("%d%% — %s/%s chars", min(n*100/limit, 100), formatThousands(n), formatThousands(limit))
}

const delimiter = "\n§\n"

// charCount returns the number of characters of entries in their file.
func charCount(entries []string) int { return utf8.RuneCountInString(strings.Join(entries, delimiter)) }

// parse returns the entries of a file, separated by lines with only §. Entries
// are trimmed, and empty ones are dropped.
func parse(text string) []string {
	var entries []string
	var lines []string
	end := func() {
		if e := normalize(strings.Join(lines, "\n")); e != "" {
			entries = append(entries, e)
		}
		lines = lines[:0]
	}
	for line := range strings.SplitSeq(normalize(text), "\n") {
		if normalize(line) == "§" {
			end()
			continue
		}
		lines = append(lines, line)
	}
	end()
	return entries
}

func formatThousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A Blocked is an entry that a snapshot omits.
type Blocked struct {
	Target Target
	Entry  string
	IDs    string // the findings of the injection scan
}

// String returns what happened and what to do, for people.
func (b Blocked) String() string {
	return fmt.Sprintf("An entry of %s is left out of the prompt, because it looks like an attack (%s). Read it with \"hermesd memory show\" and remove it.",
		b.Target.File(), b.IDs)
}

// Snapshot returns the store in the form that a prompt has: a box with the fill
// level, and the entries without duplicates. It is "" if there are none.
// Entries that look like an attack are replaced by a placeholder and returned.
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
