// Package honcho implements a simulator of Honcho's API v3 for tests: workspaces,
// peers, sessions, messages, conclusions, cards, context and chat. It searches by
// words. Its reasoning makes each message of a peer one conclusion of those who observe
// it, after Options.Derive. Grant makes an OAuth grant, whose refresh tokens can be used
// once. The package does not import the code that it tests.
package honcho

import (
	"fmt"
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
	// Derive is how long the server's reasoning about a message takes; 0: 5 s.
	Derive time.Duration
	// Think is how long an answer of chat takes.
	Think time.Duration
}

// A Message is a stored message.
type Message struct {
	ID        string         `json:"id"`
	Content   string         `json:"content"`
	Peer      string         `json:"peer_id"`
	Session   string         `json:"session_id"`
	Workspace string         `json:"workspace_id"`
	Metadata  map[string]any `json:"metadata"`
	Created   time.Time      `json:"created_at"`
	Tokens    int            `json:"token_count"`
}

// A Conclusion is a fact that a peer has about a peer.
type Conclusion struct {
	ID       string    `json:"id"`
	Content  string    `json:"content"`
	Observer string    `json:"observer_id"`
	Observed string    `json:"observed_id"`
	Session  *string   `json:"session_id"`
	Level    string    `json:"level"`
	Created  time.Time `json:"created_at"`
}

// observation is whom a peer of a session observes.
type observation struct {
	Me     *bool `json:"observe_me"`
	Others *bool `json:"observe_others"`
}

func (o observation) me() bool     { return o.Me == nil || *o.Me }
func (o observation) others() bool { return o.Others != nil && *o.Others }

type peer struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace_id"`
	Created   time.Time      `json:"created_at"`
	Metadata  map[string]any `json:"metadata"`
	Config    map[string]any `json:"configuration"`
}

type session struct {
	ID        string         `json:"id"`
	Active    bool           `json:"is_active"`
	Workspace string         `json:"workspace_id"`
	Metadata  map[string]any `json:"metadata"`
	Config    map[string]any `json:"configuration"`
	Created   time.Time      `json:"created_at"`

	peers map[string]observation
}

// A workspace holds everything of one workspace.
type workspace struct {
	ID       string         `json:"id"`
	Metadata map[string]any `json:"metadata"`
	Config   map[string]any `json:"configuration"`
	Created  time.Time      `json:"created_at"`

	peers       map[string]*peer
	sessions    map[string]*session
	messages    []Message
	conclusions []Conclusion
	cards       map[[2]string][]string // by observer and observed
	pending     []derivation
}

// A derivation is reasoning that is not done yet.
type derivation struct {
	at         time.Time
	conclusion Conclusion
}

// A Server is a simulated service.
type Server struct {
	*memory.Server

	o Options

	mu         sync.Mutex // guards the fields below
	workspaces map[string]*workspace
	next       int // number of the next ID
	grant      grant
}

// New returns a server that is reached through Transport.
func New(o Options) *Server {
	if o.Derive == 0 {
		o.Derive = 5 * time.Second
	}
	s := &Server{o: o, workspaces: make(map[string]*workspace)}
	s.Server = memory.New(s.authorize(s.routes()), errorBody)
	return s
}

func errorBody(_ int, message string) any { return map[string]any{"detail": message} }

func refuse(w http.ResponseWriter, status int, message string) {
	memory.JSON(w, status, errorBody(status, message))
}

// invalid refuses a body as FastAPI does.
func invalid(w http.ResponseWriter, field, message string) {
	memory.JSON(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"loc": []string{"body", field}, "msg": message, "type": "value_error"}}})
}

