package retaindb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"hermesd/agent/memory/provider"
)

// queueFile is the file of upstream's queue, in the home.
const queueFile = "retaindb_queue.db"

// A backlog is what upstream's queue has not sent. It is sent once; what was sent is
// deleted from the file.
type backlog struct {
	path string

	mu   sync.Mutex // guards the field below
	rows []row
}

type row struct {
	id       int64
	user     string
	session  string
	messages []message
}

// readBacklog reads the queue in a home. The warning says what there is, and what of it
// cannot be read, which stays in the file; "" if nothing waits.
func readBacklog(home string) (b *backlog, warning string) {
	b = &backlog{path: filepath.Join(home, queueFile)}
	if _, err := os.Stat(b.path); errors.Is(err, fs.ErrNotExist) {
		return b, ""
	}
	bad := 0
	err := b.use(func(db *sql.DB) error {
		rows, err := db.Query("SELECT id, coalesce(user_id, ''), coalesce(session_id, ''), coalesce(messages_json, '') FROM pending ORDER BY id") //nolint:noctx // of the start
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // read to its end, or failed
		for rows.Next() {
			var r row
			var messages string
			err := rows.Scan(&r.id, &r.user, &r.session, &messages)
			if r.messages = parse(messages); err != nil || len(r.messages) == 0 || r.user == "" || r.session == "" {
				bad++
				continue
			}
			b.rows = append(b.rows, r)
		}
		return rows.Err()
	})
	if len(b.rows) > 0 || bad > 0 {
		warning = fmt.Sprintf("%s has %d turns that Hermes has not sent to RetainDB: they are sent after the next turn", b.path, len(b.rows))
	}
	if bad > 0 {
		warning += fmt.Sprintf("; %d rows have no user, session or messages that can be read, and stay there", bad)
	}
	switch {
	case err != nil && warning == "":
		warning = fmt.Sprintf("%s, the queue of Hermes for RetainDB, cannot be read, so nothing of it is sent: %v", b.path, err)
	case err != nil:
		warning += fmt.Sprintf("; the rest cannot be read: %v", err)
	}
	return b, warning
}

// use opens the file, which upstream may have open too.
func (b *backlog) use(do func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: b.path}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// parse returns the messages of a row that say something, with their times as every server
// takes them; nil if the row has another form.
func parse(text string) (messages []message) {
	var all []message
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	for _, m := range all {
		at, err := time.Parse(time.RFC3339, m.At)
		if at = at.UTC(); err != nil || at.Year() > 9999 || m.Role == "" {
			return nil
		}
		m.At = at.Format(timeLayout)
		if strings.TrimSpace(m.Content) != "" {
			messages = append(messages, m)
		}
	}
	return messages
}

func (b *backlog) next() (r row, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) == 0 {
		return row{}, false
	}
	r, b.rows = b.rows[0], b.rows[1:]
	return r, true
}

// takeOver sends what upstream has not sent. What fails stays in the file for the next
// start; unless the service has refused it, the rest waits for the next turn.
func (c *client) takeOver(ctx context.Context) {
	for {
		r, ok := c.backlog.next()
		if !ok {
			return
		}
		err := c.ingest(ctx, scope{c.project, r.user, r.session}, r.messages)
		if err == nil {
			err = c.backlog.use(func(db *sql.DB) error {
				_, err := db.ExecContext(ctx, "DELETE FROM pending WHERE id = ?", r.id)
				return err
			})
		}
		if err != nil && provider.ClassOf(err) != provider.Refused {
			return
		}
	}
}
