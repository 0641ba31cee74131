package hindsight

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/internal/sim/memory"
)

// An item is one text of a retain.
type item struct {
	Content   string            `json:"content"`
	Timestamp string            `json:"timestamp"`
	Context   string            `json:"context"`
	Metadata  map[string]string `json:"metadata"` // other values than strings are refused
	Document  string            `json:"document_id"`
	Mode      string            `json:"update_mode"`
	Entities  json.RawMessage   `json:"entities"`
	Resolve   *bool             `json:"resolve_entities"`
	Tags      []string          `json:"tags"`
	Scopes    json.RawMessage   `json:"observation_scopes"`
	Strategy  string            `json:"strategy"`
}

func (s *Server) retain(b *bank, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Items     []item   `json:"items"`
		Async     bool     `json:"async"`
		Tags      []string `json:"document_tags"`
		Operation string   `json:"operation_id"`
	}
	if err := memory.Read(r, &in); err != nil {
		invalid(w, err.Error())
		return
	}
	if len(in.Items) == 0 {
		invalid(w, "items: List should have at least 1 item")
		return
	}
	for i, it := range in.Items {
		if it.Content == "" || it.Mode != "" && it.Mode != "replace" && it.Mode != "append" || it.Mode == "append" && it.Document == "" {
			invalid(w, "items."+strconv.Itoa(i)+": content, update_mode or document_id")
			return
		}
		if it.Strategy != in.Items[0].Strategy {
			refuse(w, http.StatusBadRequest, "all items of an operation must have one strategy")
			return
		}
	}
	name := r.PathValue("bank")
	answer := map[string]any{"success": true, "bank_id": name, "items_count": len(in.Items), "async": in.Async}
	if !in.Async {
		s.storeLocked(b, in.Items, time.Now())
		answer["usage"] = map[string]int{"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
		memory.JSON(w, http.StatusOK, answer)
		return
	}
	id := memory.UUID()
	if in.Operation != "" && s.atLeast("0.8.6") {
		if !memory.IsUUID(in.Operation) {
			invalid(w, "operation_id: Input should be a valid UUID")
			return
		}
		id = in.Operation
	}
	op := s.findLocked(id)
	switch {
	case op != nil && op.bank != name:
		refuse(w, http.StatusConflict, "operation_id belongs to another bank")
		return
	case op == nil: // else the first one stands, and nothing more is done
		s.operations = append(s.operations, &operation{id: id, bank: name, items: in.Items, at: time.Now().Add(s.o.Extract), fails: s.fail > 0})
		s.fail = max(s.fail-1, 0)
	}
	answer["operation_id"], answer["operation_ids"] = id, []string{id}
	memory.JSON(w, http.StatusOK, answer)
}

func (s *Server) findLocked(id string) *operation {
	i := slices.IndexFunc(s.operations, func(op *operation) bool { return op.id == id })
	if i < 0 {
		return nil
	}
	return s.operations[i]
}

// A question is the body of a recall.
type question struct {
	Query     string          `json:"query"`
	Types     []string        `json:"types"`
	Budget    string          `json:"budget"`
	MaxTokens int             `json:"max_tokens"`
	Tags      []string        `json:"tags"`
	Match     string          `json:"tags_match"`
	Timestamp string          `json:"query_timestamp"`
	Include   json.RawMessage `json:"include"`
	Trace     bool            `json:"trace"`
	MinScores json.RawMessage `json:"min_scores"`
	Window    json.RawMessage `json:"temporal_window"`
}

// tagged reports whether a document's tags are those that a recall asks for. "any" and
// "all" include documents without tags.
func (q question) tagged(tags []string) bool {
	if len(q.Tags) == 0 || len(tags) == 0 && !strings.HasSuffix(q.Match, "strict") && q.Match != "exact" {
		return true
	}
	n := 0
	for _, t := range q.Tags {
		if slices.Contains(tags, t) {
			n++
		}
	}
	switch q.Match {
	case "all", "all_strict":
		return n == len(q.Tags)
	case "exact":
		return n == len(q.Tags) && n == len(tags)
	}
	return n > 0
}

// find returns the memories that a recall finds, within its max_tokens.
func (q question) find(b *bank) []map[string]any {
	kinds := q.Types
	if len(kinds) == 0 {
		kinds = []string{"world", "experience"}
	}
	var texts []string
	var of []*Document
	var types []string
	for _, id := range b.order {
		d := b.documents[id]
		for _, kind := range kinds {
			from := d.found
			if kind == "observation" {
				from = d.observed
			}
			if kind != "experience" && !time.Now().Before(from) && q.tagged(d.Tags) {
				texts, of, types = append(texts, d.Text), append(of, d), append(types, kind)
			}
		}
	}
	limit := q.MaxTokens
	if limit == 0 {
		limit = 4096
	}
	out := []map[string]any{}
	for _, h := range memory.Search(q.Query, texts, len(texts)) {
		if limit -= len(texts[h.Index])/4 + 1; limit < 0 {
			break
		}
		d := of[h.Index]
		out = append(out, map[string]any{
			"id": d.ID + ":" + types[h.Index], "text": d.Text, "type": types[h.Index], "entities": []string{}, "context": d.Context, "document_id": d.ID,
			"metadata": d.Metadata, "tags": d.Tags, "scores": map[string]float64{"final": h.Score},
		})
	}
	return out
}

var budgets = []string{"", "low", "mid", "high"}

