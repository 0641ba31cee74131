// Package admin is the way into a running daemon for the command line: HTTP
// with JSON over a socket in the home directory that only its owner may open.
//
//	GET  /status               the live state
//	GET  /metrics              figures, in the text format of Prometheus
//	GET  /why?id=              what became of a message
//	GET  /outbox?all=&limit=   what is not delivered, or all that is kept
//	GET  /outbox/{id}          one message, whole
//	POST /outbox/{id}/retry    make a row due now
//	POST /outbox/{id}/drop     give a row up
//	GET  /destinations         where messages can be sent
//	POST /files?name=, /send   take up a file that is to be sent; send a message
//	GET  /sessions?limit=      conversations, newest first
//	GET  /sessions/{id}        one: record, prompt by layer, a page of messages
//	GET  /sessions/{id}/prompt the frozen prompt: layers and sizes of tools
//	GET  /sessions/{id}/calls  its model calls
//	GET  /sessions/{id}/diff?n=&m=  where the prefixes of two calls part
//	POST /sessions/{id}/title?title=   name it
//	GET  /sessions/{id}/export?format= write it down: markdown, jsonl
//	DELETE /sessions/{id}      delete it, and all that is kept of it
//	GET  /expired?before=      conversations that were used last before a time
//	GET  /usage?since=&by=     tokens and costs, by session, platform or model
//	POST /backup, /compact, /verify   upkeep of the store; errors stand in the body
//	POST /reload               read the configuration again
//	GET  /pairing              who is paired, and who waits
//	POST /pairing/approve, /pairing/revoke, /pairing/clear   let people in and out
//	GET  /cron                 scheduled prompts; POST makes one
//	GET  /cron/status          whether they run
//	GET  /cron/occurrences?job=&limit= when they were due, and what became of it
//	POST /cron/{id}/{action}   edit, pause, resume, run, remove
//	POST /cron/import?file=    take the jobs of another home
//	POST /attach?chat=&has=    a terminal, as lines of JSON both ways
//
// Every error is {"error": "..."}: one line that says what to do next. Where no
// daemon runs, the command line serves the same Handler to itself by Local.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
)

// A Store is what the control socket asks of the store.
type Store interface {
	MessageHistory(ctx context.Context, id string) ([]inbox.MessageHistory, error)
	Outbox(ctx context.Context, all bool) ([]outbox.Row, error)
	RetryRow(ctx context.Context, id outbox.ID) error
	DropRow(ctx context.Context, id outbox.ID, why string) error
	Sessions(ctx context.Context, max int) ([]session.Record, error)
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	Prompt(ctx context.Context, id session.ID) (json.RawMessage, error)
	Transcript(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
}

// Options are the ports of a Handler. Only Store is needed; what is missing is
// answered by an error that says so.
type Options struct {
	Store Store
	// Status returns the live state; nil where no daemon runs.
	Status func() gateway.Status
	// Metrics shows what the daemon counts; nil where no daemon runs.
	Metrics http.Handler
	// Wake says that a row for an address is due; nil where nothing is sent.
	Wake func(chat.Address)
	// Sender says things in chats; nil where no daemon runs.
	Sender Sender
	// Search finds messages of all conversations, the best first.
	Search func(ctx context.Context, text string, most int) ([]Found, error)
	// Pairing lets people in; nil: nobody can be. Tell says something in a chat, now
	// or once a daemon runs; nil: nothing is said.
	Pairing PairingManager
	Tell    func(ctx context.Context, to chat.Address, text string) error
	// Cron holds scheduled prompts; nil: there are none. CronStatus returns the
	// state of what runs them, nil where no daemon runs.
	Cron       *schedule.Manager
	CronStatus func() schedule.Status
	// Commands are offered to terminals.
	Commands []command.Command
	// Upkeep keeps the store whole; nil: nobody can.
	Upkeep Maintenance
	// Keeper names conversations and Eraser deletes them; nil: nobody can.
	Keeper SessionKeeper
	Eraser Eraser
	// Config says what became of the configuration; Reload reads it again. Nil
	// where no daemon runs.
	Config func() Config
	Reload func(context.Context) Config
	// Prices are what calls cost; nil: what comes with the program.
	Prices *pricing.Table
	// Console takes terminals; nil: none can attach.
	Console *console.Adapter
	Home    string
	// Workspace is where tools work.
	Workspace string
	Version   string
	// Masker hides secrets in all that is answered.
	Masker *secret.Masker
	Log    *zap.Logger
}

// A Handler answers the requests of the package comment. Close ends the
// terminals that are attached through it.
type Handler struct {
	opts Options
	mux  *http.ServeMux

	ctx    context.Context // of attached terminals; ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex // guards what follows
	closed   bool
	attached sync.WaitGroup
}

// maxBody bounds what most requests may carry.
const maxBody = 64 << 10

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Masker == nil {
		o.Masker = &secret.Masker{}
	}
	h := &Handler{opts: o, mux: http.NewServeMux()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.mux.HandleFunc("GET /status", h.status)
	h.mux.HandleFunc("GET /metrics", h.metrics)
	h.mux.HandleFunc("GET /why", h.why)
	h.mux.HandleFunc("GET /outbox", h.outbox)
	h.mux.HandleFunc("GET /outbox/{id}", h.message)
	h.mux.HandleFunc("POST /outbox/{id}/retry", h.retry)
	h.mux.HandleFunc("POST /outbox/{id}/drop", h.drop)
	h.mux.HandleFunc("GET /sessions", h.sessions)
	h.mux.HandleFunc("GET /sessions/{id}", h.session)
	h.mux.HandleFunc("GET /sessions/{id}/prompt", h.prompt)
	h.mux.HandleFunc("GET /sessions/{id}/calls", h.trace)
	h.mux.HandleFunc("GET /sessions/{id}/diff", h.diff)
	h.mux.HandleFunc("GET /usage", h.usage)
	h.mux.HandleFunc("GET /search", h.search)
	h.pairings()
	h.keeping()
	h.mux.HandleFunc("POST /backup", h.backup)
	h.mux.HandleFunc("POST /compact", h.compact)
	h.mux.HandleFunc("POST /verify", h.verify)
	h.mux.HandleFunc("POST /reload", h.reload)
	h.scheduled()
	h.sending()
	h.mux.HandleFunc("POST /attach", h.attach)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, &Error{http.StatusNotFound, "the daemon knows no " + r.Method + " " + r.URL.Path + "; is it of another version?"})
	})
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r.URL.Path))
	h.mux.ServeHTTP(w, r)
}

