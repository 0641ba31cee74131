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

// A Request is a request to the server in a form common to all of its APIs.
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
	Thinking  bool // reasoning was requested
	Marks     int  // number of cache_control markers
	Header    http.Header
	Body      []byte // nil for a transcription
	Audio     *Audio // of a transcription or a speech

	includeUsage bool
	toolKeep     []time.Duration // lifetimes that the markers of the tools request
	system       []Block         // the blocks that System consists of
	thinkingAs   string          // form in which reasoning was requested
	units        []unit          // all blocks
	steps        []uint64        // hash of each step of an automatic cache
	bounds       []uint64        // hash of everything up to and including message i
	head         uint64          // hash of tools and system
}

// A Tool is a tool that the model may use.
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
	Type      string // name of the type in the Messages API
	Text      string // also of thinking blocks and tool results
	ID        string // of a tool_use, or of the tool_use that a tool_result answers
	Name      string
	Input     json.RawMessage
	Failed    bool
	Signature string
	Marked    bool // has a cache_control marker

	keep   time.Duration // lifetime that the marker requests
	image  string        // identifies the content of an image
	format string        // of reasoning_details
}

// Last returns the newest message, or the zero Message if there is none.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Newest returns the text of the newest message that contains text of the user,
// without <gateway-context> parts.
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

// Results returns the tool results that follow the newest assistant message.
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

// A Reply is the answer of the model. The zero Reply is an end of turn without
// content.
type Reply struct {
	Thinking string
	Redacted string // data of a redacted_thinking block
	Text     string
	Calls    []Call
	// Stop is the stop reason as the API spells it; "" is the default reason.
	Stop string
	// Usage replaces the usage that the server computes.
	Usage *Usage
	// FirstByte and PerDelta replace the server's values if they are longer.
	FirstByte, PerDelta time.Duration
	// Pieces is the number of runes of a delta; 0: 12.
	Pieces int
	// Status and Body, if set, replace the whole answer.
	Status int
	Body   string
	// Fault is applied to this answer unless an injected fault matches the
	// request.
	Fault *Fault

	counted Usage
}

// A Call is one tool call.
type Call struct {
	ID   string // "": the server generates one
	Name string
	Args string // as written, even if it is not JSON; "": {}
}

// Usage counts tokens. Input excludes tokens that were read from or written to
// the cache; CacheWrite1h is the part of CacheWrite with a lifetime of one
// hour.
type Usage struct{ Input, CacheRead, CacheWrite, Output, CacheWrite1h int }

var token = regexp.MustCompile(`\[\[[^\[\]\n]{1,200}\]\]|#[0-9]+`)

// Tokens returns the parts of text that look like [[...]] or #123. Tests use
// them to match answers with questions.
func Tokens(text string) []string { return token.FindAllString(text, -1) }

// Echo is the default reply: it repeats the newest text of the user, or the
// tool results, and all tokens in them.
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

// tokens returns the assumed number of tokens of b.
func tokens[T string | []byte](b T) int { return (len(b) + 3) / 4 }

const maxBody = 32 << 20

func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return body, nil
}

// withoutKeys returns h without the API keys, which must not appear in the
// output of tests.
func withoutKeys(h http.Header) http.Header {
	h = h.Clone()
	for _, k := range []string{"X-Api-Key", "Authorization"} {
		if h.Get(k) != "" {
			h.Set(k, "<key>")
		}
	}
	return h
}
