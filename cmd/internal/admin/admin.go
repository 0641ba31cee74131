// Package admin implements the admin protocol between the command line and the
// daemon: HTTP with JSON over a Unix socket in the home directory that only its
// owner may open. Connections of commands of the agent get status 403.
//
//	GET  /status               the live state
//	GET  /metrics              metrics, in the text format of Prometheus
//	GET  /why?id=              the history of a message
//	GET  /outbox?all=&limit=   undelivered rows, or all stored ones
//	GET  /outbox/{id}          one row
//	POST /outbox/{id}/retry    make a row due now
//	POST /outbox/{id}/drop     stop retrying a row
//	GET  /destinations         where messages can be sent
//	POST /files?name=, /send   upload a file for a message; send a message
//	GET  /sessions?limit=      conversations, newest first
//	GET  /sessions/{id}        one session: record, prompt by layer, a page of messages
//	GET  /sessions/{id}/prompt the cached prompt: layers and sizes of tools
//	GET  /sessions/{id}/calls  its model calls
//	GET  /sessions/{id}/diff?n=&m=  the first difference between the prefixes of two calls
//	POST /sessions/{id}/title?title=   set the title
//	GET  /sessions/{id}/export?format= export it: markdown, jsonl
//	DELETE /sessions/{id}      delete it with everything stored about it
//	GET  /expired?before=      conversations last used before a time
//	GET  /search?q=&limit=     messages of all conversations
//	GET  /usage?since=&by=     tokens and costs, by session, platform or model
//	POST /backup, /compact, /verify   maintenance of the store; errors are in the body
//	POST /reload               reload the configuration
//	GET  /pairing              approved users and pending requests
//	POST /pairing/approve, /pairing/revoke, /pairing/clear   grant and revoke access
//	GET  /memory/queue         events that wait for the external memory
//	GET  /memory/queue/ID      one of them with its text
//	POST /memory/queue/retry?id=, /memory/queue/drop?id=   send events now; delete them
//	POST /memory/forget?person=&id= have the external memory forget a person
//	GET  /approvals            permanent approvals
//	POST /approvals/add?shape=&job=, /approvals/remove?which=&job=   grant and remove them
//	GET  /cron                 scheduled prompts; POST creates one
//	GET  /cron/status          state of the scheduler
//	GET  /cron/occurrences?job=&limit= occurrences of scheduled prompts
//	POST /cron/{id}/{action}   edit, pause, resume, run, remove
//	POST /cron/import?file=    import the jobs of another home
//	POST /attach?chat=&has=    attach a terminal; JSON lines in both directions
//
// Every error is {"error": "..."}, one line that says what to do next. The main
// types are [Handler], the server side, and [Client]. If no daemon is running, the
// command line uses the same Handler in its own process; see [Local]. The stores
// and the gateway are behind the interfaces in [Options].
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
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/control"
	"hermesd/gateway/memory"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
)

// A Store is the part of the store that the Handler uses.
type Store interface {
	store.Audit
	store.Sessions
}

// Options are the dependencies of a Handler. All of them are set.
type Options struct {
	Store Store
	// Daemon is the daemon in this process; the zero Daemon if none runs.
	Daemon Daemon
	// Search finds messages in all conversations, best match first.
	Search func(ctx context.Context, text string, most int) ([]Found, error)
	// Pairing approves users. Tell sends a message to a chat, now or when a daemon runs.
	Pairing PairingManager
	Tell    func(ctx context.Context, to chat.Address, text string) error
	// Approvals manages permanent approvals.
	Approvals *approval.Manager
	// Events are the queues of events, Memory is the external memory.
	Events store.Events
	Memory *memory.Service
	// Cron manages scheduled prompts.
	Cron *schedule.Manager
	// Upkeep maintains the store.
	Upkeep Maintenance
	// Keeper sets titles, and Eraser deletes conversations.
	Keeper  store.Editor
	Eraser  Eraser
	Prices  *pricing.Table
	Home    string
	Version string
	// Masker masks secrets in all responses.
	Masker *secret.Masker
	Log    *zap.Logger
}

// A Daemon is what a Handler uses of a running daemon. If Running is set, all of it is.
type Daemon struct {
	Running bool
	// Status returns the live state without what the Handler knows: Home, PID and
	// Terminals.
	Status func() Status
	// Metrics serves the metrics.
	Metrics http.Handler
	// Wake reports that a row for an address is due.
	Wake func(chat.Address)
	// Sender sends messages to chats.
	Sender Sender
	// Reload reloads the configuration and returns its state.
	Reload func(context.Context) Config
	// Console accepts terminals, to which Commands are offered.
	Console  *console.Adapter
	Commands []command.Spec
}

