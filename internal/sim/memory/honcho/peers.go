package honcho

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/internal/sim/memory"
)

// target returns the peer that a call asks about: the target, or the peer itself.
func target(r *http.Request, named string) string {
	if named != "" {
		return named
	}
	return r.PathValue("p")
}

func (s *Server) representation(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Session string `json:"session_id"`
		Target  string `json:"target"`
		Query   string `json:"search_query"`
		TopK    int    `json:"search_top_k"`
	}
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "body", err.Error())
		return
	}
	memory.JSON(w, http.StatusOK, map[string]any{"representation": ws.represent(r.PathValue("p"), target(r, in.Target), in.Query)})
}

func (s *Server) peerContext(ws *workspace, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	about := target(r, q.Get("target"))
	memory.JSON(w, http.StatusOK, map[string]any{
		"peer_id": r.PathValue("p"), "target_id": about, "representation": ws.represent(r.PathValue("p"), about, q.Get("search_query")),
		"peer_card": ws.cards[[2]string{r.PathValue("p"), about}],
	})
}

func (s *Server) card(ws *workspace, w http.ResponseWriter, r *http.Request) {
	at := [2]string{r.PathValue("p"), target(r, r.URL.Query().Get("target"))}
	if r.Method == http.MethodPut {
		var in struct {
			Card []string `json:"peer_card"`
		}
		if err := memory.Read(r, &in); err != nil {
			invalid(w, "peer_card", err.Error())
			return
		}
		ws.cards[at] = in.Card
	}
	memory.JSON(w, http.StatusOK, map[string]any{"peer_card": ws.cards[at]})
}

var levels = []string{"", "minimal", "low", "medium", "high", "max"}

// chat answers a question with what the peer knows; the answer is null if that is
// nothing.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query    string  `json:"query"`
		Target   string  `json:"target"`
		Session  *string `json:"session_id"`
		Stream   bool    `json:"stream"`
		Level    string  `json:"reasoning_level"`
		Evidence bool    `json:"include_evidence"`
	}
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "body", err.Error())
		return
	}
	if n := utf8.RuneCountInString(in.Query); n == 0 || n > maxQuery || !slices.Contains(levels, in.Level) {
		invalid(w, "query", "String should have 1 to 10000 characters")
		return
	}
	if s.o.Think > 0 {
		select {
		case <-time.After(s.o.Think):
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := s.workspaceLocked(r.PathValue("ws"))
	ws.derive()
	var answer any
	if text := ws.represent(r.PathValue("p"), target(r, in.Target), in.Query); text != "" {
		answer = text
	}
	if !in.Stream {
		memory.JSON(w, http.StatusOK, map[string]any{"content": answer})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if answer != nil {
		_, _ = fmt.Fprintf(w, "data: {\"delta\":{\"content\":%q},\"done\":false}\n\n", strings.TrimSpace(answer.(string))) // a buffer
	}
	_, _ = fmt.Fprint(w, "data: {\"delta\":{},\"done\":true}\n\n")
}

func (s *Server) addConclusions(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Conclusions []struct {
			Content  string  `json:"content"`
			Observer string  `json:"observer_id"`
			Observed string  `json:"observed_id"`
			Session  *string `json:"session_id"`
		} `json:"conclusions"`
	}
	if err := memory.Read(r, &in); err != nil || len(in.Conclusions) == 0 || len(in.Conclusions) > maxMessages {
		invalid(w, "conclusions", "List should have 1 to 100 items")
		return
	}
	made := []Conclusion{}
	for _, c := range in.Conclusions {
		if n := utf8.RuneCountInString(c.Content); n == 0 || n > maxConclusion || !isID(c.Observer) || !isID(c.Observed) {
			invalid(w, "content", "String should have 1 to 65535 characters")
			return
		}
		made = append(made, Conclusion{
			ID: s.newIDLocked("con"), Content: c.Content, Observer: c.Observer, Observed: c.Observed, Session: c.Session, Level: "explicit", Created: time.Now().UTC(),
		})
	}
	ws.conclusions = append(ws.conclusions, made...)
	memory.JSON(w, http.StatusCreated, made)
}

func (s *Server) listConclusions(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in filters
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "filters", err.Error())
		return
	}
	paged(w, r, filtered(ws.conclusions, in.Filters))
}

func (s *Server) queryConclusions(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query    string         `json:"query"`
		TopK     int            `json:"top_k"`
		Distance *float64       `json:"distance"`
		Filters  map[string]any `json:"filters"`
	}
	if err := memory.Read(r, &in); err != nil || in.TopK < 0 || in.TopK > 100 {
		invalid(w, "top_k", "Input should be less than or equal to 100")
		return
	}
	if in.Filters["observer_id"] == nil || in.Filters["observed_id"] == nil {
		refuse(w, http.StatusUnprocessableEntity, "observer_id and observed_id are required in filters")
		return
	}
	if in.TopK == 0 {
		in.TopK = 10
	}
	among := filtered(ws.conclusions, in.Filters)
	out := []Conclusion{}
	for _, h := range memory.Search(in.Query, contents(among, conclusionText), in.TopK) {
		if in.Distance == nil || 1-h.Score <= *in.Distance {
			out = append(out, among[h.Index])
		}
	}
	memory.JSON(w, http.StatusOK, out)
}

func (s *Server) getConclusion(ws *workspace, w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(ws.conclusions, func(c Conclusion) bool { return c.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "Conclusion not found")
		return
	}
	memory.JSON(w, http.StatusOK, ws.conclusions[i])
}

func (s *Server) deleteConclusion(ws *workspace, w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(ws.conclusions, func(c Conclusion) bool { return c.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "Conclusion not found")
		return
	}
	ws.conclusions = slices.Delete(ws.conclusions, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}
