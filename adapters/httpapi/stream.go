package httpapi

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/adapters/httpapi/internal/openaiapi"
)

// A writer writes the answer of one exchange to one request.
type writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	e     *exchange
	model string
	usage bool

	started bool
	sent    string // the part of the answer that was sent
	err     error  // the first write error
}

func (o *writer) deadline() {
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeTime)) // not supported by every connection; then there is no deadline
}

func (o *writer) base(object string) openaiapi.Completion {
	return openaiapi.Completion{ID: completionID(o.e.id), Object: object, Created: o.e.created.Unix(), Model: o.model}
}

// object returns the whole answer.
func (o *writer) object(s state) openaiapi.Completion {
	c, stop := o.base("chat.completion"), "stop"
	c.Choices = []openaiapi.Choice{{Message: &openaiapi.Spoken{Role: "assistant", Content: &s.over.text}, Finish: &stop}}
	c.Usage = openaiapi.TokensOf(s.over.usage)
	c.Hermes = &openaiapi.Extra{Session: o.e.session, Message: o.e.id, Notices: s.notices}
	return c
}

// stream writes the answer in chunks, as it grows.
func (a *Adapter) stream(r *http.Request, out *writer) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for out.err == nil {
		s := a.look(out.e)
		if s.over != nil {
			out.finish(s)
			if out.err == nil && r.Context().Err() == nil {
				a.wrote(out.e, s.over)
			}
			return
		}
		out.grow(s.text)
		select {
		case <-s.change:
		case <-alive.C:
			out.start()
			out.raw(": the answer is being written\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// start begins the stream: after that, failures are sent as events in it.
func (o *writer) start() {
	if o.started {
		return
	}
	o.started = true
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	empty := ""
	o.chunk(&openaiapi.Spoken{Role: "assistant", Content: &empty}, nil, nil)
}

// grow sends the part of text that was not sent yet. If text does not continue
// the sent part, it is left to finish.
func (o *writer) grow(text string) {
	for text != "" { // an incomplete character
		r, n := utf8.DecodeLastRuneInString(text)
		if r != utf8.RuneError || n != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	if len(text) > len(o.sent) && strings.HasPrefix(text, o.sent) {
		o.add(text)
	}
}

func (o *writer) add(text string) {
	o.start()
	delta := text[len(o.sent):]
	o.chunk(&openaiapi.Spoken{Content: &delta}, nil, nil)
	o.sent = text
}

// finish sends the rest of the answer and ends the stream, or sends the failure.
func (o *writer) finish(s state) {
	v := s.over
	switch {
	case v.err != nil && !o.started:
		o.deadline()
		v.err.Write(o.w)
		o.err = o.rc.Flush()
		return
	case v.err != nil:
		o.event(v.err.Body())
		return
	case !strings.HasPrefix(v.text, o.sent):
		o.event((&openaiapi.Failure{Kind: openaiapi.Broken, Code: "answer_changed", Answer: v.text,
			Text: "The answer was changed after its beginning had been sent. The whole answer is in hermes.answer of this event, and in the session."}).Body())
		return
	}
	if v.text != o.sent {
		o.add(v.text)
	}
	o.start()
	stop := "stop"
	o.chunk(&openaiapi.Spoken{}, &stop, &openaiapi.Extra{Session: o.e.session, Message: o.e.id, Notices: s.notices})
	if o.usage && v.usage != nil {
		c := o.base("chat.completion.chunk")
		c.Choices, c.Usage = []openaiapi.Choice{}, openaiapi.TokensOf(v.usage)
		o.event(openaiapi.Encode(c))
	}
	o.raw("data: [DONE]\n\n")
}

func (o *writer) chunk(delta *openaiapi.Spoken, finish *string, x *openaiapi.Extra) {
	c := o.base("chat.completion.chunk")
	c.Choices, c.Hermes = []openaiapi.Choice{{Delta: delta, Finish: finish}}, x
	o.event(openaiapi.Encode(c))
}

func (o *writer) event(data []byte) { o.raw("data: " + string(data) + "\n\n") }

// raw writes and flushes, unless an earlier write has failed.
func (o *writer) raw(s string) {
	if o.err != nil {
		return
	}
	o.deadline()
	if _, o.err = o.w.Write([]byte(s)); o.err == nil {
		o.err = o.rc.Flush()
	}
}
