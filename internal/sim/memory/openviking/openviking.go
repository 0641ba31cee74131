// Package openviking implements a simulator of an OpenViking server for tests: sessions
// with live and archived messages, commits whose extraction takes time or fails, search
// and files. It searches by words. A commit makes each text of the user one memory file.
// The package does not import the code that it tests.
package openviking

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/sim/memory"
)

// Options configure a Server.
type Options struct {
	Keys []string // accepted keys; none: the server asks for none, but for account and user
	// UserKeys: each key belongs to one user, so account and user of a call are ignored.
	UserKeys bool
	// Extract is how long extraction takes after a commit; 0: 5 s.
	Extract time.Duration
}

// A Message is a message of a session.
type Message struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Peer    string `json:"peer_id,omitempty"`
	Content string `json:"content,omitempty"`
	Parts   []Part `json:"parts,omitempty"`
	Created string `json:"created_at"`
}

// A Part is a part of a message.
type Part struct {
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`
	ToolID     string          `json:"tool_id,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	ToolInput  json.RawMessage `json:"tool_input,omitempty"`
	ToolOutput string          `json:"tool_output,omitempty"`
	ToolStatus string          `json:"tool_status,omitempty"`
	URI        string          `json:"uri,omitempty"`
	Context    string          `json:"context_type,omitempty"`
	Abstract   string          `json:"abstract,omitempty"`
}

// text returns the words of a message.
func (m Message) text() string {
	texts := []string{m.Content}
	for _, p := range m.Parts {
		texts = append(texts, p.Text, p.ToolOutput)
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}

type session struct {
	id, tenant string
	live       []Message
	total      int
	commits    int
	broken     bool // an archive failed: every later commit is refused
	created    time.Time
	committed  time.Time // last; zero: never
}

// uri returns the address of a session.
func (s *session) uri() string {
	_, user, _ := strings.Cut(s.tenant, "/")
	return "viking://user/" + user + "/sessions/" + s.id
}

type task struct {
	id     string
	tenant string
	texts  []string
	at     time.Time
	fails  bool
	done   bool
	of     *session
}

// A File is a stored file.
type File struct {
	URI     string
	Content string
	Changed time.Time
}

// A Server is a simulated server.
type Server struct {
	*memory.Server

	o Options

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	files    map[string]map[string]*File // by tenant and URI
	tasks    []*task
	uploads  map[string][2]string // name and content by ID
	fail     int
	next     int
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Extract == 0 {
		o.Extract = 5 * time.Second
	}
	s := &Server{o: o, sessions: make(map[string]*session), files: make(map[string]map[string]*File), uploads: make(map[string][2]string)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		mode := "trusted"
		if len(o.Keys) > 0 {
			mode = "api_key"
		}
		memory.JSON(w, http.StatusOK, map[string]any{"status": "ok", "healthy": true, "version": "0.5.0", "auth_mode": mode})
	})
	in := func(pattern string, h func(tenant string, w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			tenant, ok := s.tenant(w, r)
			if !ok {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.workLocked()
			h(tenant, w, r)
		})
	}
	in("GET /api/v1/system/status", func(_ string, w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"initialized": true}) })
	in("POST /api/v1/search/find", s.find)
	in("POST /api/v1/search/search", s.find)
	in("GET /api/v1/content/read", s.read)
	in("GET /api/v1/content/abstract", s.summary)
	in("GET /api/v1/content/overview", s.summary)
	in("POST /api/v1/content/write", s.write)
	in("GET /api/v1/fs/ls", s.list)
	in("GET /api/v1/fs/tree", s.list)
	in("GET /api/v1/fs/stat", s.stat)
	in("DELETE /api/v1/fs", s.remove)
	in("POST /api/v1/sessions", s.create)
	in("GET /api/v1/sessions/{id}", s.describe)
	in("DELETE /api/v1/sessions/{id}", s.deleteSession)
	in("POST /api/v1/sessions/{id}/messages", s.addMessage)
	in("POST /api/v1/sessions/{id}/messages/batch", s.addMessages)
	in("GET /api/v1/sessions/{id}/context", s.context)
	in("POST /api/v1/sessions/{id}/commit", s.commit)
	in("GET /api/v1/tasks/{id}", s.task)
	in("POST /api/v1/resources", s.addResource)
	in("POST /api/v1/resources/temp_upload", s.upload)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, "NOT_FOUND", "Not Found") })
	s.Server = memory.New(mux, func(status int, message string) any { return envelope(codeOf(status), message) })
	return s
}

