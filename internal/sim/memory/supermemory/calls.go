package supermemory

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"hermesd/internal/sim/memory"
)

// tagOf returns the one tag of a body that may have the singular or the plural form.
func tagOf(tag string, tags []string) string {
	if tag == "" && len(tags) == 1 {
		return tags[0]
	}
	return tag
}

// metadataFits reports whether values are strings, numbers, booleans or lists of
// strings.
func metadataFits(m map[string]any, lists bool) bool {
	for _, v := range m {
		switch v := v.(type) {
		case string, float64, bool:
		case []any:
			if !lists || slices.ContainsFunc(v, func(x any) bool { _, ok := x.(string); return !ok }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content  string         `json:"content"`
		Tag      string         `json:"containerTag"`
		Tags     []string       `json:"containerTags"`
		Metadata map[string]any `json:"metadata"`
		Context  string         `json:"entityContext"`
		Custom   string         `json:"customId"`
		Dreaming string         `json:"dreaming"`
		TaskType string         `json:"taskType"`
	}
	if err := memory.Read(r, &in); err != nil || in.Content == "" || !metadataFits(in.Metadata, true) || in.Custom != "" && !tagPattern.MatchString(in.Custom) {
		refuse(w, http.StatusBadRequest, "content, metadata or customId is invalid")
		return
	}
	if tag := tagOf(in.Tag, in.Tags); s.allowed(w, r, tag) {
		d := s.putLocked(tag, in.Custom, []string{in.Content}, in.Metadata)
		if in.Dreaming == "instant" {
			d.ready = time.Now().Add(s.o.Process / 10)
		}
		memory.JSON(w, http.StatusOK, map[string]any{"id": d.id, "status": "queued"})
	}
}

// putLocked stores a document, or replaces the one with the same custom ID and tag.
func (s *Server) putLocked(tag, custom string, texts []string, metadata map[string]any) *document {
	i := slices.IndexFunc(s.documents, func(d *document) bool { return custom != "" && d.custom == custom && d.tag == tag })
	if i < 0 {
		s.documents = append(s.documents, &document{id: memory.UUID(), custom: custom, tag: tag})
		i = len(s.documents) - 1
	}
	d := s.documents[i]
	d.texts, d.metadata, d.ready, d.done, d.fails = texts, metadata, time.Now().Add(s.o.Process), false, s.fail > 0
	s.fail = max(s.fail-1, 0)
	return d
}

func (s *Server) conversation(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID       string `json:"conversationId"`
		Messages []struct {
			Role    string          `json:"role"`
			Content string          `json:"content"`
			Name    string          `json:"name"`
			Calls   json.RawMessage `json:"tool_calls"`
			Call    string          `json:"tool_call_id"`
		} `json:"messages"`
		Tags     []string       `json:"containerTags"`
		Metadata map[string]any `json:"metadata"`
		Context  string         `json:"entityContext"`
	}
	if err := memory.Read(r, &in); err != nil || in.ID == "" || len(in.ID) > 255 || len(in.Messages) == 0 || !metadataFits(in.Metadata, false) {
		refuse(w, http.StatusBadRequest, "conversationId, messages or metadata is invalid")
		return
	}
	tag := tagOf("", in.Tags)
	if !s.allowed(w, r, tag) {
		return
	}
	var texts []string
	for _, m := range in.Messages {
		if !slices.Contains([]string{"user", "assistant", "system", "tool"}, m.Role) {
			refuse(w, http.StatusBadRequest, "role is invalid")
			return
		}
		if m.Role == "user" {
			texts = append(texts, m.Content)
		}
	}
	d := s.putLocked(tag, in.ID, texts, in.Metadata)
	memory.JSON(w, http.StatusOK, map[string]any{"id": d.id, "conversationId": in.ID, "status": "queued"})
}

// resultsLocked returns what a search finds under a tag.
func (s *Server) resultsLocked(tag, q string, limit int, threshold float64) []map[string]any {
	among := s.ofLocked(tag)
	var texts []string
	for _, m := range among {
		texts = append(texts, m.Text)
	}
	out := []map[string]any{}
	for _, h := range memory.Search(q, texts, limit) {
		if m := among[h.Index]; h.Score >= threshold {
			out = append(out, map[string]any{"id": m.ID, "memory": m.Text, "similarity": h.Score, "updatedAt": m.Updated, "metadata": nil})
		}
	}
	return out
}

func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Q         string  `json:"q"`
		Tag       string  `json:"containerTag"`
		Limit     int     `json:"limit"`
		Mode      string  `json:"searchMode"`
		Threshold float64 `json:"threshold"`
		Rerank    bool    `json:"rerank"`
	}
	if err := memory.Read(r, &in); err != nil || in.Q == "" || in.Mode != "" && !slices.Contains([]string{"hybrid", "memories", "documents"}, in.Mode) {
		refuse(w, http.StatusBadRequest, "q or searchMode is invalid")
		return
	}
	if in.Limit == 0 {
		in.Limit = 10
	}
	if !s.allowed(w, r, in.Tag) {
		return
	}
	found := s.resultsLocked(in.Tag, in.Q, in.Limit, in.Threshold)
	memory.JSON(w, http.StatusOK, map[string]any{"results": found, "timing": 12, "total": len(found)})
}

