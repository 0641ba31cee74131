package retaindb

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"hermesd/internal/sim/memory"
)

// A query is the body of a search or a context query.
type query struct {
	Project   string `json:"project"`
	Query     string `json:"query"`
	User      string `json:"user_id"`
	Session   string `json:"session_id"`
	TopK      int    `json:"top_k"`
	Pending   bool   `json:"include_pending"`
	Include   bool   `json:"include_memories"`
	MaxTokens int    `json:"max_tokens"`
}

// maxQuery is the length of the longest query in UTF-16 units.
const maxQuery = 5_000

// readQuery returns the body of a query; ok is false if the call was refused.
func readQuery(w http.ResponseWriter, r *http.Request) (q query, ok bool) {
	err := memory.Read(r, &q)
	if err == nil && q.Query != "" && len(utf16.Encode([]rune(q.Query))) <= maxQuery && q.User != "" && q.Project != "" {
		return q, true
	}
	refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "project, query and user_id are required, and a query has at most 5,000 characters")
	return q, false
}

func (s *Server) context(w http.ResponseWriter, r *http.Request) {
	q, ok := readQuery(w, r)
	if !ok {
		return
	}
	q.Pending = true
	results := []map[string]any{}
	var texts []string
	found, scores := s.findLocked(q)
	for i, m := range found {
		results = append(results, map[string]any{"id": m.ID, "content": m.Content, "score": scores[i], "metadata": map[string]any{}, "source": "memory", "type": m.Type, "retrieval_source": "memory"})
		texts = append(texts, m.Content)
	}
	memory.JSON(w, http.StatusOK, map[string]any{"results": results, "context": strings.Join(texts, "\n"), "meta": map[string]any{"total": len(results)}})
}

func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q, ok := readQuery(w, r)
	if !ok {
		return
	}
	results := []map[string]any{}
	found, scores := s.findLocked(q)
	for i, m := range found {
		results = append(results, map[string]any{"memory": m, "chunk": nil, "similarity": scores[i], "relations": []any{}})
	}
	memory.JSON(w, http.StatusOK, map[string]any{"results": results, "count": len(results)})
}

func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	user := r.PathValue("user")
	if user == "" {
		user = q.Get("user_id")
	}
	found := s.ofLocked(q.Get("project"), user, q.Get("include_pending") == "true")
	memory.JSON(w, http.StatusOK, map[string]any{"user_id": user, "memories": found, "count": len(found)})
}

// types are the memory types of the open-source server.
var types = strings.Fields("factual episodic semantic procedural preference event relationship opinion goal instruction decision constraint solution project_state correction workflow")

// keyLifetime is how long an idempotency key is kept, maxKey its largest length.
const (
	keyLifetime = 24 * time.Hour
	maxKey      = 200
	maxContent  = 10_000 // characters
)

func (s *Server) add(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Project    string          `json:"project"`
		Content    string          `json:"content"`
		Type       string          `json:"memory_type"`
		User       string          `json:"user_id"`
		Session    string          `json:"session_id"`
		Importance float64         `json:"importance"`
		Confidence float64         `json:"confidence"`
		Mode       string          `json:"write_mode"`
		Metadata   json.RawMessage `json:"metadata"`
		Tags       []string        `json:"tags"`
		Namespace  string          `json:"namespace"`
	}
	err := memory.Read(r, &in)
	n := utf8.RuneCountInString(in.Content)
	if err != nil || n == 0 || n > maxContent || !slices.Contains(types, in.Type) || in.Importance < 0 || in.Importance > 1 || in.User == "" {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "content, memory_type, user_id or importance is invalid")
		return
	}
	key := r.Header.Get("Idempotency-Key")
	body, _ := json.Marshal(in) // decoded just now
	if old, ok := s.replays[key]; ok && key != "" && r.URL.Path == "/v1/memory" && time.Since(old.at) < keyLifetime {
		if old.body != string(body) {
			refuse(w, http.StatusConflict, "VALIDATION_ERROR", "Idempotency key reuse with different payload")
			return
		}
		w.Header().Set("X-Idempotency-Replay", "true")
		memory.JSON(w, http.StatusCreated, old.answer)
		return
	}
	if len(key) > maxKey {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key is too long")
		return
	}
	m := Memory{Content: in.Content, Type: in.Type, User: in.User, Session: in.Session, Importance: in.Importance, project: in.Project}
	if in.Mode == "async" {
		m = s.storeLocked(m, s.o.Visible)
		memory.JSON(w, http.StatusAccepted, map[string]any{"success": true, "mode": "async", "job_id": m.ID, "status_url": "/v1/memory/jobs/" + m.ID, "visibility_sla_ms": s.o.Visible.Milliseconds()})
		return
	}
	m = s.storeLocked(m, 0)
	answer := map[string]any{"success": true, "memory_id": m.ID, "memory": m}
	if key != "" {
		s.replays[key] = replay{time.Now(), string(body), answer}
	}
	memory.JSON(w, http.StatusCreated, answer)
}

