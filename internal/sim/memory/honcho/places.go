package honcho

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"hermesd/internal/sim/memory"
)

// A creation is the body of a get-or-create call.
type creation struct {
	ID       string                 `json:"id"`
	Metadata map[string]any         `json:"metadata"`
	Config   map[string]any         `json:"configuration"`
	Peers    map[string]observation `json:"peers"`
}

// readCreation returns the body of a get-or-create call; ok is false if the call was
// refused.
func readCreation(w http.ResponseWriter, r *http.Request) (c creation, ok bool) {
	if err := memory.Read(r, &c); err != nil {
		invalid(w, "body", err.Error())
		return c, false
	}
	if !isID(c.ID) {
		invalid(w, "id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
		return c, false
	}
	return c, true
}

func (s *Server) createWorkspace(w http.ResponseWriter, r *http.Request) {
	c, ok := readCreation(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.workspaceLocked(c.ID)
	if c.Metadata != nil {
		ws.Metadata = c.Metadata
	}
	memory.JSON(w, http.StatusOK, ws)
}

func (s *Server) deleteWorkspace(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.workspaces[r.PathValue("ws")]
	if ws == nil {
		refuse(w, http.StatusNotFound, "Workspace not found")
		return
	}
	for _, se := range ws.sessions {
		if se.Active {
			refuse(w, http.StatusConflict, "Cannot delete workspace "+ws.ID+": active session(s) remain")
			return
		}
	}
	delete(s.workspaces, ws.ID)
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) createPeer(ws *workspace, w http.ResponseWriter, r *http.Request) {
	c, ok := readCreation(w, r)
	if !ok {
		return
	}
	p := ws.peer(c.ID)
	if c.Metadata != nil {
		p.Metadata = c.Metadata
	}
	if c.Config != nil {
		p.Config = c.Config
	}
	memory.JSON(w, http.StatusOK, p)
}

func (s *Server) createSession(ws *workspace, w http.ResponseWriter, r *http.Request) {
	c, ok := readCreation(w, r)
	if !ok {
		return
	}
	se := ws.session(c.ID)
	se.Active = true
	if c.Metadata != nil {
		se.Metadata = c.Metadata
	}
	for id, o := range c.Peers {
		ws.join(se, id, o)
	}
	memory.JSON(w, http.StatusOK, se)
}

// sessionsOfPeer lists the active sessions that a peer is in.
func (s *Server) sessionsOfPeer(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in filters
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "filters", err.Error())
		return
	}
	list := []*session{}
	for _, name := range slices.Sorted(maps.Keys(ws.sessions)) {
		if _, ok := ws.sessions[name].peers[r.PathValue("p")]; ok && ws.sessions[name].Active {
			list = append(list, ws.sessions[name])
		}
	}
	paged(w, r, filtered(list, in.Filters))
}

// join adds a peer to a session. A peer that is in it already keeps its observation:
// the value of the server holds.
func (ws *workspace) join(se *session, id string, o observation) {
	ws.peer(id)
	if _, ok := se.peers[id]; !ok {
		se.peers[id] = o
	}
}

func (s *Server) deleteSession(ws *workspace, w http.ResponseWriter, r *http.Request) {
	se := ws.sessions[r.PathValue("s")]
	if se == nil {
		refuse(w, http.StatusNotFound, "Session not found")
		return
	}
	se.Active = false
	var messages []Message
	for _, m := range ws.messages {
		if m.Session != se.ID {
			messages = append(messages, m)
		}
	}
	ws.messages = messages
	ws.forgetSession(se.ID)
	w.WriteHeader(http.StatusAccepted)
}

// forgetSession deletes the conclusions that belong to one session, and the reasoning
// about it that is not done.
func (ws *workspace) forgetSession(id string) {
	var conclusions []Conclusion
	for _, c := range ws.conclusions {
		if c.Session == nil || *c.Session != id {
			conclusions = append(conclusions, c)
		}
	}
	ws.conclusions = conclusions
	var pending []derivation
	for _, d := range ws.pending {
		if d.conclusion.Session == nil || *d.conclusion.Session != id {
			pending = append(pending, d)
		}
	}
	ws.pending = pending
}

// setPeers adds peers to a session (POST), or replaces them (PUT).
func (s *Server) setPeers(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var peers map[string]observation
	if err := memory.Read(r, &peers); err != nil {
		invalid(w, "body", err.Error())
		return
	}
	se := ws.session(r.PathValue("s"))
	if r.Method == http.MethodPut {
		clear(se.peers)
	}
	for id, o := range peers {
		if !isID(id) {
			invalid(w, "peers", "String should match pattern '^[a-zA-Z0-9_-]+$'")
			return
		}
		ws.join(se, id, o)
	}
	memory.JSON(w, http.StatusOK, se)
}

func (s *Server) peerConfig(ws *workspace, w http.ResponseWriter, r *http.Request) {
	se, id := ws.session(r.PathValue("s")), r.PathValue("p")
	if _, ok := se.peers[id]; !ok {
		refuse(w, http.StatusNotFound, "Peer "+id+" is not in session "+se.ID)
		return
	}
	if r.Method == http.MethodPut {
		var o observation
		if err := memory.Read(r, &o); err != nil {
			invalid(w, "body", err.Error())
			return
		}
		se.peers[id] = o
	}
	me, others := se.peers[id].me(), se.peers[id].others()
	memory.JSON(w, http.StatusOK, observation{Me: &me, Others: &others})
}

func (s *Server) queueStatus(ws *workspace, w http.ResponseWriter, _ *http.Request) {
	done := len(ws.messages)
	memory.JSON(w, http.StatusOK, map[string]any{
		"total_work_units": done + len(ws.pending), "completed_work_units": done, "in_progress_work_units": 0, "pending_work_units": len(ws.pending), "sessions": map[string]any{},
	})
}

// paged answers with the page of a list that the query asks for.
func paged[T any](w http.ResponseWriter, r *http.Request, items []T) {
	q := r.URL.Query()
	page, size := number(q.Get("page"), 1), min(number(q.Get("size"), 50), 100)
	if q.Get("reverse") == "true" {
		reversed := make([]T, 0, len(items))
		for i := len(items) - 1; i >= 0; i-- {
			reversed = append(reversed, items[i])
		}
		items = reversed
	}
	from := min((page-1)*size, len(items))
	to := min(from+size, len(items))
	memory.JSON(w, http.StatusOK, map[string]any{
		"items": items[from:to], "total": len(items), "page": page, "size": size, "pages": (len(items) + size - 1) / size,
	})
}

// number returns a positive number of a query, or otherwise.
func number(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return otherwise
	}
	return n
}

// stamp returns the time of an RFC 3339 text, or now.
func stamp(s string) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t
	}
	return time.Now().UTC()
}
