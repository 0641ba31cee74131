package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/inbox"
)

// An Maintenance is what the control socket asks of the store to keep it whole. Other
// work goes on meanwhile.
type Maintenance interface {
	Backup(ctx context.Context, path string) error
	Compact(ctx context.Context) error
	Verify(ctx context.Context) error
	Stats() inbox.Stats
}

// Config says what became of the configuration since the daemon started.
type Config struct {
	Read time.Time `json:"last_reload,omitzero"` // last; zero: never again since the start
	// Applied and Restart are the keys that were changed since the start: those
	// that are in effect, and those that wait for the next one.
	Applied        []string `json:"applied,omitempty"`
	PendingRestart []string `json:"pending_restart,omitempty"`
	// Problem says why the files as they are now are not taken.
	Problem string `json:"problem,omitempty"`
}

// BackupDir begins the names of directories in the home in which a daemon puts
// a copy of its store for somebody who takes it away.
const BackupDir = ".backup-"

// A Copy is a consistent copy of the store. Whoever asked for it takes it away,
// with the directory in which it is alone.
type Copy struct {
	Path  string      `json:"path"`
	Stats inbox.Stats `json:"stats"`
}

// A Compaction says what a compaction gave back.
type Compaction struct {
	Before int64 `json:"before"` // bytes
	After  int64 `json:"after"`
}

// A VerifyReport says what is wrong with the store, record by record.
type VerifyReport struct {
	Findings []string `json:"findings"`
}

// long answers with what work returns, however long it takes: the head of the
// answer leaves at once, so an error stands in its body.
func (h *Handler) long(w http.ResponseWriter, r *http.Request, work func(ctx context.Context, u Maintenance) (any, error)) {
	if h.opts.Upkeep == nil {
		h.fail(w, &Error{http.StatusServiceUnavailable, "the store cannot be reached from here; is the daemon of another version?"})
		return
	}
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		h.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := c.Flush(); err != nil {
		h.opts.Log.Debug("control socket", zap.Error(err)) // the answer tells
	}
	v, err := work(r.Context(), h.opts.Upkeep)
	if err != nil {
		h.opts.Log.Error("control socket", zap.Error(err))
		v = map[string]string{"error": err.Error()}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte(`{"error":"the answer cannot be encoded"}`)
	}
	if _, err := w.Write([]byte(h.opts.Masker.Mask(string(raw)) + "\n")); err != nil {
		h.opts.Log.Debug("control socket", zap.Error(err)) // the asker has left
	}
}

func (h *Handler) backup(w http.ResponseWriter, r *http.Request) {
	h.long(w, r, func(ctx context.Context, u Maintenance) (any, error) {
		dir, err := os.MkdirTemp(h.opts.Home, BackupDir)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "hermesd.db")
		if err := u.Backup(ctx, path); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		if ctx.Err() != nil { // nobody is there to take it away
			return nil, errors.Join(ctx.Err(), os.RemoveAll(dir))
		}
		return Copy{path, u.Stats()}, nil
	})
}

func (h *Handler) compact(w http.ResponseWriter, r *http.Request) {
	h.long(w, r, func(ctx context.Context, u Maintenance) (any, error) {
		c := Compaction{Before: u.Stats().Bytes}
		err := u.Compact(ctx)
		c.After = u.Stats().Bytes
		return c, err
	})
}

func (h *Handler) verify(w http.ResponseWriter, r *http.Request) {
	h.long(w, r, func(ctx context.Context, u Maintenance) (any, error) {
		v := VerifyReport{Findings: []string{}}
		if err := u.Verify(ctx); err != nil {
			v.Findings = strings.Split(err.Error(), "\n")
		}
		return v, ctx.Err()
	})
}

func (h *Handler) reload(w http.ResponseWriter, r *http.Request) {
	if h.opts.Reload == nil {
		h.fail(w, &Error{http.StatusServiceUnavailable, "no daemon is running; it reads the configuration when it starts"})
		return
	}
	h.reply(w, http.StatusOK, h.opts.Reload(r.Context()))
}

// streamed is an answer that may hold an error although its head says that all is
// well.
type streamed[T any] struct {
	Error string `json:"error"`
	v     T
}

func (l *streamed[T]) UnmarshalJSON(raw []byte) error {
	type plain struct {
		Error string `json:"error"`
	}
	var p plain
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	l.Error = p.Error
	return json.Unmarshal(raw, &l.v)
}

func wait[T any](ctx context.Context, c *Client, path string) (T, error) {
	var l streamed[T]
	err := c.ask(ctx, http.MethodPost, path, nil, &l)
	if err == nil && l.Error != "" {
		err = &Error{http.StatusInternalServerError, l.Error}
	}
	return l.v, err
}

// Backup has a copy of the store made in the home, while the daemon works.
func (c *Client) Backup(ctx context.Context) (Copy, error) { return wait[Copy](ctx, c, "/backup") }

// Compact has the store give space back.
func (c *Client) Compact(ctx context.Context) (Compaction, error) {
	return wait[Compaction](ctx, c, "/compact")
}

// Verify has every record of the store read and checked.
func (c *Client) Verify(ctx context.Context) (VerifyReport, error) {
	return wait[VerifyReport](ctx, c, "/verify")
}

// Reload has the daemon read its configuration again, and returns what became
// of it.
func (c *Client) Reload(ctx context.Context) (Config, error) {
	var done Config
	err := c.ask(ctx, http.MethodPost, "/reload", nil, &done)
	return done, err
}
