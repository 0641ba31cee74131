package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A call is one request that the server processes.
type call struct {
	s       *Server
	bot     *Bot
	ctx     context.Context // ends when the client disconnects or the server closes
	life    context.Context // ends when the server goes down
	method  string
	path    string // file path of a download
	req     *request
	refused *apiError
	rec     *Call
	made    int // ID of the message that was created or changed
}

// A rawResult is a result that is already encoded; it may be invalid JSON.
type rawResult []byte

// A described is a result with a description.
type described struct {
	result any
	remark string
}

// A fileResult is the content of a file.
type fileResult struct{ media *Media }

func (c *call) str(name string) string { return c.req.values[name] }

func (c *call) int(name string, otherwise int) int {
	n, err := strconv.Atoi(c.req.values[name])
	if err != nil {
		return otherwise
	}
	return n
}

func (c *call) bool(name string) bool {
	switch c.req.values[name] {
	case "true", "True", "1", "yes", "Yes":
		return true
	}
	return false
}

// serve parses the parameters, applies faults, handles the call and answers it.
func (c *call) serve(w http.ResponseWriter, r *http.Request) {
	req, broken := parseRequest(r)
	c.req = req
	if c.refused == nil {
		c.refused = broken
	}
	c.record()
	fault := c.s.faultFor(c.rec)
	c.rec.Fault = fault.Kind
	c.s.recorder.arrived(c.rec)
	c.s.mu.Lock()
	half := c.s.latency / 2
	c.s.mu.Unlock()
	before := half + fault.Delay
	if fault.Kind == Slow {
		before = half
	}
	if !c.pause(c.life, before) {
		c.cut()
	}
	c.before(w, fault)
	if c.rec.Status != 0 {
		return
	}
	result, refused := c.handle()
	if refused != nil && !c.pause(c.ctx, refused.delay) {
		c.cut()
	}
	if !c.pause(c.ctx, half+fault.Late) {
		c.cut()
	}
	c.after(w, fault, result, refused)
}

