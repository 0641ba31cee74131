package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/memory"
	"hermesd/gateway/store"
)

// memoryQueue lists the events that wait for the external memory.
func (h *Handler) memoryQueue(r *http.Request) (any, error) {
	return memory.QueuedEvents(r.Context(), h.opts.Events)
}

// memoryEvent returns an event of the queue with its text.
func (h *Handler) memoryEvent(r *http.Request) (any, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, &Error{http.StatusBadRequest, err.Error()}
	}
	e, ok, err := memory.FindEvent(r.Context(), h.opts.Events, id)
	if err == nil && !ok {
		err = &Error{http.StatusNotFound, fmt.Sprintf("there is no event %d; `hermesd memory queue` lists them", id)}
	}
	return e, err
}

// eventIDs returns the numbers of events that the request names.
func eventIDs(r *http.Request) ([]uint64, error) {
	if err := r.ParseForm(); err != nil {
		return nil, &Error{http.StatusBadRequest, err.Error()}
	}
	var ids []uint64
	for _, s := range r.Form["id"] {
		id, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, &Error{http.StatusBadRequest, fmt.Sprintf("%q is no number of an event; `hermesd memory queue` lists them", s)}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// changeMemoryEvents returns the operation that calls do with the events of a request.
func (h *Handler) changeMemoryEvents(do func(s store.Events, ctx context.Context, queue string, ids ...uint64) (int, error)) operation {
	return func(r *http.Request) (any, error) {
		ids, err := eventIDs(r)
		if err != nil {
			return nil, err
		}
		n, err := do(h.opts.Events, r.Context(), memory.Queue, ids...)
		h.opts.Memory.Wake()
		return n, err
	}
}

// Forgotten is what comes of the request that a provider forgets a person.
type Forgotten struct {
	// Cannot says what the provider cannot delete; "" if it deletes everything.
	Cannot string `json:"cannot,omitempty"`
}

func (h *Handler) forgetPerson(r *http.Request) (any, error) {
	if !h.opts.Memory.On() {
		return nil, &Error{http.StatusConflict, "there is no external memory; `hermesd memory setup` configures one"}
	}
	err := h.opts.Memory.ForgetPerson(r.Context(), provider.Scope{Person: r.FormValue("person"), UserID: r.FormValue("id")})
	if errors.Is(err, memory.ErrWhichOwner) {
		err = &Error{http.StatusBadRequest, err.Error() + " (--id)"}
	}
	return Forgotten{h.opts.Memory.Cannot()}, err
}

// MemoryEvents returns the events that wait for the external memory.
func (c *Client) MemoryEvents(ctx context.Context) ([]memory.QueuedEvent, error) {
	return get[[]memory.QueuedEvent](ctx, c, "/memory/queue", nil)
}

// MemoryEvent returns an event that waits for the external memory, with its text.
func (c *Client) MemoryEvent(ctx context.Context, id uint64) (memory.EventText, error) {
	return get[memory.EventText](ctx, c, "/memory/queue/"+strconv.FormatUint(id, 10), nil)
}

// RetryMemoryEvents makes events due now, without ids all, and returns their number.
func (c *Client) RetryMemoryEvents(ctx context.Context, ids ...uint64) (int, error) {
	return post[int](ctx, c, "/memory/queue/retry", idValues(ids))
}

// DropMemoryEvents deletes events, without ids all, and returns their number.
func (c *Client) DropMemoryEvents(ctx context.Context, ids ...uint64) (int, error) {
	return post[int](ctx, c, "/memory/queue/drop", idValues(ids))
}

func idValues(ids []uint64) url.Values {
	v := url.Values{}
	for _, id := range ids {
		v.Add("id", strconv.FormatUint(id, 10))
	}
	return v
}

// ForgetPerson has the external memory delete what it knows of a person; "" is the owner,
// whose ID on a platform is id, "" if all of them are one person.
func (c *Client) ForgetPerson(ctx context.Context, person, id string) (Forgotten, error) {
	return post[Forgotten](ctx, c, "/memory/forget", url.Values{"person": {person}, "id": {id}})
}
