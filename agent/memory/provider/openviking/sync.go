package openviking

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
)

// maxBatch is the largest number of messages of a call.
const maxBatch = 100

// A message is a message of a session.
type message struct {
	Role    string `json:"role"`
	Peer    string `json:"peer_id,omitempty"`
	Content string `json:"content,omitempty"` // or Parts
	Parts   []part `json:"parts,omitempty"`
	Created string `json:"created_at"`
}

// A part is a text, or a call of a tool with its result.
type part struct {
	Type   string          `json:"type"`
	Text   string          `json:"text,omitempty"`
	ID     string          `json:"tool_id,omitempty"`
	Name   string          `json:"tool_name,omitempty"`
	Input  json.RawMessage `json:"tool_input,omitempty"`
	Output string          `json:"tool_output,omitempty"`
	Status string          `json:"tool_status,omitempty"`
}

func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	s := e.Scope
	if err := c.own(ctx, s.Person); err != nil {
		return provider.Receipt{}, err
	}
	switch e.Kind {
	case provider.Turn:
		return provider.Receipt{}, c.add(ctx, s, c.messages(e))
	case provider.Added:
		uri := c.factURI(e.Fact)
		return provider.Receipt{ID: uri}, c.write(ctx, s.Person, uri, e.Fact.Text)
	case provider.Removed:
		return provider.Receipt{}, c.remove(ctx, s.Person, c.factURI(e.Fact), false)
	case provider.Checkpoint, provider.End:
		return c.commit(ctx, s)
	case provider.Forget:
		return provider.Receipt{}, c.forget(ctx, s)
	}
	return provider.Receipt{}, &provider.Error{Class: provider.Refused, Text: label + ": unknown event " + string(e.Kind)}
}

// messages returns the messages of an event as they are stored. The time of a message,
// in milliseconds, is how it is found again.
func (c *client) messages(e provider.Event) []message {
	var out []message
	tools := parts(e.Tools)
	said := e.Messages
	if last := len(said) - 1; len(tools) > 0 && (last < 0 || said[last].Role != "assistant") {
		said = append(slices.Clip(said), provider.Message{Role: "assistant"})
	}
	for _, m := range said {
		if m.Role == "assistant" && len(tools) > 0 { // what it has done stands before what it says
			if strings.TrimSpace(m.Text) != "" {
				tools = append(tools, part{Type: "text", Text: m.Text})
			}
			out = append(out, message{Role: m.Role, Peer: c.peer, Parts: tools, Created: created(e, m)})
			tools = nil
			continue
		}
		if strings.TrimSpace(m.Text) == "" {
			continue // refused otherwise
		}
		v := message{Role: m.Role, Content: m.Text, Created: created(e, m)}
		if m.Role == "assistant" {
			v.Peer = c.peer
		}
		out = append(out, v)
	}
	return out
}