func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tag       string  `json:"containerTag"`
		Q         string  `json:"q"`
		Threshold float64 `json:"threshold"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.allowed(w, r, in.Tag) {
		return
	}
	static, dynamic := []string{}, []string{}
	for _, m := range s.ofLocked(in.Tag) {
		if m.Static {
			static = append(static, m.Text)
		} else {
			dynamic = append(dynamic, m.Text)
		}
	}
	out := map[string]any{"profile": map[string]any{"static": static, "dynamic": dynamic[max(0, len(dynamic)-10):]}}
	if in.Q != "" {
		found := s.resultsLocked(in.Tag, in.Q, 10, in.Threshold)
		out["searchResults"] = map[string]any{"results": found, "timing": 12, "total": len(found)}
	}
	memory.JSON(w, http.StatusOK, out)
}

// A change is the body of an update or a deletion of a memory.
type change struct {
	Tag      string          `json:"containerTag"`
	ID       string          `json:"id"`
	Content  string          `json:"content"`
	New      string          `json:"newContent"`
	Metadata json.RawMessage `json:"metadata"`
	After    json.RawMessage `json:"forgetAfter"`
	Reason   string          `json:"reason"`
}

// changeLocked returns the body of a change and the index of its memory; the index is
// -1 if the call was refused.
func (s *Server) changeLocked(w http.ResponseWriter, r *http.Request) (change, int) {
	var in change
	if err := memory.Read(r, &in); err != nil || in.ID == "" && in.Content == "" {
		refuse(w, http.StatusBadRequest, "id or content is required")
		return in, -1
	}
	if !s.allowed(w, r, in.Tag) {
		return in, -1
	}
	i := slices.IndexFunc(s.memories, func(m Memory) bool { return m.Tag == in.Tag && (m.ID == in.ID || in.ID == "" && m.Text == in.Content) })
	if i < 0 {
		refuse(w, http.StatusNotFound, "Memory not found")
	}
	return in, i
}

func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	in, i := s.changeLocked(w, r)
	if i < 0 {
		return
	}
	s.memories[i].Text, s.memories[i].Updated, s.memories[i].document = in.New, time.Now().UTC(), ""
	m := s.memories[i]
	memory.JSON(w, http.StatusOK, map[string]any{"id": m.ID, "memory": m.Text, "version": 2, "parentMemoryId": m.ID, "rootMemoryId": m.ID, "createdAt": m.Updated})
}

func (s *Server) forget(w http.ResponseWriter, r *http.Request) {
	if _, i := s.changeLocked(w, r); i >= 0 {
		id := s.memories[i].ID
		s.memories = slices.Delete(s.memories, i, i+1)
		memory.JSON(w, http.StatusOK, map[string]any{"id": id, "forgotten": true})
	}
}

// indexLocked returns the index of the document that a request names by its ID or
// custom ID, or refuses the request and returns -1.
func (s *Server) indexLocked(w http.ResponseWriter, r *http.Request) int {
	id := r.PathValue("id")
	i := slices.IndexFunc(s.documents, func(d *document) bool { return d.id == id || d.custom == id })
	if i < 0 {
		refuse(w, http.StatusNotFound, "Document not found")
	}
	return i
}

func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	i := s.indexLocked(w, r)
	if i < 0 {
		return
	}
	memory.JSON(w, http.StatusOK, s.describe(s.documents[i]))
}

func (s *Server) describe(d *document) map[string]any {
	status := "queued"
	switch {
	case d.done && d.fails:
		status = "failed"
	case d.done:
		status = "done"
	case time.Until(d.ready) < s.o.Process/2:
		status = "extracting"
	}
	return map[string]any{"id": d.id, "customId": d.custom, "status": status, "metadata": d.metadata}
}

// maxPage is the largest number of documents in a page.
const maxPage = 200

// list answers with a page of the documents of a container tag, the newest first.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tags  []string `json:"containerTags"`
		Limit int      `json:"limit"`
		Page  int      `json:"page"`
	}
	if err := memory.Read(r, &in); err != nil || in.Limit < 0 || in.Limit > maxPage || in.Page < 0 {
		refuse(w, http.StatusBadRequest, "containerTags, limit or page is invalid")
		return
	}
	tag := tagOf("", in.Tags)
	if !s.allowed(w, r, tag) {
		return
	}
	limit, page := cmp.Or(in.Limit, 10), cmp.Or(in.Page, 1)
	found := []map[string]any{}
	for _, d := range slices.Backward(s.documents) {
		if d.tag == tag {
			found = append(found, s.describe(d))
		}
	}
	total := len(found)
	first := min((page-1)*limit, total)
	memory.JSON(w, http.StatusOK, map[string]any{
		"memories":   found[first:min(first+limit, total)],
		"pagination": map[string]any{"currentPage": page, "limit": limit, "totalItems": total, "totalPages": (total + limit - 1) / limit},
	})
}

// maxBatch is the largest number of documents that are deleted in a call.
const maxBatch = 100

// deleteDocuments deletes documents by ID, or all of container tags, with their memories.
func (s *Server) deleteDocuments(w http.ResponseWriter, r *http.Request) {
	var in struct {
		IDs  []string `json:"ids"`
		Tags []string `json:"containerTags"`
	}
	if err := memory.Read(r, &in); err != nil || len(in.IDs) > maxBatch || (len(in.IDs) == 0) == (len(in.Tags) == 0) {
		refuse(w, http.StatusBadRequest, "ids or containerTags is invalid")
		return
	}
	for _, tag := range in.Tags {
		if !s.allowed(w, r, tag) {
			return
		}
	}
	before := len(s.documents)
	s.documents = slices.DeleteFunc(s.documents, func(d *document) bool {
		if !slices.Contains(in.IDs, d.id) && !slices.Contains(in.Tags, d.tag) {
			return false
		}
		s.memories = slices.DeleteFunc(s.memories, func(m Memory) bool { return m.document == d.id })
		return true
	})
	memory.JSON(w, http.StatusOK, map[string]any{"success": true, "deletedCount": before - len(s.documents)})
}

// deleteDocument deletes a document with its memories; the answer has no body.
func (s *Server) deleteDocument(w http.ResponseWriter, r *http.Request) {
	i := s.indexLocked(w, r)
	if i < 0 {
		return
	}
	id := s.documents[i].id
	s.documents = slices.Delete(s.documents, i, i+1)
	s.memories = slices.DeleteFunc(s.memories, func(m Memory) bool { return m.document == id })
	w.WriteHeader(http.StatusNoContent)
}
