package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
)

// An exchange is one message of a client and its answer. Several requests may
// wait for one exchange: those with the same Idempotency-Key.
type exchange struct {
	id      string   // Inbound.ID
	session string   // name of the conversation
	keyed   bool     // the client sent the key and can repeat the request
	command bool     // a slash command, which does not wait for a turn
	print   [32]byte // digest of the request
	created time.Time

	// The fields below are guarded by Adapter.mu.
	listeners int
	cancel    context.CancelFunc // ends the exchange's goroutine
	ask       *openaiapi.Request // the request; nil once it is accepted
	offered   bool               // it may be on disk
	accepted  bool               // it is on disk
	text      string             // the partial answer so far
	notices   []string
	over      *result
	written   bool          // a client has received the result
	change    chan struct{} // closed and replaced whenever one of these fields changes
	settled   chan struct{} // closed once the result was written or no request waits for it
}

type result struct {
	text  string
	usage *chat.Usage
	err   *openaiapi.Failure
	said  bool // set by the gateway, not by the adapter itself
}

// The prefixes of exchange IDs. An exchange of the first kind can be requested
// again.
const (
	withKey = "k"
	noKey   = "r"
)

// newExchange creates the exchange of a request. key is the client's own, or "".
func newExchange(r *openaiapi.Request, session, key string) *exchange {
	e := &exchange{
		session: session, keyed: key != "", command: command(r.Text), ask: r, created: time.Now(),
		change: make(chan struct{}), settled: make(chan struct{}),
	}
	e.print = sha256.Sum256(openaiapi.Encode([]any{r.Model, r.Prompt, r.Text, r.Images}))
	if e.keyed {
		sum := sha256.Sum256([]byte(session + "\x00" + key))
		e.id = withKey + hex.EncodeToString(sum[:16])
		return e
	}
	var b [16]byte
	rand.Read(b[:])
	e.id = noKey + hex.EncodeToString(b[:])
	return e
}

// command reports whether text is a slash command. A path such as /path/like is
// not.
func command(text string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	word, _, _ = strings.Cut(word, "\n")
	return len(word) > 1 && word[0] == '/' && !strings.ContainsFunc(word[1:], func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-'
	})
}

func (e *exchange) inboundKey() string { return "request:" + e.id }

func (e *exchange) changedLocked() {
	close(e.change)
	e.change = make(chan struct{})
}

// endLocked sets the result of the exchange, unless it has one.
func (e *exchange) endLocked(v result) {
	if e.over != nil {
		return
	}
	e.over, e.text = &v, ""
	if e.listeners == 0 {
		e.settleLocked()
	}
	e.changedLocked()
}

func (e *exchange) settleLocked() {
	select {
	case <-e.settled:
	default:
		close(e.settled)
	}
}

// join adds a request to the exchange with e's ID, or to e itself if it is new.
// The caller must call disconnect.
func (a *Adapter) join(e *exchange) (*exchange, *openaiapi.Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.base == nil {
		return nil, stopping(false)
	}
	if old, ok := a.exchanges[e.id]; ok {
		if old.print != e.print {
			return nil, &openaiapi.Failure{Status: http.StatusUnprocessableEntity, Kind: openaiapi.Invalid, Code: "idempotency_key_reused",
				Text: "This Idempotency-Key was used for another request of the session. Use a new one for a new message."}
		}
		e = old
	} else {
		a.exchanges[e.id] = e
		if e.keyed {
			a.kept = append(a.kept, e.id)
			a.forgetLocked()
		}
	}
	e.listeners++
	if e.listeners == 1 && e.over == nil {
		ctx, cancel := context.WithCancel(a.base)
		e.cancel = cancel
		a.running.Go(func() { a.runExchange(ctx, e) }) // Run waits for it
	}
	return e, nil
}

