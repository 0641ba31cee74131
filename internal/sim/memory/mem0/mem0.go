// Package mem0 implements a simulator of Mem0 for tests: the cloud with its events, or
// a server of one's own. It searches by words, and its extraction (infer) makes each
// text of the user a memory, once. The package does not import the code that it tests.
package mem0

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"hermesd/internal/sim/memory"
)

// Options configure a Server.
type Options struct {
	Keys []string // accepted keys; none: every key that is not empty
	// Own makes the server one of one's own: the key is in X-API-Key, writes are
	// synchronous, and there is no ping.
	Own bool
	// Queue: the cloud makes an event of a write without extraction, too.
	Queue bool
	// Extract is how long an event of the cloud takes until its memories are found; 0:
	// 2 s.
	Extract time.Duration
}

// A Memory is a stored memory.
type Memory struct {
	ID       string          `json:"id"`
	Text     string          `json:"memory"`
	User     string          `json:"user_id"`
	Agent    string          `json:"agent_id,omitempty"`
	Metadata json.RawMessage `json:"metadata"`
	Created  time.Time       `json:"created_at"`
	Updated  time.Time       `json:"updated_at"`
}

// An event is a write of the cloud that is processed later.
type event struct {
	id     string
	ready  time.Time
	failed bool
	add    addition
	done   bool
	result []map[string]any
}

// A Server is a simulated service.
type Server struct {
	*memory.Server

	o Options

	mu       sync.Mutex // guards the fields below
	memories []Memory
	events   []*event
	fail     int // number of coming events that fail
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Extract == 0 {
		o.Extract = 2 * time.Second
	}
	s := &Server{o: o}
	mux := http.NewServeMux()
	if o.Own {
		mux.HandleFunc("POST /search", s.search)
		mux.HandleFunc("POST /memories", s.add)
		mux.HandleFunc("GET /memories/{id}", s.memory)
		mux.HandleFunc("PUT /memories/{id}", s.update)
		mux.HandleFunc("DELETE /memories/{id}", s.remove)
		mux.HandleFunc("DELETE /memories", s.removeAll)
	} else {
		mux.HandleFunc("GET /v1/ping/{$}", s.ping)
		mux.HandleFunc("POST /v3/memories/add/{$}", s.add)
		mux.HandleFunc("POST /v3/memories/search/{$}", s.search)
		mux.HandleFunc("GET /v1/memories/{id}/{$}", s.memory)
		mux.HandleFunc("PUT /v1/memories/{id}/{$}", s.update)
		mux.HandleFunc("DELETE /v1/memories/{id}/{$}", s.remove)
		mux.HandleFunc("DELETE /v1/memories/{$}", s.removeAll)
		mux.HandleFunc("GET /v1/event/{id}/{$}", s.event)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.refuse(w, http.StatusNotFound, "Not Found") })
	s.Server = memory.New(s.authorize(mux), s.errorBody)
	return s
}

// errorBody returns the body of a refusal: {"error"} from the cloud, {"detail"} from a
// server of one's own.
func (s *Server) errorBody(_ int, message string) any {
	if s.o.Own {
		return map[string]any{"detail": message}
	}
	return map[string]any{"error": message}
}

func (s *Server) refuse(w http.ResponseWriter, status int, message string) {
	memory.JSON(w, status, s.errorBody(status, message))
}

func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if !s.o.Own {
			key = memory.Key(r)
		}
		if key == "" || len(s.o.Keys) > 0 && !slices.Contains(s.o.Keys, key) {
			s.refuse(w, http.StatusUnauthorized, "Given token not valid for any token type")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// FailEvents makes the next n events of the cloud fail.
func (s *Server) FailEvents(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// Memories returns what is stored about a user, of those whose events are over.
func (s *Server) Memories(user string) []Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	return s.ofLocked(user)
}

func (s *Server) ofLocked(user string) []Memory {
	var out []Memory
	for _, m := range s.memories {
		if m.User == user {
			out = append(out, m)
		}
	}
	return out
}

// workLocked processes the events whose time has come.
func (s *Server) workLocked() {
	for _, e := range s.events {
		if !e.done && !time.Now().Before(e.ready) {
			e.done = true
			if !e.failed {
				e.result = s.storeLocked(e.add)
			}
		}
	}
}

// storeLocked stores the memories of a write and returns its results.
func (s *Server) storeLocked(a addition) []map[string]any {
	out := []map[string]any{}
	for _, m := range a.Messages {
		if a.infers() && (m.Role != "user" || slices.ContainsFunc(s.ofLocked(a.User), func(have Memory) bool { return have.Text == m.Content })) {
			continue
		}
		now := time.Now().UTC()
		made := Memory{ID: memory.UUID(), Text: m.Content, User: a.User, Agent: a.Agent, Metadata: a.Metadata, Created: now, Updated: now}
		s.memories = append(s.memories, made)
		if s.o.Own {
			out = append(out, map[string]any{"id": made.ID, "memory": made.Text, "event": "ADD"})
		} else {
			out = append(out, map[string]any{"id": made.ID, "data": map[string]any{"memory": made.Text}, "event": "ADD"})
		}
	}
	return out
}
