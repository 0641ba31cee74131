package telegram

import (
	"fmt"
	"net/http"
	"time"
)

// An apiError is an error answer with the descriptions of the Bot API.
type apiError struct {
	code        int
	description string
	retryAfter  int   // parameters.retry_after, seconds
	migrateTo   int64 // parameters.migrate_to_chat_id
	delay       time.Duration
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s", e.code, e.description) }

func badRequest(format string, args ...any) *apiError {
	return &apiError{code: http.StatusBadRequest, description: "Bad Request: " + fmt.Sprintf(format, args...)}
}

func forbidden(what string) *apiError {
	return &apiError{code: http.StatusForbidden, description: "Forbidden: " + what}
}

func unauthorized(more string) *apiError {
	return &apiError{code: http.StatusUnauthorized, description: "Unauthorized" + more}
}

func notFound() *apiError {
	return &apiError{code: http.StatusNotFound, description: "Not Found"}
}

func tooLarge() *apiError {
	return &apiError{code: http.StatusRequestEntityTooLarge, description: "Request Entity Too Large"}
}

// tooMany returns a 429 whose retry_after is wait, rounded up to whole seconds.
func tooMany(wait time.Duration) *apiError {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	return &apiError{
		code:        http.StatusTooManyRequests,
		description: fmt.Sprintf("Too Many Requests: retry after %d", seconds),
		retryAfter:  seconds,
	}
}

func conflict(what string) *apiError {
	return &apiError{code: http.StatusConflict, description: "Conflict: " + what}
}