// job answers with the state of an asynchronous write, whose ID is that of its memory.
func (s *Server) job(w http.ResponseWriter, r *http.Request) {
	if i := s.indexLocked(w, r); i >= 0 {
		status := "pending"
		if !time.Now().Before(s.memories[i].found) {
			status = "completed"
		}
		memory.JSON(w, http.StatusOK, map[string]any{"success": true, "job": map[string]any{"id": s.memories[i].ID, "status": status}})
	}
}

// indexLocked returns the index of the memory that a request names, or refuses the
// request and returns -1.
func (s *Server) indexLocked(w http.ResponseWriter, r *http.Request) int {
	i := slices.IndexFunc(s.memories, func(m Memory) bool { return m.ID == r.PathValue("id") })
	if i < 0 {
		memory.JSON(w, http.StatusNotFound, map[string]any{"error": "Memory not found"})
	}
	return i
}

func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content string `json:"content"`
		Reason  string `json:"reason"`
	}
	if err := memory.Read(r, &in); err != nil || in.Content == "" {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "content is required")
		return
	}
	if i := s.indexLocked(w, r); i >= 0 {
		s.memories[i].Content = in.Content
		memory.JSON(w, http.StatusOK, map[string]any{"success": true, "memory_id": s.memories[i].ID, "memory": s.memories[i]})
	}
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	if i := s.indexLocked(w, r); i >= 0 {
		id := s.memories[i].ID
		s.memories = slices.Delete(s.memories, i, i+1)
		memory.JSON(w, http.StatusOK, map[string]any{"success": true, "message": "Memory deleted", "memory_id": id})
	}
}

func (s *Server) ingest(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Project  string `json:"project"`
		Session  string `json:"session_id"`
		User     string `json:"user_id"`
		Messages []struct {
			Role      string    `json:"role"`
			Content   string    `json:"content"`
			Timestamp time.Time `json:"timestamp"` // a date without a time is refused
		} `json:"messages"`
		Mode string `json:"write_mode"`
	}
	if err := memory.Read(r, &in); err != nil || len(in.Messages) == 0 || in.User == "" || in.Session == "" {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "session_id, user_id and messages with full date-times are required")
		return
	}
	delay := time.Duration(0)
	if in.Mode == "async" {
		delay = s.o.Visible
	}
	made := 0
	for _, m := range in.Messages {
		if m.Role == "user" {
			s.storeLocked(Memory{Content: m.Content, Type: "episodic", User: in.User, Session: in.Session, Importance: 0.5, project: in.Project}, delay)
			made++
		}
	}
	memory.JSON(w, http.StatusOK, map[string]any{
		"success": true, "mode": in.Mode, "session_id": in.Session, "messages_processed": len(in.Messages), "memories_created": made, "relations_created": 0, "memories_invalidated": 0, "errors": []any{},
	})
}

func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	out := []Memory{}
	for _, m := range s.memories {
		if m.Session == r.PathValue("id") && m.project == r.URL.Query().Get("project") {
			out = append(out, m)
		}
	}
	memory.JSON(w, http.StatusOK, map[string]any{"memories": out, "count": len(out)})
}

// ask answers a question about a user, of the cloud or of the open-source server.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Project  string `json:"project"`
		Query    string `json:"query"`
		Question string `json:"question"`
		User     string `json:"user_id"`
		Level    string `json:"reasoning_level"`
	}
	if err := memory.Read(r, &in); err != nil || in.Query+in.Question == "" {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "query is required")
		return
	}
	found, _ := s.findLocked(query{Project: in.Project, Query: in.Query + in.Question, User: r.PathValue("user") + in.User, Pending: true})
	var texts []string
	for _, m := range found {
		texts = append(texts, m.Content)
	}
	memory.JSON(w, http.StatusOK, map[string]any{"success": true, "answer": strings.Join(texts, "\n")})
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	text, count := s.seeds[r.URL.Query().Get("project")+"/"+r.PathValue("id")], 0
	if text != "" {
		count = 1
	}
	memory.JSON(w, http.StatusOK, map[string]any{
		"agent_id": r.PathValue("id"), "persona": text, "persistent_instructions": []any{}, "capabilities": []any{}, "working_style": "", "goals": []any{}, "memory_count": count, "coverage_score": 0,
	})
}

func (s *Server) seed(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Project string `json:"project"`
		Content string `json:"content"`
		Source  string `json:"source"`
	}
	if err := memory.Read(r, &in); err != nil || in.Content == "" {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "content is required")
		return
	}
	s.seeds[in.Project+"/"+r.PathValue("id")] = in.Content
	memory.JSON(w, http.StatusOK, map[string]any{"agent_id": r.PathValue("id"), "seeded": true})
}