func created(e provider.Event, m provider.Message) string {
	at := m.At
	if at.IsZero() {
		at = e.At
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// parts returns calls of tools as upstream sends them.
func parts(uses []provider.ToolUse) (list []part) {
	for _, u := range uses {
		p := part{Type: "tool", ID: u.ID, Name: u.Name, Input: json.RawMessage(u.Input), Output: u.Output, Status: "completed"}
		if u.Failed {
			p.Status = "error"
		}
		if object := map[string]any(nil); json.Unmarshal(p.Input, &object) != nil || object == nil { // it was cut
			p.Input = json.RawMessage(encode(map[string]string{"input": u.Input}))
		}
		list = append(list, p)
	}
	return list
}

func (c *client) add(ctx context.Context, s provider.Scope, messages []message) error {
	for batch := range slices.Chunk(messages, maxBatch) {
		call := rest.Call{Method: "POST", Path: sessionPath(s.Session, "/messages/batch"), Body: map[string]any{"messages": batch}, Timeout: rest.WriteTimeout}
		if err := c.do(ctx, s.Person, call, nil); err != nil {
			return err
		}
	}
	return nil
}

// commit makes memories of the messages of a conversation.
func (c *client) commit(ctx context.Context, s provider.Scope) (provider.Receipt, error) {
	var out struct {
		Task string `json:"task_id"`
	}
	call := rest.Call{Method: "POST", Path: sessionPath(s.Session, "/commit"), Body: map[string]int{"keep_recent_count": 0}, Timeout: rest.WriteTimeout}
	err := c.do(ctx, s.Person, call, &out)
	if provider.IsMissing(err) {
		return provider.Receipt{}, nil // nothing was said in it
	}
	return provider.Receipt{ID: out.Task, Pending: out.Task != ""}, err
}

// factURI returns the URI of a fact of the built-in memory. It depends only on the text,
// so that a fact that is written twice is one file.
func (c *client) factURI(f provider.Fact) string {
	switch {
	case strings.HasPrefix(f.ID, "viking://"):
		return f.ID
	case f.Target == "user":
		return c.memoryURI("preferences", f.Text)
	}
	return c.memoryURI("patterns", f.Text)
}

func (c *client) memoryURI(directory, text string) string {
	sum := sha256.Sum256([]byte(text))
	return "viking://user/peers/" + url.PathEscape(c.peer) + "/memories/" + directory + "/mem_" + hex.EncodeToString(sum[:6]) + ".md"
}

// write stores a file, unless it exists.
func (c *client) write(ctx context.Context, person, uri, text string) error {
	body := map[string]any{"uri": uri, "content": text, "mode": "create", "wait": false}
	err := c.do(ctx, person, rest.Call{Method: "POST", Path: "/api/v1/content/write", Body: body, Timeout: rest.WriteTimeout}, nil)
	if provider.StatusOf(err) == http.StatusConflict {
		return nil
	}
	return err
}

// remove deletes a file, or a directory, if it exists.
func (c *client) remove(ctx context.Context, person, uri string, recursive bool) error {
	q := uriQuery(uri)
	if recursive {
		q.Set("recursive", "true")
	}
	return except(c.do(ctx, person, rest.Call{Method: "DELETE", Path: "/api/v1/fs", Query: q, Timeout: rest.WriteTimeout}, nil))
}

func (c *client) forget(ctx context.Context, s provider.Scope) error {
	if s.Session != "" {
		return except(c.do(ctx, s.Person, rest.Call{Method: "DELETE", Path: sessionPath(s.Session, ""), Timeout: rest.WriteTimeout}, nil))
	}
	root, err := c.root(ctx, s.Person)
	if err != nil {
		return err
	}
	// The server knows the user's own directories under short names too.
	for _, uri := range []string{root, "viking://user/memories", "viking://user/peers"} {
		if err := c.remove(ctx, s.Person, uri, true); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) Synced(ctx context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	s := e.Scope
	if err := c.own(ctx, s.Person); err != nil {
		return false, err
	}
	switch {
	case e.Kind == provider.Turn:
		return c.added(ctx, e)
	case e.Kind == provider.Added || e.Kind == provider.Removed:
		err := c.do(ctx, s.Person, rest.Call{Method: "GET", Path: "/api/v1/fs/stat", Query: uriQuery(c.factURI(e.Fact)), Reads: true}, nil)
		return provider.IsMissing(err) == (e.Kind == provider.Removed), except(err)
	case (e.Kind == provider.Checkpoint || e.Kind == provider.End) && r.ID != "":
		return c.done(ctx, s.Person, r.ID)
	case e.Kind == provider.Checkpoint || e.Kind == provider.End:
		v, err := c.describe(ctx, s)
		return provider.IsMissing(err) || err == nil && v.Live == 0, except(err)
	case e.Kind == provider.Forget && s.Session != "":
		_, err := c.describe(ctx, s)
		return provider.IsMissing(err), except(err)
	}
	return false, provider.ErrUnknown
}

// done reports whether the task of a commit is completed.
func (c *client) done(ctx context.Context, person, task string) (bool, error) {
	var out struct {
		Status string `json:"status"`
	}
	err := c.do(ctx, person, rest.Call{Method: "GET", Path: "/api/v1/tasks/" + url.PathEscape(task), Reads: true}, &out)
	switch {
	case provider.IsMissing(err):
		return false, provider.ErrUnknown // the server forgets its tasks
	case out.Status == "failed" || out.Status == "cancelled":
		return false, provider.ErrFailed
	}
	return out.Status == "completed", err
}

// A description is the state of a session.
type description struct {
	Live      int    `json:"message_count"`
	Total     *int   `json:"total_message_count"` // nil for old sessions
	Commits   int    `json:"commit_count"`
	Committed string `json:"last_commit_at"`
}

func (c *client) describe(ctx context.Context, s provider.Scope) (description, error) {
	var v description
	return v, c.do(ctx, s.Person, rest.Call{Method: "GET", Path: sessionPath(s.Session, ""), Reads: true}, &v)
}

// added reports whether the messages of an event are in its session. If they are not
// among the live messages, they can only be among those that a later commit has archived,
// which cannot be read.
func (c *client) added(ctx context.Context, e provider.Event) (bool, error) {
	messages := c.messages(e)
	if len(messages) == 0 {
		return true, nil
	}
	var live struct {
		Messages []message `json:"messages"`
	}
	err := c.do(ctx, e.Scope.Person, rest.Call{Method: "GET", Path: sessionPath(e.Scope.Session, "/context"), Reads: true}, &live)
	if err != nil {
		return false, except(err)
	}
	if !slices.ContainsFunc(messages, func(m message) bool { return !slices.ContainsFunc(live.Messages, m.same) }) {
		return true, nil
	}
	v, err := c.describe(ctx, e.Scope)
	if err != nil {
		return false, except(err)
	}
	last, ok := parseTime(v.Committed)
	if v.Commits == 0 || v.Total != nil && *v.Total == v.Live || ok && last.Before(e.At) {
		return false, nil
	}
	return false, provider.ErrUnknown
}

// same reports whether a live message is m.
func (m message) same(live message) bool {
	a, ok := parseTime(m.Created)
	b, alsoOK := parseTime(live.Created)
	return ok && alsoOK && m.Role == live.Role && a.Equal(b.Truncate(time.Millisecond))
}

// parseTime parses a time with or without a zone; without, it is UTC.
func parseTime(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
