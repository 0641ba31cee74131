package hindsight

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/lazyregexp"
)

// An item is one text of a retain.
type item struct {
	Content   string            `json:"content"`
	Timestamp string            `json:"timestamp,omitempty"`
	Context   string            `json:"context,omitempty"`
	Metadata  map[string]string `json:"metadata"` // the API refuses other values than strings
	Document  string            `json:"document_id,omitempty"`
	Mode      string            `json:"update_mode,omitempty"`
	Tags      []string          `json:"tags,omitempty"`
	Scopes    any               `json:"observation_scopes,omitempty"`
}

// item returns an item with what all have in common.
func (c *client) item(s provider.Scope, content string, at time.Time, messages int) item {
	it := item{Content: content, Timestamp: at.Format(time.RFC3339), Tags: slices.Clone(c.retainTags), Scopes: c.scopes, Metadata: map[string]string{
		"retained_at": at.UTC().Format("2006-01-02T15:04:05.000Z"), "message_count": strconv.Itoa(messages), "agent_identity": c.profile,
	}}
	for key, value := range map[string]string{"source": c.source, "session_id": s.Session, "platform": s.Platform, "user_id": s.UserID, "chat_id": s.Chat} {
		if value != "" {
			it.Metadata[key] = value
		}
	}
	return it
}

// retain stores an item. operation is the ID of the operation if it is not ""; the
// answer's is returned, which is "" if the server has finished.
func (c *client) retain(ctx context.Context, s provider.Scope, it item, async bool, operation string) (string, error) {
	body := map[string]any{"items": []item{it}, "async": async}
	if operation != "" {
		body["operation_id"] = operation
	}
	var out struct {
		Operation  string   `json:"operation_id"`
		Operations []string `json:"operation_ids"`
	}
	err := c.rest.Do(ctx, rest.Call{Method: "POST", Path: c.bank(s) + "/memories", Body: body, Timeout: c.write()}, &out)
	if err != nil || !async {
		return "", err
	}
	if out.Operation == "" && len(out.Operations) > 0 {
		out.Operation = out.Operations[0]
	}
	return out.Operation, nil
}

// Sync implements provider.Provider. Where the server knows operation_id, a turn is
// appended to the document of its conversation by the operation of its event, once. On
// other servers each turn is a document, which a repetition replaces. So is a fact.
func (c *client) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	switch e.Kind {
	case provider.Turn:
		content, n := c.turn(e)
		if n == 0 || !c.retains {
			return provider.Receipt{}, nil
		}
		return c.syncTurn(ctx, e, c.item(e.Scope, content, e.At, n))
	case provider.Added:
		it := c.item(e.Scope, e.Fact.Text, e.At, 1)
		it.Document, it.Context = factDocument(e.Fact), "note of the agent"
		if e.Fact.Target == "user" {
			it.Context = "profile of the user"
		}
		// Not asynchronous: a removal that follows at once must find the document.
		_, err := c.retain(ctx, e.Scope, it, false, "")
		return provider.Receipt{ID: c.bankName(e.Scope) + "/" + it.Document}, err
	case provider.Removed:
		return provider.Receipt{}, c.remove(ctx, c.factPath(e))
	case provider.Forget:
		return provider.Receipt{}, c.forget(ctx, e.Scope)
	}
	return provider.Receipt{}, nil
}

