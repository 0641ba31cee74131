package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/store"
)

// Maintenance is the part of the store that the Handler uses for maintenance.
// Other work continues meanwhile.
type Maintenance interface {
	store.Upkeep
	Stats() store.Stats // of store.Audit
}

// Config is the state of the configuration since the daemon started.
type Config struct {
	Read time.Time `json:"last_reload,omitzero"` // last reload; zero: none since the start
	// Applied and PendingRestart are the keys that changed since the start: those
	// in effect, and those that need a restart.
	Applied        []string `json:"applied,omitempty"`
	PendingRestart []string `json:"pending_restart,omitempty"`
	// Problem is the reason why the current files are not in effect; "" if they are.
	Problem string `json:"problem,omitempty"`
}

// BackupDir is the name prefix of the directories in the home directory in which a
// daemon puts copies of its store.
const BackupDir = ".backup-"

// A Copy is a consistent copy of the store. The caller removes it together with
// its directory, which contains nothing else.
type Copy struct {
	Path  string      `json:"path"`
	Stats store.Stats `json:"stats"`
}

// A Compaction is the size of the store before and after it was compacted.
type Compaction struct {
	Before int64 `json:"before"` // bytes
	After  int64 `json:"after"`
}

// A VerifyReport lists the damaged records of the store.
type VerifyReport struct {
	Findings []string `json:"findings"`
}

// serveLong responds with the result of work. The header is sent before work starts, so
// the client need not wait for it, and an error is reported in the body.
func (h *Handler) serveLong(w http.ResponseWriter, r *http.Request, work func(r *http.Request, u Maintenance) (any, error)) {
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := c.Flush(); err != nil {
		h.opts.Log.Debug("cannot flush header", zap.Error(err)) // the response fails too
	}
	v, err := work(r, h.opts.Upkeep)
	if err != nil {
		h.opts.Log.Error("store maintenance failed", zap.Error(err))
		v = map[string]string{"error": err.Error()}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte(`{"error":"the answer cannot be encoded"}`)
	}
	if _, err := w.Write([]byte(h.opts.Masker.Mask(string(raw)) + "\n")); err != nil {
		h.opts.Log.Debug("cannot write response", zap.Error(err)) // the client disconnected
	}
}

// backup copies the store into the home directory or, if that fails, into the directory
// that the request names.
func (h *Handler) backup(r *http.Request, u Maintenance) (any, error) {
	c, err := copyStore(r.Context(), u, h.opts.Home)
	spare := r.FormValue("spare")
	if err == nil || spare == "" {
		return c, err
	}
	c, spareErr := copyStore(r.Context(), u, spare)
	if spareErr != nil {
		return nil, errors.Join(err, spareErr)
	}
	return c, nil
}

// copyStore copies the store into a new directory in parent.
func copyStore(ctx context.Context, u Maintenance, parent string) (any, error) {
	dir, err := os.MkdirTemp(parent, BackupDir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "hermesd.db")
	if err := u.Backup(ctx, path); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if ctx.Err() != nil { // the client disconnected and cannot remove it
		return nil, errors.Join(ctx.Err(), os.RemoveAll(dir))
	}
	return Copy{path, u.Stats()}, nil
}

func compact(r *http.Request, u Maintenance) (any, error) {
	c := Compaction{Before: u.Stats().Bytes}
	err := u.Compact(r.Context())
	c.After = u.Stats().Bytes
	return c, err
}

func verify(r *http.Request, u Maintenance) (any, error) {
	v := VerifyReport{Findings: []string{}}
	if err := u.Verify(r.Context()); err != nil {
		v.Findings = strings.Split(err.Error(), "\n")
	}
	return v, r.Context().Err()
}

func (h *Handler) reload(r *http.Request) (any, error) { return h.opts.Daemon.Reload(r.Context()), nil }

// streamed is a response whose body may be an error although its status is OK.
type streamed[T any] struct {
	Error string `json:"error"`
	v     T
}

func (l *streamed[T]) UnmarshalJSON(raw []byte) error {
	var p struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	l.Error = p.Error
	return json.Unmarshal(raw, &l.v)
}

func wait[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	l, err := post[streamed[T]](ctx, c, path, query)
	if err == nil && l.Error != "" {
		err = &Error{http.StatusInternalServerError, l.Error}
	}
	return l.v, err
}

// Backup copies the store into the home directory or, if that fails, into the directory
// spare, an absolute path; the daemon keeps working.
func (c *Client) Backup(ctx context.Context, spare string) (Copy, error) {
	return wait[Copy](ctx, c, "/backup", url.Values{"spare": {spare}})
}

// Compact reclaims unused space of the store.
func (c *Client) Compact(ctx context.Context) (Compaction, error) {
	return wait[Compaction](ctx, c, "/compact", nil)
}

// Verify reads and checks every record of the store.
func (c *Client) Verify(ctx context.Context) (VerifyReport, error) {
	return wait[VerifyReport](ctx, c, "/verify", nil)
}

// Reload makes the daemon reload its configuration and returns the result.
func (c *Client) Reload(ctx context.Context) (Config, error) {
	return post[Config](ctx, c, "/reload", nil)
}
