package llm

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Kind is a kind of failure.
type Kind string

// Kinds of failure.
const (
	Unauthorized Kind = "401"
	Unpaid       Kind = "402"
	Forbidden    Kind = "403"
	Missing      Kind = "404" // the model does not exist
	TooLarge     Kind = "413"
	TooMany      Kind = "429" // Fault.After is the Retry-After header
	ServerError  Kind = "500"
	BadGateway   Kind = "502" // an HTML page
	Overloaded   Kind = "529"
	Overflow     Kind = "overflow" // 400: the prompt is too long; Fault.At is the limit
	Prefix       Kind = "prefix"   // 400: thinking blocks that do not match their prefix
	Custom       Kind = "custom"   // Fault.Status, with Fault.Text as the whole body

	NoAnswer Kind = "no answer" // sends no byte until the client disconnects
	Stall    Kind = "stall"     // the stream stops at event At but does not end
	Cut      Kind = "cut"       // the connection breaks after At bytes
	End      Kind = "end"       // the stream ends regularly after At events
	Error    Kind = "error"     // an error event in the stream at event At; Status 0: 529
	BadJSON  Kind = "bad json"  // event At contains truncated JSON
	Garbage  Kind = "garbage"   // bytes that are no valid answer

	BadToolName Kind = "bad tool name" // a tool call with a name that no tool can have
	BadToolArgs Kind = "bad tool args" // tool calls with arguments that are not JSON
	Empty       Kind = "empty"         // an end of turn without content
	Refusal     Kind = "refusal"       // the model refuses
	Truncated   Kind = "truncated"     // the answer reaches its token limit
)

// A Fault makes requests fail.
type Fault struct {
	Kind  Kind
	Skip  int                // number of matching requests that pass first
	Times int                // number of requests that fail; 0: one, negative: all that follow
	Match func(Request) bool // nil: every request
	After time.Duration      // value of Retry-After; 0: none
	At    int                // position in the answer, see Kind
	// Status is used by Custom and Error. Text replaces the service's own error
	// message.
	Status int
	Text   string
}

// Inject adds a fault. A request is matched against the faults in the order of
// their injection, and the first match is applied.
func (s *Server) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) fault(r Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times == 0 || f.Match != nil && !f.Match(r) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		hit := *f
		return &hit
	}
	return nil
}

// sayings holds the status and message of the kinds that are answered with an
// error body.
var sayings = map[Kind]struct {
	status int
	text   string
}{
	Unauthorized: {401, "invalid x-api-key"},
	Unpaid:       {402, "This request requires more credits, or fewer max_tokens."},
	Forbidden:    {403, "Your API key does not have permission to use the specified resource."},
	Missing:      {404, "model: sim"},
	TooLarge:     {413, "Request exceeds the maximum size"},
	TooMany:      {429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute."},
	ServerError:  {500, "Internal server error"},
	Overloaded:   {529, "Overloaded"},
	Prefix: {400, "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. " +
		"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."},
}

const badGateway = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n" +
	"<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"

// instead writes an error in place of the answer and reports whether it did.
func (f *Fault) instead(o *out) bool {
	if f.After > 0 {
		o.w.Header().Set("Retry-After", strconv.FormatFloat(f.After.Seconds(), 'f', -1, 64))
	}
	switch f.Kind {
	case NoAnswer:
		o.hang()
		panic(http.ErrAbortHandler)
	case BadGateway:
		o.raw(http.StatusBadGateway, "text/html", badGateway)
		return true
	case Custom:
		o.raw(f.Status, "application/json", f.Text)
		return true
	case Garbage:
		o.raw(http.StatusOK, "text/event-stream", "\x00\xff{]garbage\ndata: \xfe\xfe\n\n")
		return true
	case Overflow:
		limit := f.At
		if limit == 0 {
			limit = 200_000
		}
		o.json(http.StatusBadRequest, tooLong(o.api.name(), limit+limit/10, limit))
		return true
	}
	s, ok := sayings[f.Kind]
	if !ok {
		return false
	}
	if f.Text != "" {
		s.text = f.Text
	}
	o.json(s.status, o.api.failure(s.status, s.text))
	return true
}

// bend changes the answer as f demands.
func (f *Fault) bend(rep *Reply) {
	switch f.Kind {
	case BadToolName:
		*rep = Reply{Calls: []Call{{Name: "no such tool!", Args: `{}`}}}
	case BadToolArgs:
		if len(rep.Calls) == 0 {
			rep.Calls = []Call{{Name: "broken"}}
		}
		for i := range rep.Calls {
			rep.Calls[i].Args = `{"path": "/tm`
		}
	case Empty:
		*rep = Reply{}
	case Refusal:
		*rep = Reply{Stop: "refusal"}
	case Truncated:
		rep.Stop = "max_tokens"
		rep.Text = rep.Text[:len(rep.Text)/2]
	}
}

// tooLong returns the error body for a prompt that is too long.
func tooLong(dialect string, have, limit int) any {
	if dialect == "messages" {
		return messagesError("invalid_request_error", fmt.Sprintf("prompt is too long: %d tokens > %d maximum", have, limit))
	}
	return chatError("invalid_request_error", "context_length_exceeded", "messages", fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", limit, have))
}
