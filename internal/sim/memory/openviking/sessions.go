package openviking

import (
	"fmt"
	"net/http"
	"time"

	"hermesd/internal/sim/memory"
)

// maxBatch is the largest number of messages of a batch.
const maxBatch = 100

func (s *Server) create(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID         string         `json:"session_id"`
		Memory     map[string]any `json:"memory_policy"`
		AutoCommit map[string]any `json:"auto_commit_policy"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	if in.ID == "" {
		in.ID = memory.UUID()
	}
	se := s.sessionLocked(tenant, in.ID)
	answer(w, map[string]any{"session_id": se.id, "uri": se.uri(), "user": tenant, "auto_commit_policy": in.AutoCommit})
}

// existingLocked returns the session that a request names, or refuses the request and returns
// nil.
func (s *Server) existingLocked(tenant string, w http.ResponseWriter, r *http.Request) *session {
	se := s.sessions[tenant+"/"+r.PathValue("id")]
	if se == nil {
		refuse(w, "NOT_FOUND", "Session not found: "+r.PathValue("id"))
	}
	return se
}

func (s *Server) describe(tenant string, w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("auto_create") == "true" {
		s.sessionLocked(tenant, r.PathValue("id"))
	}
	se := s.existingLocked(tenant, w, r)
	if se == nil {
		return
	}
	pending := 0
	for _, m := range se.live {
		pending += len(m.text())/4 + 1
	}
	out := map[string]any{
		"session_id": se.id, "created_at": se.created, "message_count": len(se.live), "total_message_count": se.total, "commit_count": se.commits, "pending_tokens": pending,
	}
	if !se.committed.IsZero() {
		out["last_commit_at"] = se.committed
	}
	answer(w, out)
}

func (s *Server) deleteSession(tenant string, w http.ResponseWriter, r *http.Request) {
	if se := s.existingLocked(tenant, w, r); se != nil {
		delete(s.sessions, tenant+"/"+se.id)
		answer(w, map[string]any{"session_id": se.id})
	}
}

func (s *Server) addMessage(tenant string, w http.ResponseWriter, r *http.Request) {
	var m Message
	if err := memory.Read(r, &m); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	s.appendLocked(tenant, w, r, []Message{m})
}

func (s *Server) addMessages(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []Message `json:"messages"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	s.appendLocked(tenant, w, r, in.Messages)
}

// appendLocked adds messages, all or none, and creates the session.
func (s *Server) appendLocked(tenant string, w http.ResponseWriter, r *http.Request, messages []Message) {
	if len(messages) == 0 || len(messages) > maxBatch {
		refuse(w, "INVALID_ARGUMENT", "messages: 1 to 100 are allowed")
		return
	}
	for _, m := range messages {
		if problem := m.problem(); problem != "" {
			refuse(w, "INVALID_ARGUMENT", problem)
			return
		}
	}
	se := s.sessionLocked(tenant, r.PathValue("id"))
	for _, m := range messages {
		m.ID = fmt.Sprintf("msg_%d", se.total)
		if m.Created == "" {
			m.Created = time.Now().UTC().Format(time.RFC3339)
		}
		se.live = append(se.live, m)
		se.total++
	}
	answer(w, map[string]any{"session_id": se.id, "message_count": len(se.live), "added": len(messages)})
}

// problem returns why a message is invalid, "" if it is not.
func (m Message) problem() string {
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return "role must be user or assistant"
	case (m.Content != "") == (len(m.Parts) > 0):
		return "exactly one of content and parts is required"
	}
	for _, p := range m.Parts {
		switch p.Type {
		case "text", "context":
		case "tool":
			switch p.ToolStatus {
			case "pending", "running", "completed", "error":
			default:
				return "tool_status must be pending, running, completed or error"
			}
		default:
			return "unknown part type " + p.Type
		}
	}
	return ""
}

func (s *Server) context(tenant string, w http.ResponseWriter, r *http.Request) {
	if se := s.existingLocked(tenant, w, r); se != nil {
		answer(w, map[string]any{"latest_archive_overview": "", "pre_archive_abstracts": []string{}, "messages": append([]Message{}, se.live...), "estimatedTokens": 0})
	}
}

func (s *Server) commit(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Keep int `json:"keep_recent_count"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	se := s.existingLocked(tenant, w, r)
	switch {
	case se == nil:
		return
	case se.broken:
		refuse(w, "FAILED_PRECONDITION", fmt.Sprintf("archive_%03d is not done", se.commits))
		return
	case len(se.live) <= in.Keep:
		answer(w, map[string]any{"session_id": se.id, "status": "skipped", "task_id": nil, "archived": false, "reason": "no_messages"})
		return
	}
	archived := se.live[:len(se.live)-in.Keep]
	se.live = append([]Message(nil), se.live[len(archived):]...)
	se.commits++
	se.committed = time.Now().UTC()
	t := &task{id: memory.UUID(), tenant: tenant, at: time.Now().Add(s.o.Extract), of: se, fails: s.fail > 0}
	s.fail = max(s.fail-1, 0)
	for _, m := range archived {
		if m.Role == "user" {
			t.texts = append(t.texts, m.text())
		}
	}
	s.tasks = append(s.tasks, t)
	answer(w, map[string]any{
		"session_id": se.id, "status": "accepted", "task_id": t.id, "archived": true, "archive_uri": fmt.Sprintf("%s/history/archive_%03d", se.uri(), se.commits),
	})
}

func (s *Server) task(tenant string, w http.ResponseWriter, r *http.Request) {
	for _, t := range s.tasks {
		if t.id != r.PathValue("id") || t.tenant != tenant {
			continue
		}
		switch {
		case !t.done:
			answer(w, map[string]any{"task_id": t.id, "task_type": "session_commit", "status": "running"})
		case t.fails:
			answer(w, map[string]any{"task_id": t.id, "task_type": "session_commit", "status": "failed", "error": "extraction failed"})
		default:
			answer(w, map[string]any{"task_id": t.id, "task_type": "session_commit", "status": "completed", "result": map[string]any{"memories_extracted": len(t.texts)}})
		}
		return
	}
	refuse(w, "NOT_FOUND", "Task not found")
}
