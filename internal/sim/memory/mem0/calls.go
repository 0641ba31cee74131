package mem0

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"hermesd/internal/sim/memory"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type addition struct {
	Messages []message       `json:"messages"`
	User     string          `json:"user_id"`
	Agent    string          `json:"agent_id"`
	Run      string          `json:"run_id"`
	Infer    *bool           `json:"infer"`
	Metadata json.RawMessage `json:"metadata"`
}

// infers reports whether a model extracts memories from the messages.
func (a addition) infers() bool { return a.Infer == nil || *a.Infer }

func (s *Server) ping(w http.ResponseWriter, _ *http.Request) {
	memory.JSON(w, http.StatusOK, map[string]any{"status": "ok", "org_id": "org-1", "project_id": "proj-1", "user_email": "ann@example.org"})
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) {
	var a addition
	if err := memory.Read(r, &a); err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if len(a.Messages) == 0 || a.User == "" && a.Agent == "" && a.Run == "" {
		s.refuse(w, http.StatusBadRequest, "At least one of the filters: agent_id, user_id, run_id is required, and messages must not be empty")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Own || !a.infers() && !s.o.Queue {
		memory.JSON(w, http.StatusOK, map[string]any{"message": "Memories have been added", "status": "SUCCEEDED", "results": s.storeLocked(a)})
		return
	}
	e := &event{id: memory.UUID(), ready: time.Now().Add(s.o.Extract), add: a, failed: s.fail > 0}
	s.fail = max(s.fail-1, 0)
	s.events = append(s.events, e)
	memory.JSON(w, http.StatusOK, map[string]any{"event_id": e.id, "status": "PENDING", "message": "Memory processing has been queued for background execution"})
}

func (s *Server) event(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	i := slices.IndexFunc(s.events, func(e *event) bool { return e.id == r.PathValue("id") })
	if i < 0 {
		s.refuse(w, http.StatusNotFound, "Event not found")
		return
	}
	e, status := s.events[i], "PENDING"
	switch {
	case e.done && e.failed:
		status = "FAILED"
	case e.done:
		status = "SUCCEEDED"
	case time.Until(e.ready) < s.o.Extract/2:
		status = "RUNNING"
	}
	memory.JSON(w, http.StatusOK, map[string]any{"id": e.id, "status": status, "results": e.result})
}

type question struct {
	Query   string `json:"query"`
	Filters struct {
		User  string `json:"user_id"`
		Agent string `json:"agent_id"`
	} `json:"filters"`
	TopK      int      `json:"top_k"`
	Rerank    bool     `json:"rerank"`
	Threshold *float64 `json:"threshold"`
	Format    string   `json:"output_format"`
}

func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := memory.Read(r, &q); err != nil { // user_id outside of filters is unknown
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if q.Query == "" || q.Filters.User == "" && q.Filters.Agent == "" {
		s.refuse(w, http.StatusBadRequest, "query and filters with user_id or agent_id are required")
		return
	}
	if q.TopK == 0 {
		q.TopK = 10
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	var found []Memory
	var texts []string
	for _, m := range s.memories {
		if (q.Filters.User == "" || m.User == q.Filters.User) && (q.Filters.Agent == "" || m.Agent == q.Filters.Agent) {
			found, texts = append(found, m), append(texts, m.Text)
		}
	}
	type hit struct {
		Memory
		Score float64 `json:"score"`
	}
	results := []hit{}
	for _, h := range memory.Search(q.Query, texts, q.TopK) {
		if q.Threshold == nil || h.Score >= *q.Threshold {
			results = append(results, hit{found[h.Index], h.Score})
		}
	}
	memory.JSON(w, http.StatusOK, map[string]any{"results": results})
}

// findLocked returns the index of the memory that a request names, or refuses the request and
// returns -1.
func (s *Server) findLocked(w http.ResponseWriter, r *http.Request) int {
	id := r.PathValue("id")
	if !memory.IsUUID(id) {
		s.refuse(w, http.StatusBadRequest, "memory_id should be a valid UUID")
		return -1
	}
	i := slices.IndexFunc(s.memories, func(m Memory) bool { return m.ID == id })
	if i < 0 {
		s.refuse(w, http.StatusNotFound, "Memory not found!")
	}
	return i
}

func (s *Server) memory(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	if i := s.findLocked(w, r); i >= 0 {
		memory.JSON(w, http.StatusOK, s.memories[i])
	}
}

func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text       string          `json:"text"`
		Metadata   json.RawMessage `json:"metadata"`
		Timestamp  json.RawMessage `json:"timestamp"`
		Expiration json.RawMessage `json:"expiration_date"`
	}
	if err := memory.Read(r, &in); err != nil || in.Text == "" {
		s.refuse(w, http.StatusBadRequest, "text is required")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.findLocked(w, r)
	if i < 0 {
		return
	}
	s.memories[i].Text, s.memories[i].Updated = in.Text, time.Now().UTC()
	if s.o.Own {
		memory.JSON(w, http.StatusOK, map[string]any{"message": "Memory updated successfully!"})
		return
	}
	memory.JSON(w, http.StatusOK, s.memories[i])
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.findLocked(w, r); i >= 0 {
		s.memories = slices.Delete(s.memories, i, i+1)
		memory.JSON(w, http.StatusOK, map[string]any{"message": "Memory deleted successfully!"})
	}
}

func (s *Server) removeAll(w http.ResponseWriter, r *http.Request) {
	user := r.URL.Query().Get("user_id")
	if user == "" {
		s.refuse(w, http.StatusBadRequest, "At least one of the filters: agent_id, user_id, run_id is required")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workLocked()
	s.memories = slices.DeleteFunc(s.memories, func(m Memory) bool { return m.User == user })
	memory.JSON(w, http.StatusOK, map[string]any{"message": "Memories deleted successfully!"})
}
