package mem0

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
)

// eventPause is the time after which an event is looked at again.
const eventPause = 10 * time.Second

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type added struct {
	Event   string `json:"event_id"`
	Results []struct {
		ID string `json:"id"`
	} `json:"results"`
}

// add stores messages; infer: a model extracts facts from them.
func (c *client) add(ctx context.Context, s provider.Scope, infer bool, messages ...message) (added, error) {
	body := map[string]any{"messages": messages, "user_id": c.userID(s), "agent_id": c.agent, "infer": infer}
	if s.Platform != "" {
		body["metadata"] = map[string]string{"channel": s.Platform}
	}
	var out added
	err := c.rest.Do(ctx, rest.Call{Method: "POST", Path: c.path("/v3/memories/add/", "/memories"), Body: body, Timeout: rest.WriteTimeout}, &out)
	return out, err
}

// Sync implements provider.Provider. A turn that is sent twice is mostly merged by
// Mem0's model; a fact is stored twice, and removed as often.
func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	switch e.Kind {
	case provider.Turn:
		var messages []message
		for _, m := range e.Messages {
			if strings.TrimSpace(m.Text) != "" {
				messages = append(messages, message{m.Role, m.Text})
			}
		}
		if len(messages) == 0 {
			return provider.Receipt{}, nil
		}
		out, err := c.add(ctx, e.Scope, true, messages...)
		return provider.Receipt{ID: out.Event, Pending: out.Event != ""}, err
	case provider.Added:
		out, err := c.add(ctx, e.Scope, false, message{"user", e.Fact.Text})
		if err == nil && len(out.Results) > 0 {
			return provider.Receipt{ID: out.Results[0].ID}, nil
		}
		return provider.Receipt{ID: out.Event, Pending: out.Event != ""}, err
	case provider.Removed:
		return provider.Receipt{}, c.removeFact(ctx, e)
	case provider.Forget:
		if e.Scope.Session != "" {
			return provider.Receipt{}, nil // memories do not say which conversation they are from
		}
		return provider.Receipt{}, c.rest.Do(ctx, rest.Call{
			Method: "DELETE", Path: c.path("/v1/memories/", "/memories"), Query: url.Values{"user_id": {c.userID(e.Scope)}}, Timeout: rest.WriteTimeout,
		}, nil)
	}
	return provider.Receipt{}, nil
}

// removeFact deletes the memory that a fact was stored as, and those with the same text:
// the fact was stored again if an answer was lost.
func (c *client) removeFact(ctx context.Context, e provider.Event) error {
	var ids []string
	if e.Fact.ID != "" {
		err := c.remove(ctx, e.Fact.ID)
		if gone(err) && !c.own && isID(e.Fact.ID) {
			ids, err = c.ofEvent(ctx, e.Fact.ID)
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	if e.Fact.Text != "" {
		results, err := c.search(ctx, question{user: c.userID(e.Scope), query: e.Fact.Text, top: maxFound})
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Memory == e.Fact.Text {
				ids = append(ids, r.ID)
			}
		}
	}
	for _, id := range ids {
		if err := c.remove(ctx, id); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// ofEvent returns the IDs of the memories that an event of the cloud has made.
func (c *client) ofEvent(ctx context.Context, id string) ([]string, error) {
	status, results, err := c.event(ctx, id)
	if err == nil && status != "SUCCEEDED" && status != "FAILED" {
		return nil, &provider.Error{Class: provider.Limit, RetryAfter: eventPause, Text: "Mem0 has not stored yet what is to be removed"}
	}
	var made []struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(results, &made) // an event that has made nothing
	var ids []string
	for _, m := range made {
		ids = append(ids, m.ID)
	}
	return ids, err
}

// event returns the state of an event of the cloud and what it has made.
func (c *client) event(ctx context.Context, id string) (status string, results json.RawMessage, err error) {
	var out struct {
		Status  string          `json:"status"`
		Results json.RawMessage `json:"results"`
	}
	err = c.rest.Do(ctx, rest.Call{Method: "GET", Path: "/v1/event/" + id + "/", Reads: true}, &out)
	return out.Status, out.Results, err
}

func (c *client) memoryPath(id string) string {
	id = url.PathEscape(id)
	return c.path("/v1/memories/"+id+"/", "/memories/"+id)
}

func (c *client) remove(ctx context.Context, id string) error {
	if !isID(id) {
		return noMemory(id)
	}
	return c.rest.Do(ctx, rest.Call{Method: "DELETE", Path: c.memoryPath(id), Timeout: rest.WriteTimeout}, nil)
}

// isID reports whether a text can be the ID of a memory, so that the path with it is that
// of a memory.
func isID(s string) bool {
	for _, r := range s {
		if r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}

func noMemory(id string) error {
	return &provider.Error{Class: provider.Refused, Status: http.StatusNotFound, Text: "Memory not found: " + id}
}

// gone reports whether an error means that there is no memory with an ID: unknown, or
// not the form of one.
func gone(err error) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusBadRequest, http.StatusUnprocessableEntity}, provider.StatusOf(err))
}

// Synced implements provider.Provider. The cloud can tell about a write whose
// receipt arrived.
func (c *client) Synced(ctx context.Context, _ provider.Event, r provider.Receipt) (bool, error) {
	if !r.Pending || !isID(r.ID) || c.own {
		return false, provider.ErrUnknown
	}
	status, _, err := c.event(ctx, r.ID)
	switch {
	case gone(err):
		return false, provider.ErrUnknown
	case err != nil:
		return false, err
	case status == "FAILED":
		return false, provider.ErrFailed
	}
	return status == "SUCCEEDED", nil
}