func (s *Server) recall(b *bank, w http.ResponseWriter, r *http.Request) {
	var q question
	if err := memory.Read(r, &q); err != nil {
		invalid(w, err.Error())
		return
	}
	if q.Query == "" || !slices.Contains(budgets, q.Budget) {
		invalid(w, "query or budget")
		return
	}
	memory.JSON(w, http.StatusOK, map[string]any{"results": q.find(b)})
}

func (s *Server) reflect(b *bank, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string          `json:"query"`
		Budget    string          `json:"budget"`
		Context   string          `json:"context"`
		MaxTokens int             `json:"max_tokens"`
		Schema    json.RawMessage `json:"response_schema"`
		Tags      []string        `json:"tags"`
		Match     string          `json:"tags_match"`
		Types     []string        `json:"fact_types"`
	}
	if err := memory.Read(r, &in); err != nil || in.Query == "" {
		invalid(w, "query is required")
		return
	}
	found := question{Query: in.Query, Tags: in.Tags, Match: in.Match, MaxTokens: in.MaxTokens}.find(b)
	var texts []string
	for _, f := range found {
		texts = append(texts, f["text"].(string))
	}
	memory.JSON(w, http.StatusOK, map[string]any{"text": strings.Join(texts, "\n"), "based_on": map[string]any{"memories": found}})
}

func (s *Server) document(b *bank, w http.ResponseWriter, r *http.Request) {
	d := b.documents[r.PathValue("id")]
	if d == nil {
		refuse(w, http.StatusNotFound, "Document not found")
		return
	}
	memory.JSON(w, http.StatusOK, map[string]any{"id": d.ID, "memory_unit_count": 1, "original_text": d.Text, "tags": d.Tags})
}

func (s *Server) deleteDocument(b *bank, w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if b.documents[id] == nil {
		refuse(w, http.StatusNotFound, "Document not found")
		return
	}
	delete(b.documents, id)
	b.order = slices.DeleteFunc(b.order, func(o string) bool { return o == id })
	memory.JSON(w, http.StatusOK, map[string]any{"success": true, "document_id": id, "memory_units_deleted": 1})
}

func (s *Server) listDocuments(b *bank, w http.ResponseWriter, r *http.Request) {
	items := []map[string]any{}
	for _, id := range b.order {
		if strings.Contains(strings.ToLower(id), strings.ToLower(r.URL.Query().Get("q"))) {
			items = append(items, map[string]any{"id": id, "bank_id": r.PathValue("bank"), "text_length": len(b.documents[id].Text), "tags": b.documents[id].Tags})
		}
	}
	total, limit, offset := len(items), 100, 0
	for name, n := range map[string]*int{"limit": &limit, "offset": &offset} {
		if text := r.URL.Query().Get(name); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil || *n < 0 {
				invalid(w, name)
				return
			}
		}
	}
	items = items[min(offset, total):min(offset+limit, total)]
	memory.JSON(w, http.StatusOK, map[string]any{"items": items, "total": total, "limit": limit, "offset": offset})
}

func (s *Server) deleteBank(_ *bank, w http.ResponseWriter, r *http.Request) {
	delete(s.banks, r.PathValue("bank"))
	memory.JSON(w, http.StatusOK, map[string]any{"success": true, "deleted_count": 1})
}

// status returns the state of an operation in the API's words.
func (s *Server) status(op *operation) string {
	switch {
	case op.cancelled:
		return "cancelled"
	case op.done && op.fails:
		return "failed"
	case op.done:
		return "completed"
	case time.Until(op.at) < s.o.Extract/2:
		return "processing"
	}
	return "pending"
}

func (s *Server) describe(op *operation) map[string]any {
	out := map[string]any{"operation_id": op.id, "status": s.status(op), "error_message": nil}
	if out["status"] == "failed" {
		out["error_message"] = "extraction failed"
	}
	return out
}

func (s *Server) operation(_ *bank, w http.ResponseWriter, r *http.Request) {
	op := s.findLocked(r.PathValue("id"))
	if op == nil || op.bank != r.PathValue("bank") {
		memory.JSON(w, http.StatusOK, map[string]any{"operation_id": r.PathValue("id"), "status": "not_found", "error_message": nil})
		return
	}
	memory.JSON(w, http.StatusOK, s.describe(op))
}

func (s *Server) listOperations(_ *bank, w http.ResponseWriter, r *http.Request) {
	out := []map[string]any{}
	for _, op := range s.operations {
		if want := r.URL.Query().Get("status"); op.bank == r.PathValue("bank") && (want == "" || want == s.status(op)) {
			out = append(out, s.describe(op))
		}
	}
	memory.JSON(w, http.StatusOK, map[string]any{"operations": out, "total": len(out)})
}

func (s *Server) cancel(_ *bank, w http.ResponseWriter, r *http.Request) {
	op := s.findLocked(r.PathValue("id"))
	if op == nil || op.done || op.cancelled {
		refuse(w, http.StatusConflict, "operation is over")
		return
	}
	op.cancelled = true
	memory.JSON(w, http.StatusOK, s.describe(op))
}

func (s *Server) retry(_ *bank, w http.ResponseWriter, r *http.Request) {
	op := s.findLocked(r.PathValue("id"))
	if op == nil || !op.cancelled && !(op.done && op.fails) {
		refuse(w, http.StatusConflict, "only failed and cancelled operations can be retried")
		return
	}
	op.done, op.cancelled, op.fails, op.at = false, false, s.fail > 0, time.Now().Add(s.o.Extract)
	s.fail = max(s.fail-1, 0)
	memory.JSON(w, http.StatusOK, s.describe(op))
}