// Close detaches all terminals and waits for that, or for ctx.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	done := make(chan struct{})
	go func() { h.attached.Wait(); close(done) }() // ends when the last terminal has
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("detach terminals: %w", ctx.Err())
	}
}

// An Error is an answer other than success, as a person reads it.
type Error struct {
	Code int // HTTP status
	Text string
}

func (e *Error) Error() string { return e.Text }

// fail answers with err. Errors that are not *Error are the daemon's own.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		h.opts.Log.Error("control socket", zap.Error(err))
		e = &Error{http.StatusInternalServerError, err.Error()}
	}
	h.reply(w, e.Code, map[string]string{"error": e.Text})
}

func (h *Handler) reply(w http.ResponseWriter, code int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		h.opts.Log.Error("control socket", zap.Error(err))
		code, raw = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded; the log says why"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write([]byte(h.opts.Masker.Mask(string(raw)) + "\n")); err != nil {
		h.opts.Log.Debug("control socket", zap.Error(err)) // the asker has left
	}
}

// Status is the live state of a daemon.
type Status struct {
	gateway.Status
	Home      string `json:"home"`
	Workspace string `json:"workspace,omitempty"` // where tools work
	PID       int    `json:"pid"`
	Terminals int    `json:"terminals"` // attached
	Config    Config `json:"config,omitzero"`
}

func (h *Handler) status(w http.ResponseWriter, _ *http.Request) {
	if h.opts.Status == nil {
		h.fail(w, &Error{http.StatusServiceUnavailable, "no daemon is running; start one with `hermesd run`"})
		return
	}
	s := Status{Status: h.opts.Status(), Home: h.opts.Home, Workspace: h.opts.Workspace, PID: os.Getpid()}
	if h.opts.Console != nil {
		s.Terminals = h.opts.Console.Attached()
	}
	if h.opts.Config != nil {
		s.Config = h.opts.Config()
	}
	h.reply(w, http.StatusOK, s)
}

func (h *Handler) why(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	if id == "" {
		h.fail(w, &Error{http.StatusBadRequest, "say which message: its id on the platform, or ours (m12, o7)"})
		return
	}
	chains, err := h.opts.Store.MessageHistory(r.Context(), id)
	switch {
	case err != nil:
		h.fail(w, err)
	case len(chains) == 0:
		h.fail(w, &Error{http.StatusNotFound, fmt.Sprintf("no message %q is known; messages are kept for 7 days", id)})
	default:
		h.reply(w, http.StatusOK, chains)
	}
}

// menu is the part of the command table that terminals are told.
func menu(table []command.Command) []Command {
	out := make([]Command, len(table))
	for i, c := range table {
		out[i] = Command{Name: c.Name, Aliases: slices.Clone(c.Aliases), Args: c.Args, Help: c.Help}
	}
	return out
}
