package supermemory

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"hermesd/agent/memory/provider"
)

func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	tag := c.tagOf(e.Scope.Person)
	switch e.Kind {
	case provider.Turn:
		return c.conversation(ctx, tag, e)
	case provider.Added:
		return c.add(ctx, document{
			Content: e.Fact.Text, Tag: tag, Custom: e.Key, Context: c.context,
			Metadata: map[string]any{"sm_source": "hermes", "type": "explicit_memory", "target": e.Fact.Target},
		})
	case provider.Removed:
		return provider.Receipt{}, c.remove(ctx, tag, e.Fact)
	case provider.Forget:
		return provider.Receipt{}, c.forget(ctx, tag, e.Scope.Session)
	}
	return provider.Receipt{}, nil // all turns were sent
}

// An accepted is the answer to what is processed later.
type accepted struct {
	ID string `json:"id"`
}

func (a accepted) receipt() provider.Receipt {
	return provider.Receipt{ID: a.ID, Pending: a.ID != ""}
}

func (c *client) conversation(ctx context.Context, tag string, e provider.Event) (provider.Receipt, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	for _, m := range e.Messages {
		if strings.TrimSpace(m.Text) != "" {
			messages = append(messages, message{m.Role, m.Text})
		}
	}
	if len(messages) == 0 || !c.capture {
		return provider.Receipt{}, nil
	}
	var out accepted
	err := c.write(ctx, http.MethodPost, "/v4/conversations", map[string]any{
		"conversationId": e.Key,
		"messages":       messages,
		"containerTags":  []string{tag},
		"entityContext":  c.context,
		"metadata":       map[string]any{"sm_source": "hermes", "type": "full_session", "session_id": e.Scope.Session, "message_count": len(messages), "partial": true},
	}, &out)
	return out.receipt(), err
}

// A document is what one fact is stored as.
type document struct {
	Content  string         `json:"content"`
	Tag      string         `json:"containerTag"`
	Metadata map[string]any `json:"metadata"`
	Context  string         `json:"entityContext"`
	Custom   string         `json:"customId,omitempty"`
}

func (c *client) add(ctx context.Context, d document) (provider.Receipt, error) {
	var out accepted
	err := c.write(ctx, http.MethodPost, "/v3/documents", d, &out)
	return out.receipt(), err
}

// remove deletes the document of a fact with what was extracted from it or, if its ID is
// unknown, the memory with exactly its text.
func (c *client) remove(ctx context.Context, tag string, f provider.Fact) error {
	if f.ID != "" {
		return gone(c.write(ctx, http.MethodDelete, "/v3/documents/"+url.PathEscape(f.ID), nil, nil))
	}
	return gone(c.write(ctx, http.MethodDelete, "/v4/memories", map[string]any{"containerTag": tag, "content": f.Text}, new(accepted)))
}

const (
	pageSize  = 200 // documents that are listed in a call
	maxPages  = 500
	batchSize = 100 // documents that are deleted in a call
)

// forget deletes the turns of a conversation, or all documents of a container.
func (c *client) forget(ctx context.Context, tag, session string) error {
	if session == "" {
		return c.deleteAll(ctx, map[string]any{"containerTags": []string{tag}})
	}
	ids, err := c.turns(ctx, tag, session)
	for err == nil && len(ids) > 0 {
		n := min(batchSize, len(ids))
		err = c.deleteAll(ctx, map[string]any{"ids": ids[:n]})
		ids = ids[n:]
	}
	return err
}

// turns returns the IDs of the documents that a conversation's turns are stored as.
func (c *client) turns(ctx context.Context, tag, session string) (ids []string, err error) {
	for page := 1; page <= maxPages; page++ {
		var out struct {
			Documents []struct {
				ID       string         `json:"id"`
				Metadata map[string]any `json:"metadata"`
			} `json:"memories"`
			Pagination struct {
				Pages int `json:"totalPages"`
			} `json:"pagination"`
		}
		if err := c.read(ctx, http.MethodPost, "/v3/documents/list", map[string]any{"containerTags": []string{tag}, "limit": pageSize, "page": page}, &out); err != nil {
			return nil, err
		}
		for _, d := range out.Documents {
			if d.Metadata["session_id"] == session && d.ID != "" {
				ids = append(ids, d.ID)
			}
		}
		if page >= out.Pagination.Pages {
			break
		}
	}
	return ids, nil
}

func (c *client) deleteAll(ctx context.Context, in any) error {
	var out struct {
		Success *bool `json:"success"`
	}
	err := gone(c.write(ctx, http.MethodDelete, "/v3/documents/bulk", in, &out))
	if err == nil && out.Success != nil && !*out.Success {
		return &provider.Error{Class: provider.Down, Sent: true, Text: label + " has not deleted all documents"}
	}
	return err
}

// Synced can tell of what was accepted. For anything else, to send it again is the way to
// find out: it is stored once either way. The service deletes a document 2 minutes after
// it could not process it. That it knows conversations as documents is not documented.
func (c *client) Synced(ctx context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	if r.ID == "" {
		return false, provider.ErrUnknown
	}
	var out struct {
		Status string `json:"status"`
	}
	err := c.read(ctx, http.MethodGet, "/v3/documents/"+url.PathEscape(r.ID), nil, &out)
	switch {
	case err != nil && gone(err) == nil && e.Kind == provider.Turn && !c.tells.Load():
		return false, provider.ErrUnknown
	case err != nil && gone(err) == nil || out.Status == "failed":
		return false, provider.ErrFailed
	case err != nil:
		return false, err
	case e.Kind == provider.Turn:
		c.tells.Store(true)
	}
	return out.Status == "done", nil
}
