// Package holographic remembers facts in a SQLite file, the same that upstream's provider
// of this name uses, also at the same time. It finds facts by their words (FTS5), and by
// vectors that are computed from the words and the names in a fact: no model is asked, and
// nothing leaves the machine.
//
// The owner's file is db_path; other people have files of their own in the folder
// memory_store of the Hermes home.
//
// Turns store nothing unless auto_extract is set. Then each message of a person that
// states a preference or a decision, in English, becomes a fact when the conversation ends, as
// upstream does it, or when 100 more turns wait for that. A repetition changes nothing, because
// contents are unique.
package holographic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/lazyregexp"
)

const header = `# Holographic Memory
Active. A local store of facts with names and trust scores, in addition to the built-in memory.
Use fact_store to search, probe (one name), reason (several names), related, contradict (conflicting facts), or to add facts that the user would expect you to remember.
Use fact_feedback to rate facts after using them.`

// options are upstream's section plugins.hermes-memory-store.
type options struct {
	path     string
	extract  bool
	trust    float64
	minTrust float64
	dim      int
	weight   float64
	halfLife float64
}

// query returns what the options say of a search.
func (s options) query() query {
	return query{minTrust: s.minTrust, weight: s.weight, halfLife: s.halfLife, limit: 10}
}

// A memory is the provider. Files are opened when they are first used.
type memory struct {
	home string
	set  options

	mu     sync.Mutex
	files  map[string]*file // by path
	clock  int              // counts uses of files
	closed bool
}

// maxFiles is the number of files that stay open while nobody uses them.
const maxFiles = 16

// Open returns the provider for the section plugins.hermes-memory-store of config.yaml,
// with warnings about it. It opens no file.
func Open(s provider.Source) (provider.Provider, []string, error) {
	set, warnings, err := load(s)
	if err != nil {
		return nil, nil, err
	}
	return &memory{home: s.Home, set: set, files: map[string]*file{}}, warnings, nil
}

func load(s provider.Source) (options, []string, error) {
	section := s.Section
	if len(section) == 0 {
		section = json.RawMessage("{}")
	}
	o, err := settings.Parse("plugins.hermes-memory-store", section)
	if err != nil {
		return options{}, nil, err
	}
	set := options{
		path:     filepath.Join(s.Home, "memory_store.db"),
		extract:  o.Bool("auto_extract", false),
		trust:    o.Number("default_trust", 0.5, 0, 1),
		minTrust: o.Number("min_trust_threshold", 0.3, 0, 1),
		dim:      int(o.Number("hrr_dim", 1024, 1, 1<<16)),
		weight:   o.Number("hrr_weight", 0.3, 0, 1),
		halfLife: o.Number("temporal_decay_half_life", 0, 0, 1e6),
	}
	if path := o.Text("db_path"); path != "" {
		set.path = expand(s, path)
	}
	return set, o.Unknown(), nil
}

// expand returns the file that a db_path names. A relative one is in the Hermes home.
func expand(s provider.Source, path string) string {
	path = strings.NewReplacer("${HERMES_HOME}", s.Home, "$HERMES_HOME", s.Home).Replace(path)
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		home := s.Getenv("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		path = home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Home, path)
	}
	return filepath.Clean(path)
}

func (m *memory) About() provider.About {
	mode, batch := "auto_extract is off: facts only from the built-in memory and from tools", provider.Batch{}
	if m.set.extract {
		batch = provider.Batch{Turns: 100, After: 30 * time.Minute} // the time of an end
		mode = "auto_extract is on: also facts from messages, by English patterns"
	}
	return provider.About{
		Name: "holographic", Label: "Holographic", Mode: mode, Place: m.set.path, Header: header, Tools: slices.Clone(tools),
		Wait: true, Exact: true, Batch: batch, // a search takes milliseconds
		Cannot: "one conversation, because facts do not say where they are from",
	}
}

var identity = lazyregexp.New(`^[A-Za-z0-9_-]{1,100}$`)

// path returns the file of a person.
func (m *memory) path(person string) (string, error) {
	if person == "" {
		return m.set.path, nil
	}
	if !identity().MatchString(person) {
		return "", &provider.Error{Class: provider.Refused, Text: "not the identity of a person"}
	}
	return filepath.Join(m.home, "memory_store", person+".db"), nil
}

// with runs do on the file of a person, again if another connection has a lock. Errors are
// *provider.Error, except a mistake.
func (m *memory) with(ctx context.Context, person string, do func(*file) error) error {
	path, err := m.path(person)
	if err != nil {
		return err
	}
	err = m.once(ctx, path, do)
	for n := 1; n < maxTries && isBusy(err) && ctx.Err() == nil; n++ {
		err = m.once(ctx, path, do)
	}
	if _, ok := errors.AsType[mistake](err); ok || err == nil {
		return err
	}
	return &provider.Error{Class: provider.Down, Text: fmt.Sprintf("the memory file %s cannot be used: %s", path, err), Err: err}
}

