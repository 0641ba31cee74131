package skills

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// cacheVersion is the version of the cache file. It also increases when the
// parsing of a SKILL.md changes.
const cacheVersion = 1

// cacheFile is the content of the cache file, after a line with its digest.
type cacheFile struct {
	Version  int       `json:"v"`
	Scanner  string    `json:"scanner"`
	Roots    []string  `json:"roots"`
	Folders  []folder  `json:"folders"`
	Entries  []entry   `json:"entries"`
	Problems []Problem `json:"problems,omitempty"`
}

// build returns a new catalog. It reads only what has changed since last, which
// may be nil.
func (l *Library) build(last *Catalog) *Catalog {
	known := map[folder]entry{}
	if last != nil {
		for _, e := range last.entries {
			if e.Stamp.Size >= 0 {
				known[e.folder] = e
			}
		}
	}
	w := l.walk(known)
	problems := slices.Clone(w.problems)
	c := newCatalog(l.roots, w)
	l.saveCache(c, problems, last)
	return c
}

// loadCache returns the catalog in the cache file, nil if it is not usable.
func (l *Library) loadCache() *Catalog {
	if l.o.Cache == "" {
		return nil
	}
	raw, err := os.ReadFile(l.o.Cache)
	if err != nil {
		return nil
	}
	head, body, _ := bytes.Cut(raw, []byte("\n"))
	sum := sha256.Sum256(body)
	var k cacheFile
	if string(head) != hex.EncodeToString(sum[:]) || json.Unmarshal(body, &k) != nil ||
		k.Version != cacheVersion || k.Scanner != l.o.Scanner || !slices.Equal(k.Roots, l.roots) {
		return nil
	}
	c := newCatalog(l.roots, &walk{folders: k.Folders, entries: k.Entries, problems: k.Problems})
	c.saved = sum
	return c
}

// saveCache writes the cache file unless it is up to date. A failure costs time
// at the next start, and is added to the problems.
func (l *Library) saveCache(c *Catalog, problems []Problem, last *Catalog) {
	if l.o.Cache == "" {
		return
	}
	body, err := json.Marshal(cacheFile{cacheVersion, l.o.Scanner, l.roots, c.folders, c.entries, problems})
	if err != nil {
		c.problems = append(c.problems, Problem{Path: l.o.Cache, Text: "the cache cannot be written: " + err.Error()})
		return
	}
	sum := sha256.Sum256(body)
	if last == nil || last.saved != sum {
		text := append([]byte(hex.EncodeToString(sum[:])+"\n"), body...)
		if err := replaceCache(l.o.Cache, text); err != nil {
			c.problems = append(c.problems, Problem{Path: l.o.Cache, Text: "the cache cannot be written: " + errorReason(err)})
			return
		}
	}
	c.saved = sum
}

// replaceCache replaces a file. A crash may lose the file or corrupt it, which
// its digest reveals.
func replaceCache(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".skills-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
