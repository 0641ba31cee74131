// Package hindsight implements a simulator of Hindsight's API for tests: banks,
// documents, operations, recall and reflection. It searches by words. Each document
// becomes one memory of the type world when its operation is completed, and one of the
// type observation after a consolidation. The package does not import the code that it
// tests.
package hindsight

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memory"
)

// Options configure a Server.
type Options struct {
	Keys    []string // accepted keys; none: the server asks for none
	Version string   // of the API; "": 0.9.1. Before 0.8.6 operation_id is ignored, before 0.5.0 update_mode append
	// Extract is how long an asynchronous operation takes, Consolidate how long after it
	// observations are found; 0: 3 s and 10 s.
	Extract, Consolidate time.Duration
}

// A Document is a retained text.
type Document struct {
	ID       string            `json:"id"`
	Text     string            `json:"original_text"`
	Tags     []string          `json:"tags"`
	Metadata map[string]string `json:"metadata"`
	Context  string            `json:"context"`

	found, observed time.Time // from when on its memories are found
}

// An operation is an asynchronous retain.
type operation struct {
	id        string
	bank      string
	items     []item
	at        time.Time // when it is done
	fails     bool
	done      bool
	cancelled bool
}

type bank struct {
	documents map[string]*Document
	order     []string // IDs of documents, oldest first
	config    map[string]any
}

// A Server is a simulated service.
type Server struct {
	*memory.Server

	o Options

	mu         sync.Mutex // guards the fields below
	banks      map[string]*bank
	operations []*operation
	fail       int
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Version == "" {
		o.Version = "0.9.1"
	}
	if o.Extract == 0 {
		o.Extract = 3 * time.Second
	}
	if o.Consolidate == 0 {
		o.Consolidate = 10 * time.Second
	}
	s := &Server{o: o, banks: make(map[string]*bank)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		memory.JSON(w, http.StatusOK, map[string]any{"api_version": o.Version, "features": map[string]any{"observations": true, "worker": true, "bank_config_api": true}})
	})
	health := func(w http.ResponseWriter, _ *http.Request) {
		memory.JSON(w, http.StatusOK, map[string]any{"status": "healthy"})
	}
	mux.HandleFunc("GET /health", health)
	mux.HandleFunc("GET /health/ready", health)
	in := func(pattern string, h func(*bank, http.ResponseWriter, *http.Request)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /v1/default/banks/{bank}"+path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.workLocked()
			h(s.bankLocked(r.PathValue("bank")), w, r)
		})
	}
	in("PUT ", s.setBank)
	in("GET /config", s.bankConfig)
	in("POST /memories", s.retain)
	in("POST /memories/recall", s.recall)
	in("POST /reflect", s.reflect)
	in("DELETE ", s.deleteBank)
	in("GET /documents", s.listDocuments)
	in("GET /documents/{id}", s.document)
	in("DELETE /documents/{id}", s.deleteDocument)
	in("GET /operations", s.listOperations)
	in("GET /operations/{id}", s.operation)
	in("DELETE /operations/{id}", s.cancel)
	in("POST /operations/{id}/retry", s.retry)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	s.Server = memory.New(s.authorize(mux), errorBody)
	return s
}

func errorBody(_ int, message string) any { return map[string]any{"detail": message} }

func refuse(w http.ResponseWriter, status int, message string) {
	memory.JSON(w, status, errorBody(status, message))
}

// invalid refuses a body as FastAPI does.
func invalid(w http.ResponseWriter, message string) {
	memory.JSON(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"loc": []string{"body"}, "msg": message, "type": "value_error"}}})
}

func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/version" || strings.HasPrefix(r.URL.Path, "/health")
		if !open && len(s.o.Keys) > 0 && !slices.Contains(s.o.Keys, memory.Key(r)) {
			refuse(w, http.StatusUnauthorized, "Invalid API key")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) bankLocked(name string) *bank {
	b := s.banks[name]
	if b == nil {
		b = &bank{documents: make(map[string]*Document), config: map[string]any{}}
		s.banks[name] = b
	}
	return b
}

// FailOperations makes the next n asynchronous operations fail.
func (s *Server) FailOperations(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// Documents returns the documents of a bank, oldest first.
func (s *Server) Documents(name string) []Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	b := s.bankLocked(name)
	var out []Document
	for _, id := range b.order {
		out = append(out, *b.documents[id])
	}
	return out
}

// atLeast reports whether the version of the API is v or newer. All have one digit per
// part.
func (s *Server) atLeast(v string) bool { return s.o.Version >= v }

// workLocked completes the operations whose time has come.
func (s *Server) workLocked() {
	for _, op := range s.operations {
		if op.done || op.cancelled || time.Now().Before(op.at) {
			continue
		}
		op.done = true
		if !op.fails {
			s.storeLocked(s.bankLocked(op.bank), op.items, op.at)
		}
	}
}

// storeLocked stores the items of a retain that was processed at a time.
func (s *Server) storeLocked(b *bank, items []item, at time.Time) {
	for _, it := range items {
		id := it.Document
		if id == "" {
			id = memory.UUID()
		}
		d := &Document{ID: id, Text: it.Content, Tags: it.Tags, Metadata: it.Metadata, Context: it.Context, found: at, observed: at.Add(s.o.Consolidate)}
		if old := b.documents[id]; old == nil {
			b.order = append(b.order, id)
		} else if it.Mode == "append" && s.atLeast("0.5.0") {
			d.Text = old.Text + "\n" + it.Content
		}
		b.documents[id] = d
	}
}

func (s *Server) setBank(b *bank, w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		invalid(w, err.Error())
		return
	}
	for k, v := range in {
		b.config[k] = v
	}
	memory.JSON(w, http.StatusOK, map[string]any{"bank_id": r.PathValue("bank"), "config": b.config})
}

func (s *Server) bankConfig(b *bank, w http.ResponseWriter, r *http.Request) {
	memory.JSON(w, http.StatusOK, map[string]any{"bank_id": r.PathValue("bank"), "config": b.config})
}
