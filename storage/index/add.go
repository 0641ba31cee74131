package index

import (
	"context"
	"database/sql"
	"errors"
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
	err = x.withDB("read search index", func(_, write *sql.DB) error {
		var at int64
		err := write.QueryRowContext(ctx, "SELECT start, next, updated FROM sessions WHERE id = ?", string(id)).Scan(&m.Start, &m.Next, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		m.Updated, ok = time.Unix(0, at), err == nil
		return err
	})
	return m, ok, err
}

// Add indexes rows of the session r and stores its visibility and its progress,
// in one transaction: all rows before next are then indexed. Rows that are
// already indexed do not change. Rows in drop are removed. Add does nothing for
// a session that was removed by Forget.
func (x *Index) Add(ctx context.Context, r session.Record, docs []Doc, next int, drop ...session.Span) error {
	return x.withDB("add to search index", func(_, write *sql.DB) error {
		return inTx(ctx, write, func(tx *sql.Tx) error {
			if x.isForgotten(r.ID) { // inside the transaction: a concurrent Delete runs before or after it
				return nil
			}
			n, g, err := upsertSession(ctx, tx, r, next)
			if err != nil {
				return err
			}
			for _, s := range drop {
				if err := deleteDocs(ctx, tx, "s = ? AND row >= ? AND row < ?", n, s.From, s.To); err != nil {
					return err
				}
			}
			return insertDocs(ctx, tx, n, g, docs)
		})
	})
}

func insertDocs(ctx context.Context, tx *sql.Tx, n, g int64, docs []Doc) error {
	if len(docs) == 0 {
		return nil
	}
	doc, err := tx.PrepareContext(ctx, "INSERT OR IGNORE INTO docs (s, row, role, at, text) VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer doc.Close()
	fts, err := tx.PrepareContext(ctx, "INSERT INTO fts (rowid, who, text) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	defer fts.Close()
	who := groupTerm(g)
	for _, d := range docs {
		text := clean(d.Text)
		if text == "" {
			continue
		}
		res, err := doc.ExecContext(ctx, n, d.Row, roleNumber(d.Role), d.Time.UnixNano(), text)
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
		if _, err := fts.ExecContext(ctx, id, who, indexText(text)); err != nil {
			return err
		}
	}
	return nil
}

// upsertSession stores the record of a session, and returns its number and that
// of its group. A group whose chat has migrated keeps its number.
func upsertSession(ctx context.Context, tx *sql.Tx, r session.Record, next int) (n, g int64, err error) {
	want := groupOf(r)
	at := []any{string(want.platform), want.account, want.scope, want.chat, want.owner, want.shared}
	err = tx.QueryRowContext(ctx, "SELECT n, g FROM sessions WHERE id = ?", string(r.ID)).Scan(&n, &g)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, err
	}
	if !known {
		err = tx.QueryRowContext(ctx, "SELECT g FROM groups WHERE platform = ? AND account = ? AND scope = ? AND room = ? AND owner = ? AND shared = ?", at...).Scan(&g)
		if errors.Is(err, sql.ErrNoRows) {
			var res sql.Result
			if res, err = tx.ExecContext(ctx, "INSERT INTO groups (platform, account, scope, room, owner, shared) VALUES (?, ?, ?, ?, ?, ?)", at...); err == nil {
				g, err = res.LastInsertId()
			}
		}
	} else {
		_, err = tx.ExecContext(ctx, "UPDATE groups SET platform = ?, account = ?, scope = ?, room = ?, owner = ?, shared = ? WHERE g = ?", append(at, g)...)
	}
	if err != nil {
		return 0, 0, err
	}
	if known {
		_, err = tx.ExecContext(ctx, "UPDATE sessions SET updated = ?, start = ?, next = ? WHERE n = ?", r.Updated.UnixNano(), r.Start, next, n)
		return n, g, err
	}
	res, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, g, updated, start, next) VALUES (?, ?, ?, ?, ?)", string(r.ID), g, r.Updated.UnixNano(), r.Start, next)
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
	return x.withDB("delete from search index", func(_, write *sql.DB) error {
		return inTx(ctx, write, func(tx *sql.Tx) error {
			if err := deleteDocs(ctx, tx, "s = (SELECT n FROM sessions WHERE id = ?)", string(id)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", string(id))
			return err
		})
	})
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
