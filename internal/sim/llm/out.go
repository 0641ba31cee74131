package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// An out writes one answer and breaks it off where a fault demands it.
type out struct {
	w       http.ResponseWriter
	flusher http.Flusher
	ctx     context.Context
	closed  <-chan struct{}
	api     api
	fault   *Fault

	perDelta time.Duration
	status   int
	written  int
	events   int
	over     bool // nothing more may be written
}

// wait sleeps for d and reports whether the client is still connected and the
// server still open.
func (o *out) wait(d time.Duration) bool {
	if d <= 0 {
		return !o.over
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return !o.over
	case <-o.ctx.Done():
	case <-o.closed:
	}
	o.over = true
	return false
}

// hang waits until the client disconnects or the server closes.
func (o *out) hang() {
	o.over = true
	select {
	case <-o.ctx.Done():
	case <-o.closed:
	}
}

func (o *out) raw(status int, kind, body string) {
	o.w.Header().Set("Content-Type", kind)
	o.status = status
	o.w.WriteHeader(status)
	o.write([]byte(body))
}

func (o *out) json(status int, body any) { o.raw(status, "application/json", string(encode(body))) }

func (o *out) stream() {
	o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	o.w.Header().Set("Cache-Control", "no-cache")
	o.status = http.StatusOK
	o.w.WriteHeader(http.StatusOK)
}

// write writes p, or the part of p before the byte at which a fault cuts the
// connection.
func (o *out) write(p []byte) {
	if o.over {
		return
	}
	if o.fault != nil && o.fault.Kind == Cut && o.written+len(p) > o.fault.At {
		p = p[:o.fault.At-o.written]
		_, _ = o.w.Write(p)
		o.written += len(p)
		o.flush()
		panic(http.ErrAbortHandler)
	}
	n, err := o.w.Write(p)
	o.written += n
	if err != nil {
		o.over = true
	}
}

func (o *out) flush() {
	if o.flusher != nil {
		o.flusher.Flush()
	}
}

// event writes one event of a stream; name is "" if the API has no event names.
func (o *out) event(name string, body any) { o.data(name, encode(body)) }

func (o *out) data(name string, data []byte) {
	if o.over {
		return
	}
	o.events++
	if f := o.fault; f != nil && o.events == max(f.At, 1) {
		switch f.Kind {
		case Stall:
			o.hang()
			panic(http.ErrAbortHandler)
		case End:
			o.over = true
			return
		case BadJSON:
			data = data[:len(data)/2]
		case Error:
			status, text := f.Status, f.Text
			if status == 0 {
				status, text = 529, "Overloaded"
			}
			errName, body := o.api.event(status, text)
			o.write(frame(errName, encode(body)))
			o.flush()
			o.over = true
			return
		}
	}
	o.write(frame(name, data))
	o.flush()
}

// delta writes a part of the answer after its pause.
func (o *out) delta(name string, body any) {
	if o.wait(o.perDelta) {
		o.event(name, body)
	}
}

func frame(name string, data []byte) []byte {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // values of this package always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body)) // the client may have disconnected
}

// pieces splits s into parts of n runes.
func pieces(s string, n int) []string {
	if n <= 0 {
		n = 12
	}
	var parts []string
	for r := []rune(s); len(r) > 0; {
		k := min(n, len(r))
		parts = append(parts, string(r[:k]))
		r = r[k:]
	}
	return parts
}
