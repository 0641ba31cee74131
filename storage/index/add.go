package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hermesd/gateway/session"
)

// A Doc is one row of a transcript with its searchable text.
type Doc struct {
	Row  int
	Role Role
	Time time.Time
	Text string
}

// A Progress is the state of a session in the index.
type Progress struct {
	Start   int       // first active row at the last update
	Next    int       // rows before this one are indexed
	Updated time.Time // last use of the session at the last update
}

// Progress returns the state of a session in the index; ok is false if it is
// not indexed.
func (x *Index) Progress(ctx context.Context, id session.ID) (m Progress, ok bool, err error) {
	err = x.withDB("read search index", func(_, _ *sql.DB) error {
		var at int64
		err := x.prepared.progress.QueryRowContext(ctx, string(id)).Scan(&m.Start, &m.Next, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		m.Updated, ok = time.Unix(0, at), err == nil
		return err
	})
	return m, ok, err
}

// An Update is what Add changes of one session.
type Update struct {
	Session session.Record
	Docs    []Doc          // rows to index; those that are indexed already do not change
	Next    int            // all rows before this one are indexed then
	Drop    []session.Span // rows to remove
}

// Add makes updates in one transaction, in their order. It stores the visibility
// and the progress of each session. It does nothing for a session that was
// removed by Forget.
func (x *Index) Add(ctx context.Context, updates ...Update) error {
	return x.withDB("add to search index", func(_, write *sql.DB) error {
		return inTx(ctx, write, func(tx *sql.Tx) error {
			p := x.prepared.in(ctx, tx)
			for _, u := range updates {
				if x.isForgotten(u.Session.ID) { // inside the transaction: a concurrent Delete runs before or after it
					continue
				}
				n, g, err := p.upsertSession(ctx, u.Session, u.Next)
				if err != nil {
					return err
				}
				for _, s := range u.Drop {
					if err := deleteDocs(ctx, tx, "s = ? AND row >= ? AND row < ?", n, s.From, s.To); err != nil {
						return err
					}
				}
				if err := p.insertDocs(ctx, n, g, u.Docs); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// statements are the prepared statements of updates, which are made often.
type statements struct {
	progress, findSession, findGroup, addGroup, updateGroup, addSession, updateSession, addDoc, addWords *sql.Stmt
}

// prepare returns the statements, prepared in db.
func prepare(ctx context.Context, db *sql.DB) (p statements, err error) {
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&p.progress, "SELECT start, next, updated FROM sessions WHERE id = ?"},
		{&p.findSession, "SELECT n, g FROM sessions WHERE id = ?"},
		{&p.findGroup, "SELECT g FROM groups WHERE platform = ? AND account = ? AND scope = ? AND room = ? AND owner = ? AND shared = ?"},
		{&p.addGroup, "INSERT INTO groups (platform, account, scope, room, owner, shared) VALUES (?, ?, ?, ?, ?, ?)"},
		{&p.updateGroup, `UPDATE groups SET platform = ?1, account = ?2, scope = ?3, room = ?4, owner = ?5, shared = ?6
			WHERE g = ?7 AND (platform, account, scope, room, owner, shared) IS NOT (?1, ?2, ?3, ?4, ?5, ?6)`},
		{&p.addSession, "INSERT INTO sessions (id, g, updated, start, next) VALUES (?, ?, ?, ?, ?)"},
		{&p.updateSession, "UPDATE sessions SET updated = ?, start = ?, next = ? WHERE n = ?"},
		{&p.addDoc, "INSERT OR IGNORE INTO docs (s, row, role, at, text) VALUES (?, ?, ?, ?, ?)"},
		{&p.addWords, "INSERT INTO fts (rowid, who, text) VALUES (?, ?, ?)"},
	} {
		if *s.to, err = db.PrepareContext(ctx, s.query); err != nil {
			return p, err
		}
	}
	return p, nil
}

// in returns the statements of Add for the transaction tx.
func (p statements) in(ctx context.Context, tx *sql.Tx) statements {
	for _, s := range []**sql.Stmt{&p.findSession, &p.findGroup, &p.addGroup, &p.updateGroup, &p.addSession, &p.updateSession, &p.addDoc, &p.addWords} {
		*s = tx.StmtContext(ctx, *s)
	}
	return p
}

func (p statements) insertDocs(ctx context.Context, n, g int64, docs []Doc) error {
	who := groupTerm(g)
	for _, d := range docs {
		text := clean(d.Text)
		if text == "" {
			continue
		}
		res, err := p.addDoc.ExecContext(ctx, n, d.Row, roleNumber(d.Role), d.Time.UnixNano(), text)
		if err != nil {
			return err
		}
		if added, err := res.RowsAffected(); err != nil || added == 0 {
			if err != nil {
				return err
			}
			continue
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		if _, err := p.addWords.ExecContext(ctx, id, who, indexText(text)); err != nil {
			return err
		}
	}
	return nil
}

// upsertSession stores the record of a session, and returns its number and that
// of its group. A group whose chat has migrated keeps its number.
func (p statements) upsertSession(ctx context.Context, r session.Record, next int) (n, g int64, err error) {
	want := groupOf(r)
	at := []any{string(want.platform), want.account, want.scope, want.chat, want.owner, want.shared}
	err = p.findSession.QueryRowContext(ctx, string(r.ID)).Scan(&n, &g)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, err
	}
	if !known {
		err = p.findGroup.QueryRowContext(ctx, at...).Scan(&g)
		if errors.Is(err, sql.ErrNoRows) {
			var res sql.Result
			if res, err = p.addGroup.ExecContext(ctx, at...); err == nil {
				g, err = res.LastInsertId()
			}
		}
	} else {
		_, err = p.updateGroup.ExecContext(ctx, append(at, g)...)
	}
	if err != nil {
		return 0, 0, err
	}
	if known {
		_, err = p.updateSession.ExecContext(ctx, r.Updated.UnixNano(), r.Start, next, n)
		return n, g, err
	}
	res, err := p.addSession.ExecContext(ctx, string(r.ID), g, r.Updated.UnixNano(), r.Start, next)
	if err == nil {
		n, err = res.LastInsertId()
	}
	return n, g, err
}

// deleteDocs removes the docs that match a condition.
func deleteDocs(ctx context.Context, tx *sql.Tx, where string, args ...any) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM fts WHERE rowid IN (SELECT id FROM docs WHERE "+where+")", args...); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM docs WHERE "+where, args...)
	return err
}

// Delete removes a session. It is not an error if the session is not indexed.
func (x *Index) Delete(ctx context.Context, id session.ID) error {
	return unlessRemoved(x.withDB("delete from search index", func(_, write *sql.DB) error {
		return inTx(ctx, write, func(tx *sql.Tx) error {
			if err := deleteDocs(ctx, tx, "s = (SELECT n FROM sessions WHERE id = ?)", string(id)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", string(id))
			return err
		})
	}))
}

// Sessions returns the IDs of all indexed sessions.
func (x *Index) Sessions(ctx context.Context) (ids []session.ID, err error) {
	err = x.withDB("list indexed sessions", func(read, _ *sql.DB) error {
		rows, err := read.QueryContext(ctx, "SELECT id FROM sessions")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id session.ID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}

func roleNumber(r Role) int {
	switch r {
	case User:
		return 0
	case Assistant:
		return 1
	}
	return 2
}

func roleFromNumber(n int) Role { return [...]Role{User, Assistant, Tool}[min(max(n, 0), 2)] }

// Forget removes a deleted session permanently: rows that a Follower has read
// before and adds later are ignored. Session IDs are never reused. The bytes
// stay in the file until Compact.
func (x *Index) Forget(ctx context.Context, id session.ID) error {
	x.forgottenIDs.Store(id, true)
	return x.Delete(ctx, id)
}

// isForgotten reports whether rows of a session must be ignored.
func (x *Index) isForgotten(id session.ID) bool {
	_, ok := x.forgottenIDs.Load(id)
	return ok
}

// Compact rewrites the file without deleted texts and words. Searches wait
// meanwhile. After Remove there is nothing to rewrite.
func (x *Index) Compact(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isClosed {
		return fmt.Errorf("compact the search index: %w", sql.ErrConnDone)
	}
	if err := x.Fault(); err != nil {
		return unlessRemoved(err)
	}
	if err := x.compact(ctx); err != nil {
		if isDamage(err) {
			x.fault.Store(&ErrDamaged)
			return fmt.Errorf("compact the search index: %w", ErrDamaged)
		}
		return fmt.Errorf("compact the search index: %w", err)
	}
	return nil
}

// unlessRemoved returns err, or nil if there is no file from which something had to be
// deleted.
func unlessRemoved(err error) error {
	if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrNotOpen) {
		return nil
	}
	return err
}

var errReading = errors.New("file is being read; try again")

// compact merges the word lists without those of deleted rows, rewrites the
// file and truncates the write-ahead log.
func (x *Index) compact(ctx context.Context) error {
	for _, q := range []string{"INSERT INTO fts(fts) VALUES ('optimize')", "VACUUM"} {
		if _, err := x.write.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	var busy, log, done int
	if err := x.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done); err != nil {
		return err
	}
	if busy != 0 {
		return errReading
	}
	return nil
}