// turn returns the content of a turn's event and the number of its messages: a list with
// one list of messages, as upstream writes it.
func (c *client) turn(e provider.Event) (string, int) {
	type message struct {
		Role      string `json:"role"`
		Content   string `json:"content"`
		Timestamp string `json:"timestamp"`
	}
	var messages []message
	for _, m := range e.Messages {
		prefix := c.user
		if m.Role == "assistant" {
			prefix = c.assistant
		}
		at := m.At
		if at.IsZero() {
			at = e.At
		}
		if strings.TrimSpace(m.Text) != "" {
			messages = append(messages, message{m.Role, prefix + ": " + m.Text, at.Format(time.RFC3339)})
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode([][]message{messages}) // texts only
	return strings.TrimSpace(b.String()), len(messages)
}

// appends reports whether a turn is appended to the document of its conversation.
func (c *client) appends(ctx context.Context, s provider.Scope) (bool, error) {
	if !c.async || s.Session == "" {
		return false, nil
	}
	return c.repeats(ctx)
}

func (c *client) syncTurn(ctx context.Context, e provider.Event, it item) (provider.Receipt, error) {
	appends, err := c.appends(ctx, e.Scope)
	if err != nil {
		return provider.Receipt{}, err
	}
	it.Context = c.context
	if e.Scope.Session != "" && !slices.Contains(it.Tags, "session:"+e.Scope.Session) {
		it.Tags = append(it.Tags, "session:"+e.Scope.Session)
	}
	operation := ""
	if appends {
		it.Document, it.Mode, operation = e.Scope.Session, "append", e.Key
	} else {
		it.Document = turnDocument(e)
	}
	id, err := c.retain(ctx, e.Scope, it, c.async, operation)
	if err != nil || id == "" {
		return provider.Receipt{}, err
	}
	if !appends {
		return provider.Receipt{ID: id, Pending: true}, nil
	}
	// The operation may be one that has failed before: then the retain has done nothing.
	switch status, err := c.status(ctx, e.Scope, id); {
	case err != nil:
	case status == "completed":
		return provider.Receipt{ID: id}, nil
	case status == "failed" || status == "cancelled":
		err := c.rest.Do(ctx, rest.Call{Method: "POST", Path: c.bank(e.Scope) + "/operations/" + escape(id) + "/retry", Timeout: c.write()}, nil)
		return provider.Receipt{ID: id, Pending: true}, err
	}
	return provider.Receipt{ID: id, Pending: true}, nil
}

// turnDocument returns the ID of the document of one turn.
func turnDocument(e provider.Event) string {
	if e.Scope.Session == "" {
		return e.Key
	}
	return e.Scope.Session + "-" + e.Key
}

// factDocument returns the ID of the document of a fact. The same fact has the same one.
func factDocument(f provider.Fact) string {
	sum := sha256.Sum256([]byte(f.Text))
	return "hermes-" + f.Target + "-" + hex.EncodeToString(sum[:8])
}

// status returns the state of an operation; "not_found" if the server does not know it.
func (c *client) status(ctx context.Context, s provider.Scope, id string) (string, error) {
	var out struct {
		Status string `json:"status"`
	}
	err := c.get(ctx, c.bank(s)+"/operations/"+escape(id), nil, &out)
	if provider.IsMissing(err) {
		return "not_found", nil
	}
	return out.Status, err
}

// Synced implements provider.Provider.
func (c *client) Synced(ctx context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	switch e.Kind {
	case provider.Turn:
		if _, n := c.turn(e); n > 0 && c.retains {
			return c.turnSynced(ctx, e, r)
		}
		return true, nil
	case provider.Added:
		return c.has(ctx, c.documentPath(e.Scope, factDocument(e.Fact)))
	case provider.Removed:
		has, err := c.has(ctx, c.factPath(e))
		return !has && err == nil, err
	case provider.Forget:
		return false, provider.ErrUnknown // it can be repeated
	}
	return true, nil
}

func (c *client) turnSynced(ctx context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	operation := r.ID
	if operation == "" {
		appends, err := c.appends(ctx, e.Scope)
		if err != nil {
			return false, err
		}
		if !appends {
			return c.has(ctx, c.documentPath(e.Scope, turnDocument(e)))
		}
		operation = e.Key
	}
	status, err := c.status(ctx, e.Scope, operation)
	switch {
	case err != nil:
		return false, err
	case status == "failed" || status == "cancelled":
		return false, provider.ErrFailed
	case status == "not_found":
		return r.ID != "", nil // the server forgets completed operations
	}
	return status == "completed", nil
}

// documentPath returns the path of a document in the bank of a scope.
func (c *client) documentPath(s provider.Scope, id string) string {
	return c.bank(s) + "/documents/" + escape(id)
}

// factPath returns the path of the document of a fact that was added before. Its ID names
// the bank, which may be that of another conversation.
func (c *client) factPath(e provider.Event) string {
	i := strings.LastIndex(e.Fact.ID, "/")
	if i < 0 {
		return c.documentPath(e.Scope, cmp.Or(e.Fact.ID, factDocument(e.Fact)))
	}
	return banks + escape(e.Fact.ID[:i]) + "/documents/" + escape(e.Fact.ID[i+1:])
}

// has reports whether there is a document.
func (c *client) has(ctx context.Context, path string) (bool, error) {
	err := c.get(ctx, path, nil, &struct{}{})
	if provider.IsMissing(err) {
		return false, nil
	}
	return err == nil, err
}

// remove deletes what has a path. What does not exist is deleted.
func (c *client) remove(ctx context.Context, path string) error {
	err := c.rest.Do(ctx, rest.Call{Method: "DELETE", Path: path, Timeout: c.write()}, nil)
	if provider.IsMissing(err) {
		return nil
	}
	return err
}

const (
	pageSize = 100
	maxPages = 100 // of the list of documents
)

// ofTurn matches what follows the ID of the conversation in the ID of a turn's document:
// the key of an event, or upstream's time of a start.
var ofTurn = lazyregexp.New(`^-([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{8}_\d{6}_\d{6})$`)

// forget deletes the documents of a conversation, or the bank of a person.
func (c *client) forget(ctx context.Context, s provider.Scope) error {
	if s.Session == "" {
		return c.remove(ctx, c.bank(s))
	}
	ids := []string{s.Session}
	for page := range maxPages {
		var out struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}
		query := url.Values{"q": {s.Session}, "limit": {strconv.Itoa(pageSize)}, "offset": {strconv.Itoa(page * pageSize)}}
		if err := c.get(ctx, c.bank(s)+"/documents", query, &out); provider.IsMissing(err) {
			break // no bank
		} else if err != nil {
			return err
		}
		for _, d := range out.Items {
			if rest, ok := strings.CutPrefix(d.ID, s.Session); ok && ofTurn().MatchString(rest) {
				ids = append(ids, d.ID)
			}
		}
		if len(out.Items) < pageSize {
			break
		}
	}
	for _, id := range ids {
		if err := c.remove(ctx, c.documentPath(s, id)); err != nil {
			return err
		}
	}
	return nil
}
