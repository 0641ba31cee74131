package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// A Request is what the server was asked, in the same words for both dialects.
type Request struct {
	N         int    // number of the request, from 1
	Dialect   string // "messages", "chat", "transcription" or "speech"
	Model     string
	System    string
	Tools     []Tool
	Messages  []Message // without the system message
	MaxTokens int
	Stream    bool
	ToolsOff  bool // tool_choice is none
	Thinking  bool // reasoning was asked for
	Marks     int  // cache_control marks
	Header    http.Header
	Body      []byte // nil for a transcription
	Audio     *Audio // of a transcription or a speech

	includeUsage bool
	toolKeep     []time.Duration // for which the marks of the tools ask
	system       []Block         // what System is made of
	thinkingAs   string          // how reasoning was asked for
	units        []unit          // all blocks
	steps        []uint64        // hash of each step of an automatic cache
	bounds       []uint64        // hash of everything up to and with message i
	head         uint64          // hash of tools and system
}

// A Tool is one that the model may use.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
}

// A Message is one message of a request.
type Message struct {
	Role   string // "user", "assistant" or "tool"
	Blocks []Block
}

// A Block is one part of a message.
type Block struct {
	Type      string // as the Messages API calls it
	Text      string // also of thinking and tool results
	ID        string // of a tool_use, or that a tool_result answers
	Name      string
	Input     json.RawMessage
	Failed    bool
	Signature string
	Marked    bool // carries cache_control

	keep  time.Duration // for which the mark asks
	image string        // what a picture is
}

// Last returns the newest message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Newest returns the text of the newest message that holds words of the user,
// without what stands in <gateway-context>.
func (r Request) Newest() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != "user" {
			continue
		}
		var parts []string
		for _, b := range r.Messages[i].Blocks {
			if b.Type == "text" {
				parts = append(parts, b.Text)
			}
		}
		text := strings.TrimSpace(overlay.ReplaceAllString(strings.Join(parts, "\n\n"), ""))
		if text != "" {
			return text
		}
	}
	return ""
}

// Results returns the tool results that stand after the newest assistant
// message.
func (r Request) Results() []Block {
	var results []Block
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role != "assistant"; i-- {
		var here []Block
		for _, b := range r.Messages[i].Blocks {
			if b.Type == "tool_result" {
				here = append(here, b)
			}
		}
		results = append(here, results...)
	}
	return results
}

// HasTool reports whether the model may use the named tool.
func (r Request) HasTool(name string) bool {
	for _, t := range r.Tools {
		if t.Name == name && !r.ToolsOff {
			return true
		}
	}
	return false
}

var overlay = regexp.MustCompile(`(?s)<gateway-context>.*?</gateway-context>`)

// A Reply is what the model says. The zero Reply is an empty end of turn.
type Reply struct {
	Thinking string
	Redacted string // data of a redacted_thinking block
	Text     string
	Calls    []Call
	// Stop is the reason in the dialect's own word; "" is the usual one.
	Stop string
	// Usage replaces the figures that the server reckons.
	Usage *Usage
	// FirstByte and PerDelta replace the server's when they are longer.
	FirstByte, PerDelta time.Duration
	// Pieces is how many runes a delta holds; 0: 12.
	Pieces int
	// Status and Body replace everything: an answer of this status.
	Status int
	Body   string
	// Fault spoils this answer, unless an injected one does.
	Fault *Fault

	counted Usage
}

// A Call is one use of a tool.
type Call struct {
	ID   string // "": the server makes one up
	Name string
	Args string // as written, also if it is no JSON; "" is {}
}

// Usage counts tokens. Input excludes what was read or written; CacheWrite1h is
// the part of CacheWrite that is kept for an hour.
type Usage struct{ Input, CacheRead, CacheWrite, Output, CacheWrite1h int }

var token = regexp.MustCompile(`\[\[[^\[\]\n]{1,200}\]\]|#[0-9]+`)

// Tokens returns the parts of text that look like [[...]] or #123, by which
// answers are matched with questions.
func Tokens(text string) []string { return token.FindAllString(text, -1) }

// Echo is the reply of a server that was given none: it repeats the newest text
// of the user, or the results of tools, and all the tokens in them.
func Echo(r Request) Reply {
	newest := r.Newest()
	said := newest
	if results := r.Results(); len(results) > 0 {
		said = "results:"
		for _, b := range results {
			said += " " + b.Text
		}
	}
	if runes := []rune(said); len(runes) > 400 {
		said = string(runes[:400]) + "…"
	}
	text := "echo: " + said
	for _, t := range Tokens(newest) {
		if !strings.Contains(text, t) {
			text += " " + t
		}
	}
	return Reply{Text: text}
}

// tokens is how many tokens b is taken to hold.
func tokens[T string | []byte](b T) int { return (len(b) + 3) / 4 }

const maxBody = 32 << 20

func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return body, nil
}

// withoutKeys returns h without what must not be seen in a test's output.
func withoutKeys(h http.Header) http.Header {
	h = h.Clone()
	for _, k := range []string{"X-Api-Key", "Authorization"} {
		if h.Get(k) != "" {
			h.Set(k, "<key>")
		}
	}
	return h
}
