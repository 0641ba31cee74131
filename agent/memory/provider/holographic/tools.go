package holographic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hermesd/agent/memory/provider"
)

const storeSchema = `{"type":"object","properties":{` +
	`"action":{"type":"string","enum":["add","search","probe","related","reason","contradict","update","remove","list"]},` +
	`"content":{"type":"string","description":"The fact, for add and update."},` +
	`"query":{"type":"string","description":"Words, for search."},` +
	`"entity":{"type":"string","description":"A name, for probe and related."},` +
	`"entities":{"type":"array","items":{"type":"string"},"description":"Names, for reason."},` +
	`"fact_id":{"type":"integer","description":"For update and remove."},` +
	`"category":{"type":"string","enum":["user_pref","project","tool","general"]},` +
	`"tags":{"type":"string","description":"Separated by commas."},` +
	`"trust_delta":{"type":"number","description":"For update: added to the trust score."},` +
	`"min_trust":{"type":"number","description":"Least trust score (default: 0.3; list: 0)."},` +
	`"limit":{"type":"integer","description":"Maximum number of results (default: 10)."}},"required":["action"]}`

const feedbackSchema = `{"type":"object","properties":{"action":{"type":"string","enum":["helpful","unhelpful"]},` +
	`"fact_id":{"type":"integer","description":"The fact to rate."}},"required":["action","fact_id"]}`

var tools = []provider.Tool{
	{Name: "fact_store", Schema: json.RawMessage(storeSchema), Writes: true, Description: "Long-term store of single facts about people, projects, tools and decisions, in addition to the memory tool, " +
		"which is for what must always be in the context.\n" +
		"add: store a fact that the user would expect you to remember. search: facts with any of some words. probe: facts about one person or thing. " +
		"related: facts connected to a name. reason: facts connected to several names at once. contradict: pairs of facts that may contradict each other. " +
		"update, remove, list.\nBefore you answer a question about the user, probe or reason."},
	{Name: "fact_feedback", Schema: json.RawMessage(feedbackSchema), Writes: true, Description: "Rates a fact after you have used it: helpful if it was right, unhelpful if it is outdated. " +
		"Trusted facts are found first; facts without trust are no longer found."},
}

// An input is what the model gives to a tool. Numbers may be strings.
type input struct {
	Action     string      `json:"action"`
	Content    *string     `json:"content"`
	Query      *string     `json:"query"`
	Entity     *string     `json:"entity"`
	Entities   []string    `json:"entities"`
	ID         json.Number `json:"fact_id"`
	Category   *string     `json:"category"`
	Tags       *string     `json:"tags"`
	TrustDelta json.Number `json:"trust_delta"`
	MinTrust   json.Number `json:"min_trust"`
	Limit      json.Number `json:"limit"`
}

// A mistake is an error of the model, which is told to it.
type mistake struct{ text string }

func (m mistake) Error() string { return m.text }

func missing(name string) error { return mistake{"Missing required argument: '" + name + "'"} }

func need(s *string, name string) (string, error) {
	if s == nil || clean(*s) == "" {
		return "", missing(name)
	}
	return *s, nil
}

// number returns the value of n, or otherwise if there is none.
func number(n json.Number, otherwise float64) (float64, error) {
	if n == "" {
		return otherwise, nil
	}
	x, err := n.Float64()
	if err != nil {
		return 0, mistake{fmt.Sprintf("%q is no number", n)}
	}
	return x, nil
}

func (in input) id() (int64, error) {
	if in.ID == "" {
		return 0, missing("fact_id")
	}
	id, err := strconv.ParseInt(in.ID.String(), 10, 64)
	if err != nil {
		return 0, mistake{fmt.Sprintf("%q is no fact_id", in.ID)}
	}
	return id, nil
}

