package llm

import (
	"cmp"
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
	body := map[string]any{"details": map[string]any{"family": "sim"}, "model_info": info}
	if n := s.o.NumCtx[q.Model]; n > 0 {
		body["parameters"] = fmt.Sprintf("stop                           \"<|x|>\"\nnum_ctx                        %d", n)
	}
	writeJSON(w, http.StatusOK, body)
}

// load serves /api/generate without a prompt, which loads a model.
func (s *Server) load(w http.ResponseWriter, r *http.Request) {
	var q struct{ Model, Prompt string }
	switch err := json.NewDecoder(r.Body).Decode(&q); {
	case err != nil || q.Prompt != "":
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "the simulator only loads models"})
		return
	case !s.modelOK(q.Model):
		writeJSON(w, http.StatusNotFound, map[string]any{"error": fmt.Sprintf("model '%s' not found", q.Model)})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded == nil {
		s.loaded = map[string]bool{}
	}
	s.loaded[q.Model] = true
	writeJSON(w, http.StatusOK, map[string]any{"model": q.Model, "response": "", "done": true, "done_reason": "load"})
}

// loadedModels serves /api/ps.
func (s *Server) loadedModels(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for name := range s.loaded {
		n := cmp.Or(s.o.NumCtx[name], s.o.OllamaContext, 4096)
		if most := s.o.Windows[name]; most > 0 {
			n = min(n, most)
		}
		list = append(list, map[string]any{"name": name, "model": name, "context_length": n})
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
}
