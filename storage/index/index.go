// Package index finds messages by their words: a full-text index over the
// active and archived messages of all sessions, in a SQLite file beside the
// store.
//
// The file holds nothing that the store does not hold. One that is damaged, or
// of another version, is thrown away and built anew by the Follower, which also
// catches up after a crash: what is indexed and how far are one transaction.
//
// Words are found whatever their case, width and accents are. Scripts that are
// written without spaces are indexed by pairs of characters, so that words of
// one, two and more characters are found. Identifiers fall into their parts,
// which stand together.
package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite" // the driver registers itself
	sqlite3 "modernc.org/sqlite/lib"
)

// version is of what is in the file; another one is built anew.
const version = 1

// ErrDamaged says that the file of the index is damaged. Nothing is lost: the
// next pass of the Follower builds it anew.
var ErrDamaged = errors.New("the search index is damaged; it is being built anew")

// An Index is one open file. Its methods may be called from any goroutine.
type Index struct {
	path string

	broken atomic.Bool // found to be damaged
	gone   sync.Map    // the ids of sessions of which nothing is taken any more

	mu     sync.RWMutex // held to replace what follows, and shared to use it
	write  *sql.DB
	read   *sql.DB
	closed bool
}

const schema = `
CREATE TABLE groups (g INTEGER PRIMARY KEY, platform TEXT, account TEXT, scope TEXT, room TEXT, owner TEXT, shared INTEGER);
CREATE INDEX groups_of ON groups (platform, account, room, owner);
CREATE TABLE sessions (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, g INTEGER NOT NULL, updated INTEGER NOT NULL,
	start INTEGER NOT NULL, next INTEGER NOT NULL);
CREATE TABLE docs (id INTEGER PRIMARY KEY, s INTEGER NOT NULL, row INTEGER NOT NULL, role INTEGER NOT NULL, at INTEGER NOT NULL, text TEXT NOT NULL);
CREATE UNIQUE INDEX docs_row ON docs (s, row);
CREATE VIRTUAL TABLE fts USING fts5 (who, text, content='', contentless_delete=1, tokenize='ascii');
PRAGMA user_version = %d;`

// Open opens the index at path, or makes an empty one: also where the file is
// damaged or of another version.
func Open(path string) (*Index, error) {
	x := &Index{path: path}
	err := x.connect()
	if err != nil {
		err = x.renew()
	}
	if err != nil {
		return nil, fmt.Errorf("search index %s: %w", path, err)
	}
	return x, nil
}

// connect opens the file, and makes what belongs into it if it is new.
func (x *Index) connect() (err error) {
	if err := private(x.path); err != nil {
		return err
	}
	pragmas := "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-2000)&_pragma=temp_store(MEMORY)&_pragma=journal_size_limit(8388608)"
	name := "file:" + (&url.URL{Path: x.path}).EscapedPath() + pragmas
	if x.write, err = sql.Open("sqlite", name+"&_txlock=immediate"); err != nil {
		return err
	}
	x.write.SetMaxOpenConns(1)
	if x.read, err = sql.Open("sqlite", name+"&_pragma=query_only(1)"); err == nil {
		x.read.SetMaxOpenConns(2)
		err = x.prepare()
	}
	if err != nil {
		return errors.Join(err, x.disconnect())
	}
	return nil
}

// private makes sure that nobody else can read the file.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

func (x *Index) prepare() error {
	ctx := context.Background()
	var have, tables int
	if err := x.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if err := x.write.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 && have == 0 {
		return inTx(ctx, x.write, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, fmt.Sprintf(schema, version))
			return err
		})
	}
	if have != version {
		return fmt.Errorf("it has version %d, not %d", have, version)
	}
	var n int
	return x.write.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM (SELECT 1 FROM docs LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)) + (SELECT count(*) FROM (SELECT rowid FROM fts WHERE fts MATCH 'x' LIMIT 1))`).Scan(&n)
}

func (x *Index) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{x.read, x.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	x.read, x.write = nil, nil
	return errors.Join(errs...)
}

// renew replaces the file by an empty one.
func (x *Index) renew() error {
	_ = x.disconnect() // of a file that is thrown away
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(x.path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return x.connect()
}

// Reset throws away what is indexed. A Follower builds it anew.
func (x *Index) Reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return sql.ErrConnDone
	}
	err := x.renew()
	if x.broken.Store(err != nil); err != nil {
		return fmt.Errorf("search index %s: %w", x.path, err)
	}
	return nil
}

// Damaged reports whether the file was found to be damaged since it was opened.
func (x *Index) Damaged() bool { return x.broken.Load() }

// Close closes the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return x.disconnect()
}

// use runs f on the file and remembers if it turned out to be damaged.
func (x *Index) use(what string, f func(read, write *sql.DB) error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case x.closed:
		return fmt.Errorf("%s: %w", what, sql.ErrConnDone)
	case x.broken.Load():
		return ErrDamaged
	}
	err := f(x.read, x.write)
	if err == nil {
		return nil
	}
	if damage(err) {
		x.broken.Store(true)
		return fmt.Errorf("%s: %w", what, ErrDamaged)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func inTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// damage reports whether err says that the file is not what it should be.
func damage(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	case sqlite3.SQLITE_ERROR: // the tables are not there: somebody has replaced the file
		return strings.Contains(e.Error(), "no such table")
	}
	return false
}