// A Handler serves the requests listed in the package comment. It is safe for
// concurrent use. Close detaches the terminals attached through it.
type Handler struct {
	opts Options
	mux  *http.ServeMux

	ctx    context.Context // of attached terminals; ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex // guards what follows
	closed   bool
	attached sync.WaitGroup
}

// maxBody is the size limit of most request bodies; see bodyLimit.
const maxBody = 64 << 10

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	h := &Handler{opts: o, mux: http.NewServeMux()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for pattern, do := range h.operations() {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if v, err := do(r); err != nil {
				h.fail(w, err)
			} else {
				h.reply(w, http.StatusOK, v)
			}
		})
	}
	h.mux.HandleFunc("GET /metrics", h.metrics)
	for pattern, work := range map[string]func(*http.Request, Maintenance) (any, error){"POST /backup": h.backup, "POST /compact": compact, "POST /verify": verify} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serveLong(w, r, work) })
	}
	h.mux.HandleFunc("POST /attach", h.attach)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, &Error{http.StatusNotFound, "the daemon knows no " + r.Method + " " + r.URL.Path + "; is it of another version?"})
	})
	return h
}

// An operation returns the response to a request.
type operation func(*http.Request) (any, error)

// operations returns the operations by method and path.
func (h *Handler) operations() map[string]operation {
	return map[string]operation{
		"GET /status":               h.live(noDaemon, h.status),
		"GET /why":                  h.why,
		"GET /outbox":               h.outbox,
		"GET /outbox/{id}":          func(r *http.Request) (any, error) { return h.row(r) },
		"POST /outbox/{id}/retry":   h.retry,
		"POST /outbox/{id}/drop":    h.drop,
		"GET /destinations":         h.live(noDaemon, h.destinations),
		"POST /files":               h.live(noDaemon, h.keep),
		"POST /send":                h.live(noDaemon, h.send),
		"GET /sessions":             h.sessions,
		"GET /sessions/{id}":        h.session,
		"GET /sessions/{id}/prompt": h.prompt,
		"GET /sessions/{id}/calls":  h.trace,
		"GET /sessions/{id}/diff":   h.diff,
		"POST /sessions/{id}/title": h.rename,
		"GET /sessions/{id}/export": h.export,
		"DELETE /sessions/{id}":     h.delete,
		"GET /expired":              h.expired,
		"GET /usage":                h.usage,
		"GET /search":               h.search,
		"POST /reload":              h.live("no daemon is running; it reads the configuration when it starts", h.reload),
		"GET /pairing":              h.pairings,
		"POST /pairing/approve":     h.approve,
		"POST /pairing/revoke":      h.revoke,
		"POST /pairing/clear":       h.clearPending,
		"GET /approvals":            h.approvals,
		"POST /approvals/add":       h.addApproval,
		"POST /approvals/remove":    h.removeApprovals,
		"GET /memory/queue":         h.memoryQueue,
		"GET /memory/queue/{id}":    h.memoryEvent,
		"POST /memory/queue/retry":  h.changeMemoryEvents(store.Events.RetryEvents),
		"POST /memory/queue/drop":   h.changeMemoryEvents(store.Events.DropEvents),
		"POST /memory/forget":       h.forgetPerson,
		"GET /cron":                 h.jobs,
		"POST /cron":                h.createJob,
		"GET /cron/status":          h.cronStatus,
		"GET /cron/occurrences":     h.occurrences,
		"POST /cron/import":         h.importJobs,
		"POST /cron/{id}/{action}":  h.changeJob,
	}
}

const noDaemon = "no daemon is running; start one with `hermesd run`"

// live returns do, or an operation that fails with text if no daemon is running.
func (h *Handler) live(text string, do operation) operation {
	if h.opts.Daemon.Running {
		return do
	}
	return func(*http.Request) (any, error) { return nil, &Error{http.StatusServiceUnavailable, text} }
}

// list returns an empty list instead of nil, whose JSON would be null.
func list[T any](v []T, err error) (any, error) {
	if v == nil {
		v = []T{}
	}
	return v, err
}

// ServeHTTP serves one request. The limits of the server apply until here: an upload or a
// response may take long on a busy machine, and only the operator gets here.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})); err != nil {
		h.fail(w, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r.URL.Path))
	h.mux.ServeHTTP(w, r)
}

// Close detaches all terminals and waits until they are detached or ctx ends.
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

// An Error is an error response. Its text is shown to the user.
type Error struct {
	Code int // HTTP status
	Text string
}

func (e *Error) Error() string { return e.Text }

