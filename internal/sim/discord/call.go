package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A call is one request that the server processes.
type call struct {
	s      *Server
	r      *http.Request
	ctx    context.Context // ends when the client disconnects or the server closes
	life   context.Context // ends when the server goes down
	bot    *Bot            // nil for routes without a bot token
	header http.Header     // of the answer
	body   []byte          // JSON of the request
	files  []upload
	rec    *Call
}

// A created is a result that is answered with 201.
type created struct{ result any }

// A rawFile is a result that is a file.
type rawFile struct{ file *File }

func (c *call) path(name string) string { return c.r.PathValue(name) }

func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// decode decodes the JSON body.
func (c *call) decode(into any) *apiError {
	if len(c.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		return refuse(http.StatusBadRequest, 50109, "The request body contains invalid JSON.")
	}
	return nil
}

// serve parses the request, applies faults, handles the call and answers it.
func (c *call) serve(w http.ResponseWriter, rt route) {
	broken := c.read()
	c.rec = &Call{Route: rt.name, Path: c.r.URL.Path, Channel: c.path("channel"), Body: string(c.body), At: time.Now()}
	for _, f := range c.files {
		c.rec.Files = append(c.rec.Files, f.name)
	}
	var peek struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(c.body, &peek) == nil {
		c.rec.Text = peek.Content
	}
	refused := c.admit(rt)
	if refused == nil {
		refused = broken
	}
	fault := c.s.faultFor(c.rec)
	c.rec.Fault = fault.Kind
	c.s.recorder.arrived(c.rec)
	if !rt.open && c.banned(w) {
		return
	}
	c.header = w.Header()
	half := c.s.opts.Latency / 2
	before := half + fault.Delay
	if fault.Kind == Slow {
		before = half
	}
	if !pause(c.life, before) || !pause(c.ctx, 0) {
		c.cut()
	}
	c.before(w, fault)
	if c.rec.Status != 0 {
		return
	}
	if refused == nil && rt.meter {
		refused = c.s.takeRate(c)
	}
	var result any
	if refused == nil {
		result, refused = rt.run(c)
	}
	c.s.recorder.note(func(*Counts) { c.rec.Handled = refused == nil })
	if !pause(c.ctx, half+fault.Late) {
		c.cut()
	}
	c.after(w, fault, result, refused)
}

// admit finds the bot and validates the headers.
func (c *call) admit(rt route) *apiError {
	if rt.open {
		return nil
	}
	if !strings.HasPrefix(c.r.UserAgent(), "DiscordBot (") {
		return refuse(http.StatusForbidden, 40333, "internal network error") // Cloudflare's answer to clients without a proper User-Agent
	}
	if v := c.path("version"); v != "v9" && v != "v10" {
		return refuse(http.StatusBadRequest, 50041, "Invalid API version specified")
	}
	if rt.token {
		return nil
	}
	token, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bot ")
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.bot = c.s.bots[token]; !ok || c.bot == nil {
		return unauthorized()
	}
	c.rec.Bot = c.bot.user.ID
	return nil
}

// pause waits for d and reports whether it did; false means that ctx ended
// first.
func pause(ctx context.Context, d time.Duration) bool {
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

const garbage = "<html><body><h1>It works!</h1>{\"id\":"

// before applies the faults that prevent a call from being handled.
func (c *call) before(w http.ResponseWriter, f Fault) {
	switch f.Kind {
	case Fail:
		c.refuse(w, f.refusal(), f.NoJSON)
	case Hang:
		c.hang()
	case Cut:
		c.cut()
	case Garbage:
		c.write(w, http.StatusOK, []byte(garbage), 0)
	}
}

// after writes the answer and applies the faults that change answers.
func (c *call) after(w http.ResponseWriter, f Fault, result any, refused *apiError) {
	switch f.Kind {
	case FailAfter:
		c.refuse(w, f.refusal(), f.NoJSON)
		return
	case HangAfter:
		c.hang()
	case CutAfter:
		c.cut()
	case GarbageAfter:
		c.write(w, http.StatusOK, []byte(garbage), 0)
		return
	}
	if refused != nil {
		c.refuse(w, refused, false)
		return
	}
	status := http.StatusOK
	var body []byte
	switch v := result.(type) {
	case nil:
		status = http.StatusNoContent
	case rawFile:
		w.Header().Set("Content-Type", v.file.Type)
		body = v.file.Data
	case created:
		status, body = http.StatusCreated, encode(v.result)
	default:
		body = encode(result)
	}
	switch f.Kind {
	case CutBody:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		c.cut()
	case Slow:
		c.write(w, status, body, f.Delay)
	default:
		c.write(w, status, body, 0)
	}
}

// refuse writes an error answer.
func (c *call) refuse(w http.ResponseWriter, e *apiError, page bool) {
	body := encode(e.body())
	if page {
		w.Header().Set("Content-Type", "text/html")
		body = fmt.Appendf(nil, "<html><head><title>%d %s</title></head></html>", e.status, http.StatusText(e.status))
	}
	if e.status == http.StatusTooManyRequests {
		tellLimit(w.Header(), e)
	}
	c.s.countInvalid(e)
	c.s.recorder.note(func(n *Counts) {
		n.Refused++
		c.rec.Error, c.rec.Code = e.message, e.code
	})
	c.write(w, e.status, body, 0)
}

// write sends the answer in twenty pieces that are spread over the given
// duration.
func (c *call) write(w http.ResponseWriter, status int, body []byte, over time.Duration) {
	if w.Header().Get("Content-Type") == "" && status != http.StatusNoContent {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	if status == http.StatusNoContent {
		c.finish(status, nil, true)
		return
	}
	if over <= 0 {
		_, err := w.Write(body)
		c.finish(status, err, true)
		return
	}
	const pieces = 20
	var err error
	for piece := range slices.Chunk(body, max(1, (len(body)+pieces-1)/pieces)) {
		if _, err = w.Write(piece); err != nil || !pause(c.ctx, over/pieces) {
			break
		}
		_ = http.NewResponseController(w).Flush()
	}
	c.finish(status, err, true)
}

func (c *call) finish(status int, err error, whole bool) {
	c.s.recorder.note(func(*Counts) {
		c.rec.Done, c.rec.Status = time.Now(), status
		c.rec.Answered = whole && err == nil && c.ctx.Err() == nil
	})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("discord: encode: %v", err))
	}
	return b
}
