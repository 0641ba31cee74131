package honcho

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/internal/sim/memory"
)

// Limits of the API.
const (
	maxMessages   = 100
	maxContent    = 25_000 // characters of a message
	maxConclusion = 65_535
	maxQuery      = 10_000
)

func (s *Server) addMessages(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []struct {
			Content  string         `json:"content"`
			Peer     string         `json:"peer_id"`
			Metadata map[string]any `json:"metadata"`
			Created  string         `json:"created_at"`
			Config   map[string]any `json:"configuration"`
		} `json:"messages"`
	}
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "messages", err.Error())
		return
	}
	if len(in.Messages) == 0 || len(in.Messages) > maxMessages {
		invalid(w, "messages", "List should have 1 to 100 items")
		return
	}
	for _, m := range in.Messages {
		if !isID(m.Peer) {
			invalid(w, "peer_id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
			return
		}
		if utf8.RuneCountInString(m.Content) > maxContent {
			invalid(w, "content", "String should have at most 25000 characters")
			return
		}
	}
	se := ws.session(r.PathValue("s"))
	made := []Message{}
	for _, m := range in.Messages {
		ws.join(se, m.Peer, observation{})
		if m.Metadata == nil {
			m.Metadata = map[string]any{}
		}
		made = append(made, Message{
			ID: s.newIDLocked("msg"), Content: m.Content, Peer: m.Peer, Session: se.ID, Workspace: ws.ID, Metadata: m.Metadata,
			Created: stamp(m.Created), Tokens: len(m.Content) / 4,
		})
		s.reasonLocked(ws, se, made[len(made)-1])
	}
	ws.messages = append(ws.messages, made...)
	memory.JSON(w, http.StatusCreated, made)
}

// reasonLocked queues the conclusions that a message leads to: the peer's own, and those
// of the peers that observe others.
func (s *Server) reasonLocked(ws *workspace, se *session, m Message) {
	if !se.peers[m.Peer].me() {
		return
	}
	for id, o := range se.peers {
		if id == m.Peer || o.others() {
			ws.pending = append(ws.pending, derivation{time.Now().Add(s.o.Derive), Conclusion{
				ID: s.newIDLocked("con"), Content: m.Content, Observer: id, Observed: m.Peer, Session: &se.ID, Level: "explicit", Created: m.Created,
			}})
		}
	}
}

type filters struct {
	Filters map[string]any `json:"filters"`
}

func (s *Server) listMessages(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in filters
	if err := memory.Read(r, &in); err != nil {
		invalid(w, "filters", err.Error())
		return
	}
	paged(w, r, filtered(ws.messagesOf(r.PathValue("s")), in.Filters))
}

func (s *Server) searchMessages(ws *workspace, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query   string         `json:"query"`
		Filters map[string]any `json:"filters"`
		Limit   int            `json:"limit"`
	}
	if err := memory.Read(r, &in); err != nil || in.Limit < 0 || in.Limit > 100 {
		invalid(w, "limit", "Input should be less than or equal to 100")
		return
	}
	if in.Limit == 0 {
		in.Limit = 10
	}
	var among []Message
	for _, m := range filtered(ws.messages, in.Filters) {
		if m.Session == r.PathValue("s") || m.Peer == r.PathValue("p") {
			among = append(among, m)
		}
	}
	out := []Message{}
	for _, h := range memory.Search(in.Query, contents(among, func(m Message) string { return m.Content }), in.Limit) {
		out = append(out, among[h.Index])
	}
	memory.JSON(w, http.StatusOK, out)
}

func contents[T any](items []T, of func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = of(item)
	}
	return out
}

func conclusionText(c Conclusion) string { return c.Content }

// represent returns what an observer knows about a peer as text: the conclusions that
// fit the query, or all.
func (ws *workspace) represent(observer, observed, query string) string {
	known := ws.conclusionsOf(observer, observed)
	var b strings.Builder
	if query == "" {
		for _, c := range known {
			b.WriteString("- " + c.Content + "\n")
		}
		return b.String()
	}
	for _, h := range memory.Search(query, contents(known, conclusionText), 20) {
		b.WriteString("- " + known[h.Index].Content + "\n")
	}
	return b.String()
}

func (s *Server) sessionContext(ws *workspace, w http.ResponseWriter, r *http.Request) {
	se, q := ws.session(r.PathValue("s")), r.URL.Query()
	messages := ws.messagesOf(se.ID)
	var summary any
	if q.Get("summary") != "false" && len(messages) >= 20 {
		last := messages[len(messages)-1]
		summary = map[string]any{
			"content": "They talked about: " + messages[0].Content, "message_id": last.ID, "summary_type": "short", "created_at": last.Created, "token_count": 20,
		}
	}
	target, observer := q.Get("peer_target"), q.Get("peer_perspective")
	if observer == "" {
		observer = target
	}
	memory.JSON(w, http.StatusOK, map[string]any{
		"id": se.ID, "messages": messages[max(0, len(messages)-20):], "summary": summary,
		"peer_representation": ws.represent(observer, target, q.Get("search_query")), "peer_card": ws.cards[[2]string{observer, target}],
	})
}