// disconnect removes a request from its exchange. When the last one disconnects, an
// exchange that cannot be requested again is dropped.
func (a *Adapter) disconnect(e *exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.listeners--
	if e.listeners > 0 {
		return
	}
	if e.cancel != nil {
		e.cancel()
		e.cancel = nil
	}
	if !e.keyed || !e.offered {
		a.dropLocked(e)
	}
	if e.over != nil {
		e.settleLocked()
	}
	e.changedLocked()
}

func (a *Adapter) dropLocked(e *exchange) {
	if a.exchanges[e.id] == e {
		delete(a.exchanges, e.id)
		a.kept = slices.DeleteFunc(a.kept, func(id string) bool { return id == e.id })
	}
}

// forgetLocked removes the oldest exchanges without a waiting request.
func (a *Adapter) forgetLocked() {
	for i := 0; len(a.kept) > maxKept && i < len(a.kept); {
		if id := a.kept[i]; a.exchanges[id] != nil && a.exchanges[id].listeners > 0 || i == len(a.kept)-1 {
			i++
			continue
		}
		delete(a.exchanges, a.kept[i])
		a.kept = slices.Delete(a.kept, i, i+1)
	}
}

// wrote records that a client has received the result v of e.
func (a *Adapter) wrote(e *exchange, v *result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.over != v { // the gateway has set another result in the meantime
		return
	}
	e.written = true
	e.settleLocked()
	if _, ok := a.had[e.id]; ok || v.err != nil && !v.said {
		return // the adapter's own result is not the gateway's
	}
	a.had[e.id] = struct{}{}
	a.hadOrder = append(a.hadOrder, e.id)
	if len(a.hadOrder) > maxHad {
		delete(a.had, a.hadOrder[0])
		a.hadOrder = a.hadOrder[1:]
	}
}

// A state is a snapshot of an exchange for a waiting request.
type state struct {
	text    string
	notices []string
	over    *result
	change  <-chan struct{}
}

func (a *Adapter) look(e *exchange) state {
	a.mu.Lock()
	defer a.mu.Unlock()
	return state{e.text, e.notices, e.over, e.change}
}

// failed returns the failure of a turn that ended without an answer.
func failed(text string) *openaiapi.Failure {
	return &openaiapi.Failure{Status: http.StatusBadGateway, Kind: openaiapi.Broken, Code: "turn_failed", Text: text, Final: true}
}

// ended returns the failure of a turn that ended without any message.
func ended(why string) *openaiapi.Failure {
	return &openaiapi.Failure{Status: http.StatusConflict, Kind: openaiapi.Broken, Code: "no_answer", Text: "There is no answer to this message: " + why + ".", Final: true}
}

// stopping returns the failure of requests that wait when the daemon stops.
func stopping(accepted bool) *openaiapi.Failure {
	f := &openaiapi.Failure{Status: http.StatusServiceUnavailable, Kind: openaiapi.Broken, Code: "stopping", Text: "The daemon stops. Send the request again when it is back.", After: 5 * time.Second}
	if accepted {
		f.Text = "The daemon stops. The message is stored and will be answered when it is back; with the same Idempotency-Key you get that answer."
		f.Final = true
	}
	return f
}

// maybeStored returns the failure of a message of which it is not known whether it was
// accepted.
func maybeStored() *openaiapi.Failure {
	return &openaiapi.Failure{
		Status: http.StatusServiceUnavailable, Kind: openaiapi.Broken, Code: "outcome_unknown", After: 5 * time.Second, Final: true,
		Text: "The daemon restarts, and it is not known whether the message was stored. With the same Idempotency-Key it is taken once; without one it may be answered twice if you send it again.",
	}
}

// notStored returns the failure of a message that was not accepted.
func notStored() *openaiapi.Failure {
	return &openaiapi.Failure{
		Status: http.StatusServiceUnavailable, Kind: openaiapi.Broken, Code: "not_stored", After: 2 * time.Second,
		Text: "The message could not be stored, so it was not taken. Send it again in a moment; if it stays, the operator finds the reason in the log.",
	}
}
