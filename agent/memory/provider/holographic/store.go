package holographic

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"modernc.org/sqlite" // registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// schema is upstream's.
const schema = `
CREATE TABLE IF NOT EXISTS facts (
	fact_id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL UNIQUE, category TEXT DEFAULT 'general', tags TEXT DEFAULT '',
	trust_score REAL DEFAULT 0.5, retrieval_count INTEGER DEFAULT 0, helpful_count INTEGER DEFAULT 0,
	created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, hrr_vector BLOB);
CREATE TABLE IF NOT EXISTS entities (
	entity_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, entity_type TEXT DEFAULT 'unknown', aliases TEXT DEFAULT '',
	created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS fact_entities (
	fact_id INTEGER REFERENCES facts(fact_id), entity_id INTEGER REFERENCES entities(entity_id), PRIMARY KEY (fact_id, entity_id));
CREATE INDEX IF NOT EXISTS idx_facts_trust ON facts(trust_score DESC);
CREATE INDEX IF NOT EXISTS idx_facts_category ON facts(category);
CREATE INDEX IF NOT EXISTS idx_entities_name ON entities(name);
CREATE VIRTUAL TABLE IF NOT EXISTS facts_fts USING fts5(content, tags, content=facts, content_rowid=fact_id);
CREATE TRIGGER IF NOT EXISTS facts_ai AFTER INSERT ON facts BEGIN
	INSERT INTO facts_fts(rowid, content, tags) VALUES (new.fact_id, new.content, new.tags);
END;
CREATE TRIGGER IF NOT EXISTS facts_ad AFTER DELETE ON facts BEGIN
	INSERT INTO facts_fts(facts_fts, rowid, content, tags) VALUES ('delete', old.fact_id, old.content, old.tags);
END;
CREATE TRIGGER IF NOT EXISTS facts_au AFTER UPDATE ON facts BEGIN
	INSERT INTO facts_fts(facts_fts, rowid, content, tags) VALUES ('delete', old.fact_id, old.content, old.tags);
	INSERT INTO facts_fts(rowid, content, tags) VALUES (new.fact_id, new.content, new.tags);
END;
CREATE TABLE IF NOT EXISTS memory_banks (
	bank_id INTEGER PRIMARY KEY AUTOINCREMENT, bank_name TEXT NOT NULL UNIQUE, vector BLOB NOT NULL, dim INTEGER NOT NULL,
	fact_count INTEGER DEFAULT 0, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);`

// A file is the memory of one person. Its methods may be called from any goroutine.
type file struct {
	db    *sql.DB
	dim   int
	trust float64 // of new facts
	write sync.Mutex

	refs, used int // guarded by memory.mu
}

// maxTries is how often a call tries to get a lock that another connection has, such as
// upstream's: 5 s. SQLite itself waits for a tenth of a second, since it does not notice the
// end of a context meanwhile.
const maxTries = 50

