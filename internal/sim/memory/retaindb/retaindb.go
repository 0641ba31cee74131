// Package retaindb implements a simulator of RetainDB for tests: memories of users in
// projects, sessions that are ingested, profiles, context, an agent's model and files.
// It searches by words. Ingesting a session makes each text of the user one memory, each
// time. The package does not import the code that it tests.
package retaindb

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memory"
)

// Options configure a Server.
type Options struct {
	Keys []string // accepted keys; none: every key that is not empty
	// Own makes the server the open-source one: it has no profile/{user}/ask, but
	// memory/dialectic.
	Own bool
	// Visible is how long an asynchronous write takes until it is found; 0: 2 s.
	Visible time.Duration
}

// A Memory is a stored memory.
type Memory struct {
	ID         string    `json:"id"`
	Content    string    `json:"content"`
	Type       string    `json:"type"`
	User       string    `json:"user_id"`
	Session    string    `json:"session_id"`
	Importance float64   `json:"importance"`
	Created    time.Time `json:"created_at"`

	project string
	found   time.Time
}

// A File is an uploaded file.
type File struct {
	ID      string `json:"id"`
	Path    string `json:"path"`
	Name    string `json:"name"`
	Size    int    `json:"size"`
	Scope   string `json:"scope"`
	Project string `json:"project_id"`

	content []byte
}

// A replay is the first answer to a write with an idempotency key.
type replay struct {
	at     time.Time
	body   string
	answer any
}

// A Server is a simulated service.
type Server struct {
	*memory.Server

	o Options

	mu       sync.Mutex // guards the fields below
	memories []Memory
	seeds    map[string]string // text of an agent's seed, by project and agent
	files    []*File
	replays  map[string]replay
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Visible == 0 {
		o.Visible = 2 * time.Second
	}
	s := &Server{o: o, seeds: make(map[string]string), replays: make(map[string]replay)}
	mux := http.NewServeMux()
	in := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.authorized(w, r) {
				s.mu.Lock()
				defer s.mu.Unlock()
				h(w, r)
			}
		})
	}
	in("POST /v1/context/query", s.context)
	in("POST /v1/memory/search", s.search)
	in("GET /v1/memory/profile/{user}", s.profile)
	in("GET /v1/memories", s.profile)
	in("POST /v1/memory", s.add)
	in("POST /v1/memories", s.add)
	in("PUT /v1/memory/{id}", s.update)
	in("DELETE /v1/memory/{id}", s.remove)
	in("DELETE /v1/memories/{id}", s.remove)
	in("POST /v1/memory/ingest/session", s.ingest)
	in("GET /v1/memory/session/{id}", s.session)
	in("GET /v1/memory/jobs/{id}", s.job)
	in("GET /v1/memory/agent/{id}/model", s.model)
	in("POST /v1/memory/agent/{id}/seed", s.seed)
	if o.Own {
		in("POST /v1/memory/dialectic", s.ask)
	} else {
		in("POST /v1/memory/profile/{user}/ask", s.ask)
	}
	in("POST /v1/files", s.upload)
	in("GET /v1/files", s.listFiles)
	in("GET /v1/files/{id}", s.file)
	in("GET /v1/files/{id}/content", s.fileContent)
	in("POST /v1/files/{id}/ingest", s.ingestFile)
	in("DELETE /v1/files/{id}", s.deleteFile)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "NOT_FOUND", "Not Found") })
	s.Server = memory.New(mux, func(_ int, message string) any { return errorBody("INTERNAL_ERROR", message) })
	return s
}

func errorBody(code, message string) any {
	return map[string]any{"success": false, "error": map[string]any{"code": code, "message": message}, "trace_id": "trace-1"}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	memory.JSON(w, status, errorBody(code, message))
}

// authorized reports whether a request has a key; those of memory and context need it
// in X-API-Key too.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request) bool {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	ok := bearer != "" && (len(s.o.Keys) == 0 || slices.Contains(s.o.Keys, bearer))
	if strings.HasPrefix(r.URL.Path, "/v1/memory") || strings.HasPrefix(r.URL.Path, "/v1/context") {
		ok = ok && r.Header.Get("X-Api-Key") == bearer
	}
	if !ok {
		refuse(w, http.StatusUnauthorized, "NOT_AUTHORIZED", "Invalid API key")
	}
	return ok
}

// Memories returns what is stored about a user in a project, also what is not found yet.
func (s *Server) Memories(project, user string) []Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ofLocked(project, user, true)
}

// ofLocked returns the memories of a user; pending includes those that are not found
// yet.
func (s *Server) ofLocked(project, user string, pending bool) []Memory {
	out := []Memory{}
	for _, m := range s.memories {
		if m.project == project && m.User == user && (pending || !time.Now().Before(m.found)) {
			out = append(out, m)
		}
	}
	return out
}

// storeLocked stores a memory that is found after a delay.
func (s *Server) storeLocked(m Memory, delay time.Duration) Memory {
	m.ID, m.Created, m.found = memory.UUID(), time.Now().UTC(), time.Now().Add(delay)
	s.memories = append(s.memories, m)
	return m
}

// findLocked returns the memories of a user that a query finds, with their scores.
func (s *Server) findLocked(q query) ([]Memory, []float64) {
	among := s.ofLocked(q.Project, q.User, q.Pending)
	var texts []string
	for _, m := range among {
		texts = append(texts, m.Content)
	}
	limit := q.TopK
	if limit == 0 {
		limit = 8
	}
	var found []Memory
	var scores []float64
	for _, h := range memory.Search(q.Query, texts, limit) {
		found, scores = append(found, among[h.Index]), append(scores, h.Score)
	}
	return found, scores
}