// Call runs a tool. Mistakes of the model are results, as upstream's.
func (m *memory) Call(ctx context.Context, s provider.Scope, tool string, raw json.RawMessage) (string, error) {
	var in input
	if err := json.Unmarshal(raw, &in); err != nil {
		return result(map[string]any{"error": "The arguments are not what the tool takes: " + err.Error()})
	}
	var answer any
	err := m.with(ctx, s.Person, func(f *file) (err error) {
		switch tool {
		case "fact_store":
			answer, err = m.store(ctx, f, in)
		case "fact_feedback":
			answer, err = rate(ctx, f, in)
		default:
			err = mistake{"Unknown tool: " + tool}
		}
		return err
	})
	if wrong, ok := errors.AsType[mistake](err); ok {
		return result(map[string]any{"error": wrong.text})
	}
	if err != nil {
		return "", err
	}
	return result(answer)
}

func result(answer any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		return "", &provider.Error{Class: provider.Garbage, Text: "the memory file contains values that are no numbers", Err: err}
	}
	return string(bytes.TrimSpace(b.Bytes())), nil
}

func rate(ctx context.Context, f *file, in input) (any, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if in.Action != "helpful" && in.Action != "unhelpful" {
		return nil, missing("action")
	}
	r, err := f.feedback(ctx, id, in.Action == "helpful")
	if err == nil && r.ID == 0 {
		err = mistake{fmt.Sprintf("fact_id %d not found", id)}
	}
	return r, err
}

// maxResults is the maximum number of results of a tool.
const maxResults = 100

func (m *memory) store(ctx context.Context, f *file, in input) (any, error) {
	switch in.Action {
	case "add":
		return add(ctx, f, in)
	case "update":
		return update(ctx, f, in)
	case "remove":
		id, err := in.id()
		if err != nil {
			return nil, err
		}
		found, err := f.remove(ctx, id, "")
		return map[string]any{"removed": found}, err
	}
	return m.find(ctx, f, in)
}

func add(ctx context.Context, f *file, in input) (any, error) {
	content, err := need(in.Content, "content")
	if err != nil {
		return nil, err
	}
	id, err := f.add(ctx, content, value(in.Category, "general"), value(in.Tags, ""))
	return struct {
		ID     int64  `json:"fact_id"`
		Status string `json:"status"`
	}{id, "added"}, err
}

func update(ctx context.Context, f *file, in input) (any, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	c := change{content: in.Content, category: in.Category, tags: in.Tags}
	if c.delta, err = number(in.TrustDelta, 0); err != nil {
		return nil, err
	}
	if c.content != nil && clean(*c.content) == "" {
		return nil, mistake{"content must not be empty"}
	}
	found, err := f.update(ctx, id, c)
	if errors.Is(err, errTaken) {
		err = mistake{errTaken.Error()}
	}
	return map[string]any{"updated": found}, err
}

func value(s *string, otherwise string) string {
	if s == nil || *s == "" {
		return otherwise
	}
	return *s
}

// find runs the actions that change nothing.
func (m *memory) find(ctx context.Context, f *file, in input) (any, error) {
	q := m.set.query()
	q.category = value(in.Category, "")
	limit, err := number(in.Limit, 10)
	if err != nil {
		return nil, err
	}
	q.limit = int(max(1, min(limit, maxResults)))
	var facts []fact
	switch in.Action {
	case "search":
		if q.text, err = need(in.Query, "query"); err == nil {
			if q.minTrust, err = number(in.MinTrust, q.minTrust); err == nil {
				facts, err = f.search(ctx, q)
			}
		}
	case "probe":
		if q.text, err = need(in.Entity, "entity"); err == nil {
			facts, err = f.reason(ctx, q, []string{q.text})
		}
	case "related":
		if q.text, err = need(in.Entity, "entity"); err == nil {
			facts, err = f.related(ctx, q)
		}
	case "reason":
		if len(in.Entities) == 0 {
			return nil, mistake{"reason requires 'entities' list"}
		}
		facts, err = f.reason(ctx, q, in.Entities)
	case "contradict":
		pairs, err := f.contradict(ctx, q.category, q.limit)
		return results("results", pairs), err
	case "list":
		if q.minTrust, err = number(in.MinTrust, 0); err == nil {
			facts, err = f.list(ctx, q)
		}
		return results("facts", facts), err
	case "":
		return nil, missing("action")
	default:
		return nil, mistake{"Unknown action: " + in.Action}
	}
	return results("results", facts), err
}

func results[T any](name string, all []T) any {
	if all == nil {
		all = []T{}
	}
	return map[string]any{name: all, "count": len(all)}
}
