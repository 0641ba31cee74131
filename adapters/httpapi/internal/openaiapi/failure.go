// Package openaiapi holds the shapes of OpenAI's Chat Completions: requests are taken
// apart by Parse, which looks at nothing else; answers and failures are values
// that encode themselves.
package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Failure is an answer that says why there is none, in OpenAI's form.
type Failure struct {
	Status int
	Kind   string // OpenAI's type
	Code   string
	Param  string
	Text   string
	After  time.Duration // when to come back
	// Final says that the same request must not be sent again by itself: it was
	// accepted, and once more would be a second turn.
	Final bool
	// Answer is the whole answer, where only the stream of it went wrong.
	Answer string
}

func (f *Failure) Error() string { return f.Text }

// The types of errors that clients tell apart.
const (
	Invalid = "invalid_request_error"
	Broken  = "server_error"
)

// Refuse is the failure of a request that cannot be followed; param names what in
// it is wrong.
func Refuse(param, code, format string, args ...any) *Failure {
	return &Failure{Status: http.StatusBadRequest, Kind: Invalid, Code: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

func unsupported(param string) *Failure {
	return Refuse(param, "unsupported_parameter", "%s is not supported: tools, memory and the form of answers are the agent's own. Leave it out.", param)
}

// Body is the failure as JSON.
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

// Write answers a request with the failure.
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
		h.Set("X-Should-Retry", "false") // OpenAI's own clients heed it
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(f.Body()) // a client that is gone does not read it
}

// Encode writes what cannot fail to be written.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("httpapi/wire: encode %T: %v", v, err))
	}
	return b
}
