// Package supermemory implements a simulator of Supermemory for tests: documents and
// conversations that are processed later, search and profiles of container tags. It
// searches by words. A document, and each text of the user of a conversation, is one
// memory. The package does not import the code that it tests.
package supermemory

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memory"
)

// Options configure a Server.
type Options struct {
	Keys []string // accepted keys; none: every key that is not empty
	// Tags maps keys to the container tags that they are limited to; other keys may use
	// all.
	Tags map[string][]string
	// Process is how long a document takes until it is found; 0: 90 s.
	Process time.Duration
}

// A Memory is what was extracted from a document.
type Memory struct {
	ID      string
	Text    string
	Tag     string
	Static  bool // a lasting fact of the profile
	Updated time.Time

	document string // ID of the document that it came from
}

type document struct {
	id, custom, tag string
	texts           []string
	metadata        map[string]any
	ready           time.Time
	fails           bool
	done            bool
}

// A Server is a simulated service.
type Server struct {
	*memory.Server

	o Options

	mu        sync.Mutex // guards the fields below
	documents []*document
	memories  []Memory
	fail      int
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Process == 0 {
		o.Process = 90 * time.Second
	}
	s := &Server{o: o}
	mux := http.NewServeMux()
	in := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if key == "" || len(o.Keys) > 0 && !slices.Contains(o.Keys, key) {
				refuse(w, http.StatusUnauthorized, "Unauthorized")
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.workLocked()
			h(w, r)
		})
	}
	in("POST /v3/documents", s.add)
	in("POST /v3/documents/list", s.list)
	in("DELETE /v3/documents/bulk", s.deleteDocuments)
	in("GET /v3/documents/{id}", s.document)
	in("DELETE /v3/documents/{id}", s.deleteDocument)
	in("POST /v4/conversations", s.conversation)
	in("POST /v4/search", s.search)
	in("POST /v4/profile", s.profile)
	in("PATCH /v4/memories", s.update)
	in("DELETE /v4/memories", s.forget)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	s.Server = memory.New(mux, errorBody)
	return s
}

func errorBody(_ int, message string) any { return map[string]any{"error": message} }

func refuse(w http.ResponseWriter, status int, message string) {
	memory.JSON(w, status, errorBody(status, message))
}

var tagPattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,100}$`)

// allowed reports whether a request may use a tag, and refuses it if not.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, tag string) bool {
	if !tagPattern.MatchString(tag) {
		refuse(w, http.StatusBadRequest, "containerTag is invalid")
		return false
	}
	if limited, ok := s.o.Tags[memory.Key(r)]; ok && !slices.Contains(limited, tag) {
		refuse(w, http.StatusForbidden, "the key is limited to other container tags")
		return false
	}
	return true
}

// FailDocuments makes the next n documents fail; they are deleted after 2 minutes.
func (s *Server) FailDocuments(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// Memories returns what is known under a tag.
func (s *Server) Memories(tag string) []Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	return s.ofLocked(tag)
}

func (s *Server) ofLocked(tag string) []Memory {
	var out []Memory
	for _, m := range s.memories {
		if m.Tag == tag {
			out = append(out, m)
		}
	}
	return out
}

// failedLifetime is how long a document that failed is kept.
const failedLifetime = 2 * time.Minute

// workLocked processes the documents whose time has come.
func (s *Server) workLocked() {
	now := time.Now()
	s.documents = slices.DeleteFunc(s.documents, func(d *document) bool { return d.fails && now.Sub(d.ready) >= failedLifetime })
	for _, d := range s.documents {
		if d.done || now.Before(d.ready) {
			continue
		}
		d.done = true
		if d.fails {
			continue
		}
		s.memories = slices.DeleteFunc(s.memories, func(m Memory) bool { return m.document == d.id && !slices.Contains(d.texts, m.Text) })
		for _, text := range d.texts {
			if !slices.ContainsFunc(s.memories, func(m Memory) bool { return m.document == d.id && m.Text == text }) {
				s.memories = append(s.memories, Memory{ID: memory.UUID(), Text: text, Tag: d.tag, Static: d.metadata["type"] == "explicit_memory", Updated: now.UTC(), document: d.id})
			}
		}
	}
}