func (c *call) record() {
	c.rec = &Call{Method: c.method, At: time.Now()}
	if c.bot != nil {
		c.rec.Bot = c.bot.ID()
	}
	c.rec.Chat, _ = strconv.ParseInt(c.req.values["chat_id"], 10, 64)
	c.rec.Params = c.req.values
	if len(c.req.files) > 0 {
		c.rec.Files = slices.Sorted(maps.Keys(c.req.files))
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

// before applies the faults that prevent a call from being handled.
func (c *call) before(w http.ResponseWriter, f Fault) {
	switch f.Kind {
	case Fail:
		c.refuse(w, f)
	case Hang:
		c.hang()
	case Cut:
		c.cut()
	case Garbage:
		c.write(w, http.StatusOK, []byte(garbage), 0)
	}
}

const garbage = "<html><body><h1>It works!</h1>{\"ok\":tru"

// handle executes the call unless it has already been refused.
func (c *call) handle() (any, *apiError) {
	if c.refused != nil {
		return nil, c.refused
	}
	result, refused := c.dispatch()
	c.s.recorder.update(func(*Counts) {
		c.rec.Handled = refused == nil
		c.rec.Message = c.made
		if refused != nil {
			c.rec.Error = refused.description
		}
	})
	return result, refused
}

// after writes the answer and applies the faults that change answers.
func (c *call) after(w http.ResponseWriter, f Fault, result any, refused *apiError) {
	switch f.Kind {
	case FailAfter:
		c.refuse(w, f)
		return
	case HangAfter:
		c.hang()
	case CutAfter:
		c.cut()
	case GarbageAfter:
		c.write(w, http.StatusOK, []byte(garbage), 0)
		return
	}
	if file, ok := result.(fileResult); ok && refused == nil {
		c.writeFile(w, file.media)
		return
	}
	status, body := encodeAnswer(result, refused)
	if refused != nil {
		c.s.recorder.update(func(n *Counts) {
			n.Refused++
			c.rec.Error = refused.description
		})
		if refused.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(refused.retryAfter))
		}
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

// refuse writes the error answer that a fault demands.
func (c *call) refuse(w http.ResponseWriter, f Fault) {
	e := f.refusal()
	status, body := encodeAnswer(nil, e)
	if f.NoJSON {
		w.Header().Set("Content-Type", "text/html")
		body = fmt.Appendf(nil, "<html><head><title>%d %s</title></head></html>", status, http.StatusText(status))
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	c.s.recorder.update(func(n *Counts) {
		n.Refused++
		c.rec.Error = e.description
	})
	c.write(w, status, body, 0)
}

// write sends the answer in twenty pieces that are spread over the given
// duration.
func (c *call) write(w http.ResponseWriter, status int, body []byte, over time.Duration) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	var err error
	if over <= 0 {
		_, err = w.Write(body)
		c.finish(status, err, true)
		return
	}
	const pieces = 20
	size := max(1, (len(body)+pieces-1)/pieces)
	for piece := range slices.Chunk(body, size) {
		if _, err = w.Write(piece); err != nil || !c.pause(c.ctx, over/pieces) {
			break
		}
		_ = http.NewResponseController(w).Flush()
	}
	c.finish(status, err, true)
}

func (c *call) writeFile(w http.ResponseWriter, m *Media) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if !m.Unsaid {
		w.Header().Set("Content-Length", strconv.FormatInt(m.size(), 10))
	}
	_, err := w.Write(m.Data)
	if rest := m.size() - int64(len(m.Data)); err == nil && rest > 0 {
		_, err = io.CopyN(w, zeros{}, rest)
	}
	c.finish(http.StatusOK, err, true)
}

// zeros is the content of a file that only claims a size.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (c *call) finish(status int, err error, whole bool) {
	c.s.recorder.update(func(*Counts) {
		c.rec.Done, c.rec.Status = time.Now(), status
		c.rec.Answered = whole && err == nil && c.ctx.Err() == nil
	})
}

// encodeAnswer writes the envelope of the Bot API.
func encodeAnswer(result any, refused *apiError) (int, []byte) {
	if refused == nil {
		return http.StatusOK, encodeResult(result)
	}
	type parameters struct {
		RetryAfter int   `json:"retry_after,omitempty"`
		MigrateTo  int64 `json:"migrate_to_chat_id,omitempty"`
	}
	answer := struct {
		OK          bool        `json:"ok"`
		Code        int         `json:"error_code"`
		Description string      `json:"description"`
		Parameters  *parameters `json:"parameters,omitempty"`
	}{Code: refused.code, Description: refused.description}
	if refused.retryAfter != 0 || refused.migrateTo != 0 {
		answer.Parameters = &parameters{refused.retryAfter, refused.migrateTo}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(fmt.Sprintf("telegram: encode a refusal: %v", err))
	}
	return refused.code, body
}

func encodeResult(result any) []byte {
	remark := ""
	if d, ok := result.(described); ok {
		result, remark = d.result, d.remark
	}
	body := []byte(nil)
	if raw, ok := result.(rawResult); ok {
		body = raw
	} else {
		var err error
		if body, err = json.Marshal(result); err != nil {
			panic(fmt.Sprintf("telegram: encode a result: %v", err))
		}
	}
	out := append([]byte(`{"ok":true,"result":`), body...)
	if remark != "" {
		out = append(strconv.AppendQuote(append(out, `,"description":`...), remark), '}')
		return out
	}
	return append(out, '}')
}

func usualDescription(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusNotFound:
		return http.StatusText(code)
	case http.StatusTooManyRequests:
		return "Too Many Requests: retry after 1"
	case http.StatusForbidden:
		return "Forbidden: bot was blocked by the user"
	case http.StatusBadRequest:
		return "Bad Request: chat not found"
	}
	return http.StatusText(code)
}
