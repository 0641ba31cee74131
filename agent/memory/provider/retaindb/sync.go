package retaindb

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
)

// timeLayout is a full date-time in UTC; the open-source server takes no offset.
const timeLayout = "2006-01-02T15:04:05.000Z"

func askPath(user string) string   { return "/v1/memory/profile/" + url.PathEscape(user) + "/ask" }
func agentPath(what string) string { return "/v1/memory/agent/" + agentID + "/" + what }

func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	s := c.scope(e.Scope)
	switch e.Kind {
	case provider.Turn:
		return provider.Receipt{}, c.turn(ctx, s, e)
	case provider.Added:
		kind := "factual"
		if e.Fact.Target == "user" {
			kind = "preference"
		}
		s.Session = "" // it is known in every conversation, and stays when one is forgotten
		var out added
		err := c.add(ctx, newMemory{scope: s, Content: e.Fact.Text, Type: kind, Importance: defaultImportance}, e.Key, &out)
		return provider.Receipt{ID: out.id()}, err
	case provider.Removed:
		return provider.Receipt{}, c.removeFact(ctx, s, e.Fact)
	case provider.Forget:
		return provider.Receipt{}, c.forget(ctx, s)
	}
	return provider.Receipt{}, nil // the service has all turns
}

// Synced cannot tell: a session shows what was extracted from its turns, not the turns,
// and a fact that is sent again with its key is stored once for a day.
func (c *client) Synced(context.Context, provider.Event, provider.Receipt) (bool, error) {
	return false, provider.ErrUnknown
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	At      string `json:"timestamp"`
}

func (c *client) turn(ctx context.Context, s scope, e provider.Event) error {
	var messages []message
	for _, m := range e.Messages {
		at := m.At
		if at.IsZero() {
			at = e.At
		}
		if strings.TrimSpace(m.Text) != "" {
			messages = append(messages, message{m.Role, m.Text, at.UTC().Format(timeLayout)})
		}
	}
	if len(messages) == 0 {
		return nil
	}
	if e.Scope.Person == "" {
		c.seed(ctx, s)
	}
	if err := c.ingest(ctx, s, messages); err != nil {
		return err
	}
	c.takeOver(ctx) // the turn is stored, whatever comes of the rest
	return nil
}

// ingest stores messages, from which the service extracts memories before it answers.
func (c *client) ingest(ctx context.Context, s scope, messages any) error {
	var out struct {
		Success *bool `json:"success"`
	}
	err := c.call(ctx, false, rest.Call{Method: http.MethodPost, Path: "/v1/memory/ingest/session", Body: struct {
		scope
		Messages any    `json:"messages"`
		Mode     string `json:"write_mode"`
	}{s, messages, "sync"}}, &out)
	if err == nil && out.Success != nil && !*out.Success {
		err = &provider.Error{Class: provider.Down, Sent: true, Text: label + " has not processed this conversation"}
	}
	return err
}

// seed tells the service once about the agent, as upstream does when it starts; a failure
// harms no turn.
func (c *client) seed(ctx context.Context, s scope) {
	c.mu.Lock()
	todo := c.soul != "" && !c.seeded
	c.seeded = true
	c.mu.Unlock()
	if !todo {
		return
	}
	err := c.call(ctx, false, rest.Call{Method: http.MethodPost, Path: agentPath("seed"), Body: map[string]any{"project": s.Project, "content": c.soul, "source": "soul_md"}, Timeout: 20 * time.Second}, nil)
	if err != nil && provider.ClassOf(err) != provider.Refused {
		c.mu.Lock()
		c.seeded = false
		c.mu.Unlock()
	}
}

const defaultImportance = 0.7

// A newMemory is the body of a memory to be stored.
type newMemory struct {
	scope
	Content    string  `json:"content"`
	Type       string  `json:"memory_type"`
	Importance float64 `json:"importance"`
	Mode       string  `json:"write_mode,omitempty"`
}

type added struct {
	ID     string `json:"memory_id"`
	Memory memory `json:"memory"`
}

func (a added) id() string {
	if a.ID == "" {
		return a.Memory.ID
	}
	return a.ID
}

// add stores a memory; with the same key it is stored once in 24 hours.
func (c *client) add(ctx context.Context, m newMemory, key string, out any) error {
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	old := m
	m.Mode = "sync"
	return c.either(ctx, false,
		rest.Call{Method: http.MethodPost, Path: "/v1/memory", Body: m, Header: header},
		rest.Call{Method: http.MethodPost, Path: "/v1/memories", Body: old, Header: header}, out)
}

func (c *client) remove(ctx context.Context, id string, out any) error {
	id = url.PathEscape(id)
	return c.either(ctx, false, rest.Call{Method: http.MethodDelete, Path: "/v1/memory/" + id}, rest.Call{Method: http.MethodDelete, Path: "/v1/memories/" + id}, out)
}

// removeAll deletes memories that may be gone already.
func (c *client) removeAll(ctx context.Context, found []memory) error {
	for _, m := range found {
		if m.ID == "" || m.Pending {
			continue
		}
		if err := c.remove(ctx, m.ID, nil); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// removeFact deletes the memory of a fact or, if its ID is unknown, those with exactly its
// text.
func (c *client) removeFact(ctx context.Context, s scope, f provider.Fact) error {
	if f.ID != "" {
		return c.removeAll(ctx, []memory{{ID: f.ID}})
	}
	var out struct {
		Results []struct {
			Memory memory `json:"memory"`
		} `json:"results"`
	}
	if err := c.search(ctx, s, f.Text, maxResults, &out); err != nil {
		return err
	}
	var same []memory
	for _, r := range out.Results {
		if r.Memory.Content == f.Text {
			same = append(same, r.Memory)
		}
	}
	return c.removeAll(ctx, same)
}

// maxRounds is how often a profile, which the service may cut, is asked for and emptied.
const maxRounds = 50

// forget deletes what came of a conversation, or all memories of a person.
func (c *client) forget(ctx context.Context, s scope) error {
	seen := map[string]bool{}
	for range maxRounds {
		var found memories
		err := c.found(ctx, s, &found)
		if err != nil && !missing(err) {
			return err
		}
		var todo []memory
		for _, m := range found.Memories {
			if !seen[m.ID] {
				seen[m.ID] = true
				todo = append(todo, m)
			}
		}
		if len(todo) == 0 {
			return nil
		}
		if err := c.removeAll(ctx, todo); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) found(ctx context.Context, s scope, out *memories) error {
	if s.Session == "" {
		return c.profile(ctx, s, out)
	}
	return c.call(ctx, true, rest.Call{Method: http.MethodGet, Path: "/v1/memory/session/" + url.PathEscape(s.Session), Query: s.query()}, out)
}
