package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// models serves the list of models, or the named model, in the format of the
// API that the client uses.
func (s *Server) models(w http.ResponseWriter, r *http.Request, name string) {
	messages := r.Header.Get("Anthropic-Version") != ""
	if messages && !s.keyOK(r.Header.Get("X-Api-Key")) {
		writeJSON(w, http.StatusUnauthorized, messagesError("authentication_error", "invalid x-api-key"))
		return
	}
	if no := (chatAPI{s: s}).key(r.Header); no != nil && !messages {
		writeJSON(w, no.status, no.body)
		return
	}
	if name != "" && !s.modelOK(name) {
		writeJSON(w, http.StatusNotFound, messagesError("not_found_error", "model: "+name))
		return
	}
	if name != "" {
		writeJSON(w, http.StatusOK, s.model(name, messages))
		return
	}
	names := s.o.Models
	if len(names) == 0 {
		names = []string{"sim"}
	}
	list := make([]any, 0, len(names))
	for _, n := range names {
		list = append(list, s.model(n, messages))
	}
	if messages {
		writeJSON(w, http.StatusOK, map[string]any{"data": list, "has_more": false, "first_id": names[0], "last_id": names[len(names)-1]})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// model returns the list entry of one model.
func (s *Server) model(name string, messages bool) map[string]any {
	m := map[string]any{"id": name, "object": "model", "created": 1767225600, "owned_by": "sim"}
	length := "context_length"
	if messages {
		m = map[string]any{"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
		length = "max_input_tokens"
	}
	if n := s.o.Windows[name]; n > 0 {
		m[length] = n
	}
	return m
}

// show serves /api/show, the model details of Ollama.
func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	var q struct{ Model string }
	if json.NewDecoder(r.Body).Decode(&q) != nil || !s.modelOK(q.Model) {
		writeJSON(w, http.StatusNotFound, map[string]any{"error": fmt.Sprintf("model '%s' not found", q.Model)})
		return
	}
	info := map[string]any{"general.architecture": "sim", "sim.embedding_length": 4096}
	if n := s.o.Windows[q.Model]; n > 0 {
		info["sim.context_length"] = n
	}
	writeJSON(w, http.StatusOK, map[string]any{"details": map[string]any{"family": "sim"}, "model_info": info})
}
