// Package openaiapi defines the requests and responses of OpenAI's Chat
// Completions API. Parse decodes requests; answers and failures are values that
// encode themselves.
package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"hermesd/gateway/chat"
)

// A Failure is an error response in OpenAI's format.
type Failure struct {
	Status int
	Kind   string // OpenAI's error type
	Code   string
	Param  string
	Text   string
	After  time.Duration // when to retry
	// Final is true if the client must not repeat the request automatically: it
	// was accepted, and a repeat would be a second turn.
	Final bool
	// Answer is the whole answer if only its stream failed.
	Answer string
}

func (f *Failure) Error() string { return f.Text }

// The error types that clients distinguish.
const (
	Invalid = "invalid_request_error"
	Broken  = "server_error"
)

// Refuse returns the failure of an invalid or unsupported request; param names
// the parameter.
func Refuse(param, code, format string, args ...any) *Failure {
	return &Failure{Status: http.StatusBadRequest, Kind: Invalid, Code: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

func unsupported(param string) *Failure {
	return Refuse(param, "unsupported_parameter", "%s is not supported: tools, memory and the form of answers are the agent's own. Leave it out.", param)
}

// Body returns the failure as JSON.
func (f *Failure) Body() []byte {
	type errorBody struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	pointer := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	v := struct {
		Error  errorBody `json:"error"`
		Hermes *Extra    `json:"hermes,omitempty"`
	}{Error: errorBody{f.Text, f.Kind, pointer(f.Param), pointer(f.Code)}}
	if f.Answer != "" {
		v.Hermes = &Extra{Answer: f.Answer}
	}
	return Encode(v)
}

// Write writes the failure as the response.
func (f *Failure) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="hermesd"`)
	}
	if f.After > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.After.Round(time.Second).Seconds())))
	}
	if f.Final {
		h.Set("X-Should-Retry", "false") // OpenAI's own clients respect it
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(f.Body()) // the client may have disconnected
}

// Encode encodes v as JSON. v must be of a type whose encoding cannot fail.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("httpapi/wire: encode %T: %v", v, err))
	}
	return b
}

// Extra holds the fields of this API that OpenAI's does not have.
type Extra struct {
	Session string   `json:"session,omitempty"`
	Message string   `json:"message,omitempty"`
	Notices []string `json:"notices,omitempty"`
	Answer  string   `json:"answer,omitempty"`
}

// A Completion is OpenAI's object for an answer or, with Delta, for a chunk.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Tokens  `json:"usage,omitempty"`
	Hermes  *Extra   `json:"hermes,omitempty"`
}

// A Choice is the only choice of its completion.
type Choice struct {
	Index   int     `json:"index"`
	Message *Spoken `json:"message,omitempty"`
	Delta   *Spoken `json:"delta,omitempty"`
	Finish  *string `json:"finish_reason"`
}

// Spoken is a message, or a piece of one.
type Spoken struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// Tokens is the token usage of an answer.
type Tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// TokensOf converts a usage; it returns nil if u is nil.
func TokensOf(u *chat.Usage) *Tokens {
	if u == nil {
		return nil
	}
	t := &Tokens{Prompt: u.Prompt, Completion: u.Output, Total: u.Prompt + u.Output}
	t.Details.Cached = u.Cached
	return t
}