// fail responds with err. Errors that are not for the user are logged and get status
// 500.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	var e *Error
	var refused *pairing.UserError
	switch {
	case errors.As(err, &e):
	case errors.As(err, &refused):
		e = &Error{http.StatusConflict, refused.Text}
	case errors.Is(err, schedule.ErrInvalid):
		e = &Error{http.StatusConflict, err.Error()}
	default:
		h.opts.Log.Error("control socket request failed", zap.Error(err))
		e = &Error{http.StatusInternalServerError, err.Error()}
	}
	h.reply(w, e.Code, map[string]string{"error": e.Text})
}

func (h *Handler) reply(w http.ResponseWriter, code int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		h.opts.Log.Error("cannot encode response", zap.Error(err))
		code, raw = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded; the log says why"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write([]byte(h.opts.Masker.Mask(string(raw)) + "\n")); err != nil {
		h.opts.Log.Debug("cannot write response", zap.Error(err)) // the client disconnected
	}
}

// Status is the live state of a daemon.
type Status struct {
	control.Status
	Home      string `json:"home"`
	Workspace string `json:"workspace,omitempty"` // working directory of tools
	PID       int    `json:"pid"`
	Terminals int    `json:"terminals"` // attached
	Config    Config `json:"config,omitzero"`
	// Sandbox describes how commands are confined.
	Sandbox Sandbox `json:"sandbox,omitzero"`
	Toolset Toolset `json:"toolset,omitzero"`
}

// A Toolset is the toolset of conversations for which none is written in the configuration,
// if their prompt and all tools would take too much of the context window.
type Toolset struct {
	Name   string `json:"name"`
	Model  string `json:"model"`
	Window int    `json:"window"`        // context window of the model, in tokens
	Prompt int    `json:"prompt_tokens"` // estimate of the prompt with all tools
}

// String returns a sentence about t.
func (t Toolset) String() string {
	return fmt.Sprintf("conversations get the toolset %s: the prompt with all tools takes about %d of the %d tokens of %s, more than 20 %%", t.Name, t.Prompt, t.Window, t.Model)
}

// A Sandbox describes how the commands of the agent are confined.
type Sandbox struct {
	Enabled   bool     `json:"terminal_enabled"` // terminal.enabled
	Mode      string   `json:"mode"`             // terminal.sandbox
	Mechanism string   `json:"mechanism"`        // what confines commands: none, bubblewrap, namespaces or landlock
	ABI       int      `json:"landlock_abi,omitempty"`
	Text      string   `json:"text"`                // what is enforced, in words
	Error     string   `json:"error,omitempty"`     // why commands cannot run
	Network   string   `json:"network,omitempty"`   // how the network is restricted; "": not restricted
	Processes string   `json:"processes,omitempty"` // what limits the number of processes; "": nothing
	Tested    []string `json:"tested,omitempty"`    // what was tried in the sandbox
	Reasons   []string `json:"reasons,omitempty"`   // why better mechanisms are not used
	Limits    []Limit  `json:"limits,omitempty"`    // settings of the machine that keep better mechanisms from working
	Write     []string `json:"write,omitempty"`     // paths that commands may read and change
	Read      []string `json:"read,omitempty"`      // paths that commands may read
	Hidden    []string `json:"hidden,omitempty"`    // paths that are hidden, although one of the others may contain them
}

// A Limit is a setting of the machine, and how to change it.
type Limit struct {
	Cause string `json:"cause"`
	Fix   string `json:"fix"`
}

// Describe returns what is enforced, and why commands cannot run if they cannot.
func (s Sandbox) Describe() string {
	if s.Error != "" {
		return s.Text + ": " + s.Error
	}
	return s.Text
}

// HasTerminal reports whether the agent can run commands.
func (s Sandbox) HasTerminal() bool { return s.Enabled && s.Error == "" }

func (h *Handler) status(*http.Request) (any, error) {
	s := h.opts.Daemon.Status()
	s.Home, s.PID, s.Terminals = h.opts.Home, os.Getpid(), h.opts.Daemon.Console.Attached()
	return s, nil
}

func (h *Handler) why(r *http.Request) (any, error) {
	id := r.FormValue("id")
	if id == "" {
		return nil, &Error{http.StatusBadRequest, "say which message: its id on the platform, or ours (m12, o7)"}
	}
	chains, err := h.opts.Store.MessageHistory(r.Context(), id)
	if err == nil && len(chains) == 0 {
		err = &Error{http.StatusNotFound, fmt.Sprintf("no message %q is known; messages are kept for 7 days", id)}
	}
	return chains, err
}

// menu returns the part of the command table that is sent to terminals.
func menu(table []command.Spec) []Command {
	out := make([]Command, len(table))
	for i, c := range table {
		out[i] = Command{Name: c.Name, Aliases: slices.Clone(c.Aliases), Args: c.Args, Help: c.Help}
	}
	return out
}