// statuses are the HTTP statuses of the error codes.
var statuses = map[string]int{
	"INVALID_ARGUMENT": 400, "INVALID_URI": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ALREADY_EXISTS": 409,
	"FAILED_PRECONDITION": 412, "RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

func codeOf(status int) string {
	for code, s := range statuses {
		if s == status && code != "INVALID_URI" {
			return code
		}
	}
	return "INTERNAL"
}

func envelope(code, message string) any {
	return map[string]any{"status": "error", "error": map[string]any{"code": code, "message": message, "details": map[string]any{}}}
}

func refuse(w http.ResponseWriter, code, message string) {
	memory.JSON(w, statuses[code], envelope(code, message))
}

func answer(w http.ResponseWriter, result any) {
	memory.JSON(w, http.StatusOK, map[string]any{"status": "ok", "result": result})
}

// tenant returns account and user of a request; ok is false if the request was refused.
func (s *Server) tenant(w http.ResponseWriter, r *http.Request) (tenant string, ok bool) {
	account, user := r.Header.Get("X-OpenViking-Account"), r.Header.Get("X-OpenViking-User")
	if len(s.o.Keys) == 0 {
		if account == "" || user == "" {
			refuse(w, "INVALID_ARGUMENT", "Trusted mode requests must include X-OpenViking-Account/User")
			return "", false
		}
		return account + "/" + user, true
	}
	if !slices.Contains(s.o.Keys, memory.Key(r)) {
		refuse(w, "UNAUTHENTICATED", "Invalid API key")
		return "", false
	}
	if account == "" || user == "" || s.o.UserKeys {
		return "default/" + memory.Key(r), true
	}
	return account + "/" + user, true
}

// FailExtractions makes the extraction of the next n commits fail: later commits of
// their sessions are refused.
func (s *Server) FailExtractions(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// Files returns the files of an account and user.
func (s *Server) Files(account, user string) []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	var out []File
	for _, f := range s.files[account+"/"+user] {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.URI, b.URI) })
	return out
}

// Total returns how many messages a session has, live and archived.
func (s *Server) Total(account, user, id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessionLocked(account+"/"+user, id).total
}

// Copies returns how many messages and files contain a text, without regard to case. A
// message that became a file counts once.
func (s *Server) Copies(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	n := 0
	count := func(t string) {
		if strings.Contains(strings.ToLower(t), strings.ToLower(text)) {
			n++
		}
	}
	for _, se := range s.sessions {
		for _, m := range se.live {
			count(m.text())
		}
	}
	for _, files := range s.files {
		for _, f := range files {
			count(f.Content)
		}
	}
	return n
}

func (s *Server) sessionLocked(tenant, id string) *session {
	se := s.sessions[tenant+"/"+id]
	if se == nil {
		se = &session{id: id, tenant: tenant, created: time.Now().UTC()}
		s.sessions[tenant+"/"+id] = se
	}
	return se
}

func (s *Server) filesLocked(tenant string) map[string]*File {
	if s.files[tenant] == nil {
		s.files[tenant] = make(map[string]*File)
	}
	return s.files[tenant]
}

// workLocked completes the extractions whose time has come.
func (s *Server) workLocked() {
	for _, t := range s.tasks {
		if t.done || time.Now().Before(t.at) {
			continue
		}
		t.done = true
		if t.fails {
			t.of.broken = true
			continue
		}
		_, user, _ := strings.Cut(t.tenant, "/")
		for _, text := range t.texts {
			s.next++
			uri := fmt.Sprintf("viking://user/%s/memories/preferences/mem_%012d.md", user, s.next)
			s.filesLocked(t.tenant)[uri] = &File{URI: uri, Content: text, Changed: t.at}
		}
	}
}
