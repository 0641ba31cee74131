package admin

import (
	"fmt"
	"net/http"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Prompt is the cached prompt of a session: what precedes its messages in every
// model call.
type Prompt struct {
	Session session.Record `json:"session"`
	Hash    string         `json:"hash"`
	Layers  []prompt.Layer `json:"layers"`
	Tools   []Tool         `json:"tools"`
}

// A Tool is the size of one tool definition in a prompt. Tokens are estimated.
type Tool struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens"`
}

// A Trace lists the recorded model calls of a session, oldest first.
type Trace struct {
	Session session.Record `json:"session"`
	// Calls do not include the digests of messages.
	Calls []ledger.Record `json:"calls"`
	// Forgotten is the number of older calls whose records were discarded.
	Forgotten int `json:"discarded,omitempty"`
}

// A Diff is the comparison of the prefixes of two calls.
type Diff struct {
	Session session.Record `json:"session"`
	A       ledger.Record  `json:"a"`
	B       ledger.Record  `json:"b"`
	// Where is the layer or message with the first difference; "" if the longer
	// prefix extends the shorter one.
	Where string `json:"first_difference"`
}

func (h *Handler) prompt(r *http.Request) (any, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	p, err := store.LoadPrompt(r.Context(), h.opts.Store, rec.ID)
	if err != nil {
		return nil, err
	}
	out := Prompt{Session: rec, Hash: p.Hash(), Layers: p.Layers(), Tools: []Tool{}}
	for _, t := range p.Tools() {
		out.Tools = append(out.Tools, Tool{
			Name: t.Name, Bytes: len(t.Name) + len(t.Description) + len(t.Schema),
			Tokens: tokens.Text(t.Name) + tokens.Text(t.Description) + tokens.Text(string(t.Schema)),
		})
	}
	return out, nil
}

func (h *Handler) trace(r *http.Request) (any, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	records, err := store.LoadCalls(r.Context(), h.opts.Store, rec.ID, 0)
	if err != nil {
		return nil, err
	}
	out := Trace{Session: rec, Calls: records}
	if len(records) > 0 {
		out.Forgotten = max(0, records[0].N-1)
	}
	for i := range records {
		records[i].Hashes = nil
	}
	return out, nil
}

func (h *Handler) diff(r *http.Request) (any, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	records, err := store.LoadCalls(r.Context(), h.opts.Store, rec.ID, 0)
	if err != nil {
		return nil, err
	}
	out := Diff{Session: rec}
	for _, call := range []struct {
		name string
		to   *ledger.Record
	}{{"n", &out.A}, {"m", &out.B}} {
		if *call.to, err = pick(r.FormValue(call.name), records); err != nil {
			return nil, err
		}
	}
	if out.Where, err = ledger.Diff(records, out.A.N, out.B.N); err != nil {
		return nil, &Error{http.StatusConflict, fmt.Sprintf("these calls cannot be compared: %v; `hermesd prompt trace` shows the calls that are kept", err)}
	}
	out.A.Hashes, out.B.Hashes = nil, nil
	return out, nil
}

// pick returns the call whose number is s.
func pick(s string, records []ledger.Record) (ledger.Record, error) {
	if len(records) == 0 {
		return ledger.Record{}, &Error{http.StatusNotFound, "no model was called in this conversation yet"}
	}
	for _, c := range records {
		if fmt.Sprint(c.N) == s {
			return c, nil
		}
	}
	return ledger.Record{}, &Error{http.StatusNotFound,
		fmt.Sprintf("there is no call %s; the conversation has calls %d to %d, `hermesd prompt trace` shows them", s, records[0].N, records[len(records)-1].N)}
}
