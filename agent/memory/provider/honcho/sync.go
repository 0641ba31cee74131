package honcho

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/shorten"
)

const (
	maxContent    = 25_000 // characters of a message
	maxMessages   = 100    // in one call
	maxConclusion = 65_535 // characters
	pageSize      = "100"
	maxPages      = 50 // of a list
	// skew is how much the clock of the server may differ from ours.
	skew = 24 * time.Hour
)

// Names of the metadata of a message.
const (
	eventKey        = "hermes_event"
	conversationKey = "hermes_session"
)

func (c *client) Sync(ctx context.Context, e provider.Event) (r provider.Receipt, err error) {
	switch e.Kind {
	case provider.Turn:
		err = c.say(ctx, e)
	case provider.Added:
		r, err = c.conclude(ctx, e)
	case provider.Removed:
		err = c.remove(ctx, e)
	case provider.End:
		c.mu.Lock()
		delete(c.turns, e.Scope.Session)
		c.mu.Unlock()
	case provider.Forget:
		if e.Scope.Session != "" {
			err = c.forgetConversation(ctx, e.Scope)
		} else {
			err = c.forgetPerson(ctx, e.Scope)
		}
		c.closed()
	}
	return r, err
}

// A message is one message as it is sent.
type message struct {
	Content  string            `json:"content"`
	Peer     string            `json:"peer_id"`
	Metadata map[string]string `json:"metadata"`
	Created  string            `json:"created_at"`
}

// messages returns the messages of a turn, long ones in parts.
func (c *client) messages(e provider.Event) (list []message) {
	if !c.save {
		return nil
	}
	const continued = "[continued] "
	for _, m := range e.Messages {
		peer := c.ai
		if m.Role == "user" {
			peer = c.user(e.Scope)
		}
		rest, prefix := strings.TrimSpace(m.Text), ""
		for rest != "" {
			n := shorten.Offset(rest, max(c.maxMsg-len(prefix), 1))
			list = append(list, message{prefix + rest[:n], peer, map[string]string{eventKey: e.Key, conversationKey: e.Scope.Session}, m.At.UTC().Format(time.RFC3339Nano)})
			rest, prefix = rest[n:], continued
		}
	}
	return list
}

func (c *client) say(ctx context.Context, e provider.Event) error {
	list := c.messages(e)
	if len(list) == 0 {
		return nil
	}
	if err := c.open(ctx, e.Scope); err != nil {
		return err
	}
	for part := range slices.Chunk(list, maxMessages) {
		var got []struct{ ID string }
		if err := c.change(ctx, http.MethodPost, "/sessions/"+c.session(e.Scope)+"/messages", object{"messages": part}, &got); err != nil {
			c.closed() // the session may be gone
			return err
		}
	}
	return nil
}

// count returns how many messages of a session fulfil a filter.
func (c *client) count(ctx context.Context, session string, filter object) (int, error) {
	var got struct{ Total int }
	err := c.ask(ctx, "/sessions/"+session+"/messages/list", url.Values{"size": {"1"}}, object{"filters": filter}, &got)
	if provider.IsMissing(err) {
		return 0, nil
	}
	return got.Total, err
}

func (c *client) Synced(ctx context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	switch e.Kind {
	case provider.Turn:
		list := c.messages(e)
		if len(list) == 0 {
			return true, nil
		}
		n, err := c.count(ctx, c.session(e.Scope), object{"metadata": object{eventKey: e.Key}})
		return err == nil && n >= len(list), err
	case provider.Added:
		if r.ID != "" {
			return true, nil
		}
		ids, err := c.find(ctx, e, e.At.Add(-skew))
		return err == nil && len(ids) > 0, err
	}
	return false, provider.ErrUnknown // but all other events can be repeated
}

// A conclusion is a fact that Honcho has.
type conclusion struct {
	ID       string `json:"id"`
	Content  string `json:"content"`
	Observed string `json:"observed_id"`
}

// page is a page of a list.
type page[T any] struct {
	Items []T
	Pages int
}

func (c *client) conclude(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	if err := c.open(ctx, e.Scope); err != nil {
		return provider.Receipt{}, err
	}
	v, err := c.view(ctx, e.Scope, c.user(e.Scope))
	if err != nil {
		return provider.Receipt{}, err
	}
	id, err := c.addConclusion(ctx, v, e.Fact.Text)
	return provider.Receipt{ID: id}, err
}

// addConclusion stores a fact. It belongs to no session, so it stays when one is deleted.
func (c *client) addConclusion(ctx context.Context, v view, fact string) (id string, err error) {
	body := object{"conclusions": []object{{"content": factText(fact), "observer_id": v.observer, "observed_id": v.about}}}
	var got []conclusion
	if err := c.change(ctx, http.MethodPost, "/conclusions", body, &got); err != nil {
		return "", err
	}
	if len(got) == 0 || got[0].ID == "" {
		return "", &provider.Error{Class: provider.Garbage, Sent: true, Text: "Honcho has stored a fact and does not say under which ID"}
	}
	return got[0].ID, nil
}

func factText(fact string) string { return shorten.To(strings.TrimSpace(fact), maxConclusion-1) }

// find returns the IDs of the conclusions with an event's fact that were made after some
// time.
func (c *client) find(ctx context.Context, e provider.Event, after time.Time) (ids []string, err error) {
	v, err := c.view(ctx, e.Scope, c.user(e.Scope))
	if err != nil {
		return nil, err
	}
	filter := object{"observer_id": v.observer, "observed_id": v.about}
	if !after.IsZero() {
		filter["created_at"] = object{"gte": after.UTC().Format(time.RFC3339)}
	}
	err = c.conclusions(ctx, filter, func(k conclusion) {
		if k.Content == factText(e.Fact.Text) {
			ids = append(ids, k.ID)
		}
	})
	return ids, err
}

// conclusions calls f with the conclusions that fulfil a filter, newest first.
func (c *client) conclusions(ctx context.Context, filter object, f func(conclusion)) error {
	return each(ctx, c, "/conclusions/list", object{"filters": filter}, f)
}

// each calls f with the items of a list.
func each[T any](ctx context.Context, c *client, path string, body object, f func(T)) error {
	for n, pages := 1, 1; n <= min(pages, maxPages); n++ {
		var got page[T]
		query := url.Values{"size": {pageSize}, "page": {strconv.Itoa(n)}, "reverse": {"true"}}
		if err := c.ask(ctx, path, query, body, &got); provider.IsMissing(err) {
			return nil
		} else if err != nil {
			return err
		}
		for _, item := range got.Items {
			f(item)
		}
		if pages = got.Pages; len(got.Items) == 0 {
			break
		}
	}
	return nil
}

func (c *client) remove(ctx context.Context, e provider.Event) error {
	ids := []string{e.Fact.ID}
	if e.Fact.ID == "" {
		var err error
		if ids, err = c.find(ctx, e, time.Time{}); err != nil {
			return err
		}
	}
	return c.deleteConclusions(ctx, ids)
}

func (c *client) deleteConclusions(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := c.deleteConclusion(ctx, id); err != nil && !provider.IsMissing(err) {
			return err
		}
	}
	return nil
}

func (c *client) deleteConclusion(ctx context.Context, id string) error {
	return c.change(ctx, http.MethodDelete, "/conclusions/"+url.PathEscape(id), nil, nil)
}