func (m *memory) once(ctx context.Context, path string, do func(*file) error) error {
	f, err := m.acquire(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(do(f), m.release(f))
}

// has reports whether a person has a file.
func (m *memory) has(person string) bool {
	path, err := m.path(person)
	if err != nil {
		return true // with says so
	}
	_, err = os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (m *memory) acquire(ctx context.Context, path string) (f *file, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errors.New("it is closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f = m.files[path]; f == nil {
		if f, err = openFile(ctx, path, m.set); err != nil {
			return nil, err
		}
		m.files[path] = f
	}
	m.clock++
	f.refs, f.used = f.refs+1, m.clock
	return f, nil
}

// release ends a use of f. It closes the file that was not used for the longest time if
// too many are open, and all after Close.
func (m *memory) release(f *file) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.refs--
	var errs []error
	for m.closed || len(m.files) > maxFiles {
		oldest := ""
		for path, f := range m.files {
			if f.refs == 0 && (oldest == "" || f.used < m.files[oldest].used) {
				oldest = path
			}
		}
		if oldest == "" {
			break
		}
		errs = append(errs, m.files[oldest].db.Close())
		delete(m.files, oldest)
	}
	return errors.Join(errs...)
}

// Close closes the files. One that is in use is closed after that use.
func (m *memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.release(&file{})
}

func (m *memory) Check(ctx context.Context) (h provider.Health, err error) {
	err = m.with(ctx, "", func(f *file) error {
		var n int
		err := f.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM facts").Scan(&n)
		h.Detail = "facts: " + strconv.Itoa(n)
		return err
	})
	return h, err
}

// Standing returns "": what is known of a person depends on what is asked.
func (m *memory) Standing(context.Context, provider.Scope) (string, error) { return "", nil }

// maxRecall is the number of facts of a recall.
const maxRecall = 5

func (m *memory) Recall(ctx context.Context, s provider.Scope, text string) (items []provider.Item, err error) {
	if !m.has(s.Person) {
		return nil, nil
	}
	q := m.set.query()
	q.text, q.limit = text, maxRecall
	err = m.with(ctx, s.Person, func(f *file) error {
		found, err := f.search(ctx, q)
		for _, x := range found {
			items = append(items, provider.Item{ID: strconv.FormatInt(x.ID, 10), Text: x.Content})
		}
		return err
	})
	return items, err
}

// A statement is a fact that an event adds.
type statement struct{ content, category string }

// statements returns the facts that an event adds.
func (m *memory) statements(e provider.Event) (all []statement) {
	switch {
	case e.Kind == provider.Added && e.Fact.Target == "user":
		all = append(all, statement{clean(e.Fact.Text), "user_pref"})
	case e.Kind == provider.Added:
		all = append(all, statement{clean(e.Fact.Text), "general"})
	case e.Kind == provider.Turn && m.set.extract:
		for _, message := range e.Messages {
			if content, category := extract(message.Text); content != "" && message.Role == "user" {
				all = append(all, statement{content, category})
			}
		}
	}
	return slices.DeleteFunc(all, func(s statement) bool { return s.content == "" })
}

// changes reports whether an event changes a file at all.
func (m *memory) changes(e provider.Event) bool {
	switch e.Kind {
	case provider.Removed:
		return m.has(e.Scope.Person)
	case provider.Forget:
		return e.Scope.Session == "" && m.has(e.Scope.Person)
	}
	return len(m.statements(e)) > 0
}

func (m *memory) Sync(ctx context.Context, e provider.Event) (r provider.Receipt, err error) {
	if !m.changes(e) {
		return r, nil
	}
	err = m.with(ctx, e.Scope.Person, func(f *file) error {
		switch e.Kind {
		case provider.Removed:
			_, err := f.remove(ctx, 0, clean(e.Fact.Text))
			return err
		case provider.Forget:
			return f.clear(ctx)
		}
		for _, s := range m.statements(e) {
			id, err := f.add(ctx, s.content, s.category, "")
			if err != nil {
				return err
			}
			r.ID = strconv.FormatInt(id, 10)
		}
		return nil
	})
	return r, err
}

func (m *memory) Synced(ctx context.Context, e provider.Event, _ provider.Receipt) (done bool, err error) {
	if !m.changes(e) {
		return true, nil
	}
	if !m.has(e.Scope.Person) {
		return false, nil
	}
	err = m.with(ctx, e.Scope.Person, func(f *file) error {
		switch e.Kind {
		case provider.Removed:
			id, err := idOf(ctx, f.db, clean(e.Fact.Text))
			done = id == 0
			return err
		case provider.Forget:
			all, err := f.list(ctx, query{limit: 1})
			done = len(all) == 0
			return err
		}
		done = true
		for _, s := range m.statements(e) {
			id, err := idOf(ctx, f.db, s.content)
			if err != nil {
				return err
			}
			done = done && id != 0
		}
		return nil
	})
	return done, err
}