func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == tokenPath {
			s.refresh(w, r)
			return
		}
		key := memory.Key(r)
		if key == "" || r.Header.Get("Authorization") == "" || len(s.o.Keys) > 0 && !slices.Contains(s.o.Keys, key) || !s.valid(key) {
			refuse(w, http.StatusUnauthorized, "Invalid JWT")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routes returns the API. A handler that gets a workspace has created it if it was not
// there, as the service does.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	in := func(pattern string, h func(*workspace, http.ResponseWriter, *http.Request)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /v3/workspaces/{ws}"+path, func(w http.ResponseWriter, r *http.Request) {
			if !isID(r.PathValue("ws")) {
				invalid(w, "workspace_id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			ws := s.workspaceLocked(r.PathValue("ws"))
			ws.derive()
			h(ws, w, r)
		})
	}
	mux.HandleFunc("POST /v3/workspaces", s.createWorkspace)
	mux.HandleFunc("DELETE /v3/workspaces/{ws}", s.deleteWorkspace)
	in("POST /peers", s.createPeer)
	in("POST /sessions", s.createSession)
	in("DELETE /sessions/{s}", s.deleteSession)
	in("POST /sessions/{s}/peers", s.setPeers)
	in("PUT /sessions/{s}/peers", s.setPeers)
	in("GET /sessions/{s}/peers/{p}/config", s.peerConfig)
	in("PUT /sessions/{s}/peers/{p}/config", s.peerConfig)
	in("POST /sessions/{s}/messages", s.addMessages)
	in("POST /sessions/{s}/messages/list", s.listMessages)
	in("GET /sessions/{s}/context", s.sessionContext)
	in("POST /sessions/{s}/search", s.searchMessages)
	in("POST /peers/{p}/search", s.searchMessages)
	in("POST /peers/{p}/sessions", s.sessionsOfPeer)
	in("POST /peers/{p}/representation", s.representation)
	in("GET /peers/{p}/context", s.peerContext)
	in("GET /peers/{p}/card", s.card)
	in("PUT /peers/{p}/card", s.card)
	in("POST /conclusions", s.addConclusions)
	in("POST /conclusions/list", s.listConclusions)
	in("POST /conclusions/query", s.queryConclusions)
	in("GET /conclusions/{id}", s.getConclusion)
	in("DELETE /conclusions/{id}", s.deleteConclusion)
	in("GET /queue/status", s.queueStatus)
	mux.HandleFunc("POST /v3/workspaces/{ws}/peers/{p}/chat", s.chat) // waits, so it locks by itself
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	return mux
}

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,512}$`)

func isID(id string) bool { return idPattern.MatchString(id) }

func (s *Server) newIDLocked(prefix string) string {
	s.next++
	return fmt.Sprintf("%s_%06d", prefix, s.next)
}

// workspaceLocked returns a workspace, created if there is none.
func (s *Server) workspaceLocked(id string) *workspace {
	ws := s.workspaces[id]
	if ws == nil {
		ws = &workspace{
			ID: id, Created: time.Now().UTC(), Metadata: map[string]any{}, Config: map[string]any{},
			peers: make(map[string]*peer), sessions: make(map[string]*session), cards: make(map[[2]string][]string),
		}
		s.workspaces[id] = ws
	}
	return ws
}

func (ws *workspace) peer(id string) *peer {
	p := ws.peers[id]
	if p == nil {
		p = &peer{ID: id, Workspace: ws.ID, Created: time.Now().UTC(), Metadata: map[string]any{}, Config: map[string]any{}}
		ws.peers[id] = p
	}
	return p
}

func (ws *workspace) session(id string) *session {
	se := ws.sessions[id]
	if se == nil {
		se = &session{
			ID: id, Active: true, Workspace: ws.ID, Created: time.Now().UTC(), Metadata: map[string]any{}, Config: map[string]any{}, peers: make(map[string]observation),
		}
		ws.sessions[id] = se
	}
	return se
}

// derive makes the conclusions whose time has come.
func (ws *workspace) derive() {
	ws.pending = slices.DeleteFunc(ws.pending, func(d derivation) bool {
		due := !time.Now().Before(d.at)
		if due {
			ws.conclusions = append(ws.conclusions, d.conclusion)
		}
		return due
	})
}

// Messages returns the messages of a session.
func (s *Server) Messages(workspace, session string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workspaceLocked(workspace).messagesOf(session)
}

// Conclusions returns what observer knows about observed.
func (s *Server) Conclusions(workspace, observer, observed string) []Conclusion {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.workspaceLocked(workspace)
	ws.derive()
	return ws.conclusionsOf(observer, observed)
}

func (ws *workspace) messagesOf(session string) []Message {
	out := []Message{}
	for _, m := range ws.messages {
		if m.Session == session {
			out = append(out, m)
		}
	}
	return out
}

func (ws *workspace) conclusionsOf(observer, observed string) []Conclusion {
	out := []Conclusion{}
	for _, c := range ws.conclusions {
		if c.Observer == observer && c.Observed == observed {
			out = append(out, c)
		}
	}
	return out
}