// isBusy reports whether err means that another connection has a lock.
func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// openFile opens or creates a file. Others of this process, and upstream, may have it open.
func openFile(ctx context.Context, path string, set options) (*file, error) {
	if err := ensurePrivate(path); err != nil {
		return nil, err
	}
	// A search in 10,000 facts reads more pages than the 2 MB that SQLite keeps by itself: with
	// 4 MiB it takes a third more processor time than with 8.
	db, err := sql.Open("sqlite", dataSource(path)+"?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=cache_size(-8192)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	f := &file{db: db, dim: set.dim, trust: set.trust}
	if err := f.ensureSchema(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

func dataSource(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }

// Copy writes a copy of the file at path to a new file: of one moment, with what is still
// in the write-ahead log, also while others use the file.
func Copy(ctx context.Context, path, to string) error {
	err := copyAs(ctx, "mode=rw&_pragma=busy_timeout(5000)", path, to)
	if err == nil || isBusy(err) || hasContent(path+"-wal") || hasContent(path+"-journal") {
		return err
	}
	// SQLite reads a file with a write-ahead log only if it can write files next to it. With
	// nothing in a log the file itself is complete.
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copyAs(ctx, "mode=ro&immutable=1", path, to)
}

func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// copyAs writes a copy of the file at path, opened with options, to a new file.
func copyAs(ctx context.Context, options, path, to string) error {
	db, err := sql.Open("sqlite", dataSource(path)+"?"+options)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	return errors.Join(err, db.Close())
}

// ensurePrivate creates the file if necessary and makes it accessible to its owner only.
// It does not open one that exists: closing it would end the locks of other connections
// of this process.
func ensurePrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	made, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return made.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// ensureSchema creates what is missing. It writes nothing to a file that has all of it.
func (f *file) ensureSchema(ctx context.Context) error {
	var tables, column int
	err := f.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM sqlite_schema WHERE name IN
		('facts', 'entities', 'fact_entities', 'facts_fts', 'facts_ai', 'facts_ad', 'facts_au', 'memory_banks')),
		(SELECT count(*) FROM pragma_table_info('facts') WHERE name = 'hrr_vector')`).Scan(&tables, &column)
	if err != nil || tables == 8 && column == 1 {
		return err
	}
	return f.tx(ctx, func(tx *sql.Tx) error {
		if tables > 0 && column == 0 { // of an older version, or another process is creating it
			_, err := tx.ExecContext(ctx, "ALTER TABLE facts ADD COLUMN hrr_vector BLOB")
			if err != nil && !strings.Contains(err.Error(), "duplicate column") && !strings.Contains(err.Error(), "no such table") {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
}

func (f *file) tx(ctx context.Context, do func(*sql.Tx) error) error {
	f.write.Lock()
	defer f.write.Unlock()
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// add stores a fact and returns its ID. A content that is there already keeps its ID and
// is not changed.
func (f *file) add(ctx context.Context, content, category, tags string) (id int64, err error) {
	content = clean(content)
	err = f.tx(ctx, func(tx *sql.Tx) error {
		if id, err = idOf(ctx, tx, content); err != nil || id != 0 {
			return err
		}
		linked, v, err := f.describe(ctx, tx, content)
		if err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, "INSERT INTO facts (content, category, tags, trust_score, hrr_vector) VALUES (?, ?, ?, ?, ?)",
			content, category, tags, f.trust, encode(v))
		if err != nil {
			return err
		}
		if id, err = r.LastInsertId(); err != nil {
			return err
		}
		return errors.Join(link(ctx, tx, id, linked), dropBank(ctx, tx, category))
	})
	return id, err
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// idOf returns the ID of the fact with a content; 0 if there is none.
func idOf(ctx context.Context, q queryer, content string) (id int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT fact_id FROM facts WHERE content = ?", content).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// describe returns the entities of a content, which it creates if necessary, and the
// vector.
func (f *file) describe(ctx context.Context, tx *sql.Tx, content string) (ids []int64, v vector, err error) {
	var names []string
	for _, name := range entities(content) {
		var id int64
		err := tx.QueryRowContext(ctx, `SELECT entity_id, name FROM entities WHERE name = ?1 COLLATE NOCASE
			UNION ALL SELECT entity_id, name FROM entities WHERE instr(',' || lower(aliases) || ',', ',' || lower(?1) || ',') LIMIT 1`, name).Scan(&id, &name)
		if errors.Is(err, sql.ErrNoRows) {
			err = tx.QueryRowContext(ctx, "INSERT INTO entities (name) VALUES (?) RETURNING entity_id", name).Scan(&id)
		}
		if err != nil {
			return nil, nil, err
		}
		ids, names = append(ids, id), append(names, name)
	}
	return ids, encoder(f.dim).fact(content, names), nil
}

func link(ctx context.Context, tx *sql.Tx, fact int64, entities []int64) error {
	for _, id := range entities {
		if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO fact_entities (fact_id, entity_id) VALUES (?, ?)", fact, id); err != nil {
			return err
		}
	}
	return nil
}

// dropBank deletes the vector of a category, since a fact of it changes. Nothing here needs
// it; upstream computes it again with its next change.
func dropBank(ctx context.Context, tx *sql.Tx, category string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM memory_banks WHERE bank_name = ?", "cat:"+category)
	return err
}

// A change says what to change of a fact: nil for what stays.
type change struct {
	content, category, tags *string
	delta                   float64
}

// update changes a fact. It reports whether there is one with the ID.
func (f *file) update(ctx context.Context, id int64, c change) (found bool, err error) {
	err = f.tx(ctx, func(tx *sql.Tx) error {
		var old string
		err := tx.QueryRowContext(ctx, "SELECT COALESCE(category, '') FROM facts WHERE fact_id = ?", id).Scan(&old)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		if c.content != nil {
			if err := f.replace(ctx, tx, id, clean(*c.content)); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE facts SET updated_at = CURRENT_TIMESTAMP, category = COALESCE(?, category),
			tags = COALESCE(?, tags), trust_score = max(0, min(1, trust_score + ?)) WHERE fact_id = ?`, c.category, c.tags, c.delta, id)
		if err == nil && c.category != nil {
			err = dropBank(ctx, tx, *c.category)
		}
		if err != nil {
			return err
		}
		return dropBank(ctx, tx, old)
	})
	return found, err
}

