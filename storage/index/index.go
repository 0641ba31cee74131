// Package index implements a full-text index over the active and archived
// messages of all sessions, in a SQLite file next to the store.
//
// An [Index] stores and searches the words, a [Follower] keeps it up to date
// with the store, and a [Scope] limits a search to the sessions that may be
// seen. All methods of an Index may be called from any goroutine.
//
// The file contains nothing that the store does not contain. If it is damaged
// or has another version, it is deleted, and the Follower rebuilds it. If the
// disk is full, it is deleted too, so that the store gets its space. The Follower
// also catches up after a crash: the indexed rows and the progress are stored in
// one transaction.
//
// Words are found regardless of case, width and accents. Scripts written
// without spaces are indexed as pairs of characters, so that words of one, two
// and more characters are found. Identifiers are split into their parts, which
// are searched as a phrase.
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
	"syscall"

	"modernc.org/sqlite" // registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// version is the version of the file format; a file of another version is
// rebuilt.
const version = 1

// ErrDamaged is the error of searches while the file is damaged. Nothing is
// lost: the next update of the Follower rebuilds it.
var ErrDamaged = errors.New("search index cannot be used and will be rebuilt")

// ErrNoSpace is the error of searches while there is no file, and of updates,
// because the disk is full. Nothing is lost: the Follower rebuilds the file when
// there is space.
var ErrNoSpace = errors.New("disk is full, and search index will be rebuilt when there is space")

// ErrNotOpen is the error of searches in an index that NotOpen has returned.
var ErrNotOpen = errors.New("search index is not open")

// An Index is an open index file. Its methods may be called from any goroutine.
type Index struct {
	path string

	fault        atomic.Pointer[error] // ErrDamaged, ErrNoSpace or ErrNotOpen; nil: the file can be used
	forgottenIDs sync.Map              // IDs of sessions that must not be added again

	mu       sync.RWMutex // write-locked to replace the following fields, read-locked to use them
	write    *sql.DB
	read     *sql.DB
	prepared statements // in write
	isClosed bool
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

// Open opens the index at path. If there is none, or the file is damaged or has
// another version, it creates an empty one. If the disk is full, there is no file
// until Reset.
func Open(path string) (*Index, error) {
	x := &Index{path: path}
	err := x.openFile()
	if err != nil {
		err = x.recreate()
	}
	if err != nil && !errors.Is(err, ErrNoSpace) {
		return nil, fmt.Errorf("open search index %s: %w", path, err)
	}
	return x, nil
}

// NotOpen returns an Index in place of one that could not be opened. Nothing is found in
// it, and nothing is deleted from it.
func NotOpen() *Index {
	x := new(Index)
	x.fault.Store(&ErrNotOpen)
	return x
}

// openFile opens the file, and creates the tables if it is new.
func (x *Index) openFile() (err error) {
	if err := ensurePrivate(x.path); err != nil {
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
		err = x.initSchema()
	}
	if err == nil {
		x.prepared, err = prepare(context.Background(), x.write)
	}
	if err != nil {
		return errors.Join(err, x.closeFile())
	}
	return nil
}

// ensurePrivate creates the file if necessary and makes it accessible to its
// owner only.
func ensurePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

func (x *Index) initSchema() error {
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
		return fmt.Errorf("file has version %d, want %d", have, version)
	}
	var n int
	return x.write.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM (SELECT 1 FROM docs LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)) + (SELECT count(*) FROM (SELECT rowid FROM fts WHERE fts MATCH 'x' LIMIT 1))`).Scan(&n)
}

func (x *Index) closeFile() error {
	var errs []error
	for _, db := range []*sql.DB{x.read, x.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	x.read, x.write = nil, nil
	return errors.Join(errs...)
}

// removeFile closes and deletes the file.
func (x *Index) removeFile() error {
	_ = x.closeFile() // errors of a deleted file do not matter
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(x.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// recreate replaces the file by an empty one. The error is ErrNoSpace if there is
// no space for one; then there is none.
func (x *Index) recreate() error {
	err := x.removeFile()
	if err == nil {
		err = x.openFile()
	}
	switch {
	case err == nil:
		x.fault.Store(nil)
	case isNoSpace(err):
		_ = x.removeFile() // it is empty
		x.fault.Store(&ErrNoSpace)
		err = fmt.Errorf("%w (%w)", ErrNoSpace, err)
	default:
		x.fault.CompareAndSwap(nil, &ErrDamaged) // it is closed
	}
	return err
}

// Reset replaces the index by an empty one. A Follower rebuilds it.
func (x *Index) Reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isClosed {
		return sql.ErrConnDone
	}
	if err := x.recreate(); err != nil {
		return fmt.Errorf("reset search index %s: %w", x.path, err)
	}
	return nil
}

// Remove deletes the file, so that the store can use its space. Until Reset,
// searches return ErrNoSpace.
func (x *Index) Remove() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isClosed {
		return sql.ErrConnDone
	}
	if err := x.removeFile(); err != nil {
		x.fault.Store(&ErrDamaged) // it is closed
		return fmt.Errorf("remove search index %s: %w", x.path, err)
	}
	x.fault.Store(&ErrNoSpace)
	return nil
}

// Fault returns nil if the file can be used, ErrNotOpen if it was not opened, and otherwise
// ErrDamaged or ErrNoSpace; then Reset is necessary.
func (x *Index) Fault() error {
	if p := x.fault.Load(); p != nil {
		return *p
	}
	return nil
}

// Close closes the file. Later calls return sql.ErrConnDone.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.isClosed = true
	return x.closeFile()
}

// withDB runs f on the file and records whether f found it damaged.
func (x *Index) withDB(what string, f func(read, write *sql.DB) error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.isClosed {
		return fmt.Errorf("%s: %w", what, sql.ErrConnDone)
	}
	if err := x.Fault(); err != nil {
		return err
	}
	err := f(x.read, x.write)
	if err == nil {
		return nil
	}
	if isDamage(err) {
		x.fault.Store(&ErrDamaged)
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

// isDamage reports whether err means that the file is damaged.
func isDamage(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	case sqlite3.SQLITE_ERROR: // tables are missing: the file was replaced
		return strings.Contains(e.Error(), "no such table")
	}
	return false
}

// isNoSpace reports whether err means that the disk is full.
func isNoSpace(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
