package slack

import (
	"net/http"
	"time"
)

// An apiError is an error answer of the Web API.
type apiError struct {
	code       string
	status     int      // HTTP status; 0: 200
	needed     string   // of missing_scope
	provided   string   // of missing_scope
	messages   []string // response_metadata.messages
	retryAfter int      // in seconds; if set, the answer is a 429
	html       bool     // the answer is an HTML page, as proxies send it
}

func refuse(code string, messages ...string) *apiError {
	return &apiError{code: code, messages: messages}
}

func missingField(name string) *apiError {
	return refuse("invalid_arguments", "[ERROR] missing required field: "+name)
}

// tooMany returns a 429 with Retry-After in whole seconds, at least one.
func tooMany(wait time.Duration) *apiError {
	return &apiError{
		code: "ratelimited", status: http.StatusTooManyRequests,
		retryAfter: max(1, int((wait+time.Second-1)/time.Second)),
	}
}

// httpStatus returns the HTTP status of the error answer.
func (e *apiError) httpStatus() int {
	if e.status != 0 {
		return e.status
	}
	return http.StatusOK
}