// errTaken means that another fact has the content already.
var errTaken = errors.New("another fact has this content")

func (f *file) replace(ctx context.Context, tx *sql.Tx, id int64, content string) error {
	if other, err := idOf(ctx, tx, content); err != nil || other == id {
		return err
	} else if other != 0 {
		return errTaken
	}
	linked, v, err := f.describe(ctx, tx, content)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE facts SET content = ?, hrr_vector = ? WHERE fact_id = ?", content, encode(v), id); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM fact_entities WHERE fact_id = ?", id); err != nil {
		return err
	}
	return link(ctx, tx, id, linked)
}

// remove deletes the fact that has the ID or the content. It reports whether there was
// one.
func (f *file) remove(ctx context.Context, id int64, content string) (found bool, err error) {
	err = f.tx(ctx, func(tx *sql.Tx) error {
		var category string
		err := tx.QueryRowContext(ctx, "DELETE FROM facts WHERE fact_id = ? OR content = NULLIF(?, '') RETURNING fact_id, COALESCE(category, '')", id, content).Scan(&id, &category)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		if _, err := tx.ExecContext(ctx, "DELETE FROM fact_entities WHERE fact_id = ?", id); err != nil {
			return err
		}
		return dropBank(ctx, tx, category)
	})
	return found, err
}

// clear deletes everything, also from free pages of the file.
func (f *file) clear(ctx context.Context) error {
	err := f.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM facts; DELETE FROM fact_entities; DELETE FROM entities; DELETE FROM memory_banks;
			INSERT INTO facts_fts(facts_fts) VALUES ('delete-all');`)
		return err
	})
	if err != nil {
		return err
	}
	f.write.Lock()
	defer f.write.Unlock()
	_, err = f.db.ExecContext(ctx, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
	return err
}

// feedback records whether a fact was helpful, and returns its new values. fact_id is 0
// if there is none with the ID.
func (f *file) feedback(ctx context.Context, id int64, helpful bool) (r rated, err error) {
	delta, more := -0.10, 0
	if helpful {
		delta, more = 0.05, 1
	}
	err = f.tx(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT trust_score, helpful_count FROM facts WHERE fact_id = ?", id).Scan(&r.Old, &r.Helpful)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		r = rated{ID: id, Old: r.Old, New: max(0, min(1, r.Old+delta)), Helpful: r.Helpful + more}
		_, err = tx.ExecContext(ctx, "UPDATE facts SET trust_score = ?, helpful_count = ?, updated_at = CURRENT_TIMESTAMP WHERE fact_id = ?", r.New, r.Helpful, id)
		return err
	})
	return r, err
}

// A rated is the result of a feedback.
type rated struct {
	ID      int64   `json:"fact_id"`
	Old     float64 `json:"old_trust"`
	New     float64 `json:"new_trust"`
	Helpful int     `json:"helpful_count"`
}
