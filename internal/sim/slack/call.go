package slack

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A call is one request that the server processes.
type call struct {
	s       *Server
	http    *http.Request
	host    string
	ctx     context.Context // ends when the client disconnects or the server closes
	life    context.Context // ends when the server goes down
	method  string
	rest    string // rest of the path
	req     *request
	refused *apiError
	app     *App // owner of the token
	bot     *Bot // nil: an app-level token
	rec     *Call
	made    string // ts of the message that was created or changed
	answer  *answer
}

// An answer is a result that is not a JSON object of the Web API.
type answer struct {
	status int
	kind   string // content type
	header [2]string
	body   []byte
}

func (c *call) str(name string) string { return c.req.values[name] }

func (c *call) bool(name string) bool {
	switch c.req.values[name] {
	case "true", "1":
		return true
	}
	return false
}

// serve parses the parameters, applies faults, handles the call and answers it.
func (c *call) serve(w http.ResponseWriter, r *http.Request) {
	c.host = c.s.host()
	c.req, c.refused = parseRequest(r, c.method == MethodUpload)
	c.record()
	fault := c.s.faultFor(c.rec)
	c.rec.Fault = fault.Kind
	c.s.recorder.arrived(c.rec)
	c.s.mu.Lock()
	half := c.s.latency / 2
	c.s.mu.Unlock()
	if !c.pause(c.life, half+fault.Delay) {
		c.cut()
	}
	switch fault.Kind {
	case Fail:
		c.refuse(w, fault.refusal())
		return
	case Hang:
		c.hang()
	case Cut:
		c.cut()
	case Garbage:
		c.write(w, http.StatusOK, "text/html", []byte(garbage))
		return
	}
	result, refused := c.handle()
	if !c.pause(c.ctx, half+fault.Late) {
		c.cut()
	}
	c.after(w, fault, result, refused)
}

// record creates the record of the call and finds the owner of the token.
func (c *call) record() {
	c.rec = &Call{Method: c.method, At: time.Now(), Params: c.req.values, Channel: c.str("channel")}
	if c.rec.Channel == "" {
		c.rec.Channel = c.str("channel_id")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.bot = c.s.tokens[c.req.token]; c.bot != nil {
		c.app, c.rec.Team = c.bot.app, c.bot.team.id
	}
	for _, a := range c.s.apps {
		if a.token == c.req.token {
			c.app = a
		}
	}
	if c.app != nil {
		c.rec.App = c.app.id
	}
}

// pause waits for d and reports whether it did; false means that ctx ended
// first.
func (c *call) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cut closes the connection without an answer.
func (c *call) cut() {
	c.finish(0, nil, false)
	panic(http.ErrAbortHandler)
}

// hang blocks until the client gives up.
func (c *call) hang() {
	<-c.ctx.Done()
	c.cut()
}

const garbage = "<html><body><h1>It works!</h1>{\"ok\":tru"

// handle executes the call unless it has already been refused.
func (c *call) handle() (obj, *apiError) {
	if c.refused != nil {
		return nil, c.refused
	}
	c.s.mu.Lock()
	result, refused := c.dispatchLocked()
	c.s.mu.Unlock()
	c.s.recorder.note(func(*Counts) {
		c.rec.Handled, c.rec.TS = refused == nil, c.made
	})
	return result, refused
}

// after writes the answer and applies the faults that change answers.
func (c *call) after(w http.ResponseWriter, f Fault, result obj, refused *apiError) {
	switch f.Kind {
	case FailAfter:
		c.refuse(w, f.refusal())
		return
	case HangAfter:
		c.hang()
	case CutAfter:
		c.cut()
	case GarbageAfter:
		c.write(w, http.StatusOK, "text/html", []byte(garbage))
		return
	}
	if refused != nil {
		c.refuse(w, refused)
		return
	}
	if a := c.answer; a != nil {
		if a.header[0] != "" {
			w.Header().Set(a.header[0], a.header[1])
		}
		c.write(w, a.status, a.kind, a.body)
		return
	}
	body := c.envelope(result)
	if f.Kind == CutBody {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		c.cut()
	}
	c.write(w, http.StatusOK, jsonType, body)
}

const jsonType = "application/json; charset=utf-8"

// envelope adds ok and the warnings to a result and encodes it.
func (c *call) envelope(result obj) []byte {
	if result == nil {
		result = obj{}
	}
	result["ok"] = true
	if len(c.req.warnings) > 0 {
		result["warning"] = strings.Join(c.req.warnings, ",")
		meta, _ := result["response_metadata"].(obj)
		if meta == nil {
			meta = obj{}
		}
		meta["warnings"] = c.req.warnings
		result["response_metadata"] = meta
	}
	return encode(result)
}

// refuse writes an error answer.
func (c *call) refuse(w http.ResponseWriter, e *apiError) {
	c.s.recorder.note(func(n *Counts) {
		n.Refused++
		if e.retryAfter > 0 {
			n.Limited++
		}
		c.rec.Error = e.code
	})
	if e.html {
		c.write(w, e.httpStatus(), "text/html", fmt.Appendf(nil, "<html><head><title>%d %s</title></head></html>", e.status, e.code))
		return
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	body := obj{"ok": false, "error": e.code}
	if e.needed != "" {
		body["needed"], body["provided"] = e.needed, e.provided
	}
	if e.code == "unknown_method" {
		body["req_method"] = c.method
	}
	meta := obj{}
	if len(e.messages) > 0 {
		meta["messages"] = e.messages
	}
	if len(c.req.warnings) > 0 {
		body["warning"], meta["warnings"] = strings.Join(c.req.warnings, ","), c.req.warnings
	}
	if len(meta) > 0 {
		body["response_metadata"] = meta
	}
	c.write(w, e.httpStatus(), jsonType, encode(body))
}

func (c *call) write(w http.ResponseWriter, status int, kind string, body []byte) {
	if c.bot != nil {
		w.Header().Set("X-OAuth-Scopes", strings.Join(c.scopes(), ","))
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, err := w.Write(body)
	c.finish(status, err, true)
}

func (c *call) scopes() []string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.bot.scopes
}

func (c *call) finish(status int, err error, whole bool) {
	c.s.recorder.note(func(*Counts) {
		c.rec.Done, c.rec.Status = time.Now(), status
		c.rec.Answered = whole && err == nil && c.ctx.Err() == nil
	})
}
