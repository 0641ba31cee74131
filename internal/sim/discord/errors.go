package discord

import (
	"fmt"
	"net/http"
	"time"
)

// An obj is a JSON object.
type obj = map[string]any

// An apiError is an error answer.
type apiError struct {
	status     int
	code       int
	message    string
	errors     obj
	retryAfter time.Duration // of a 429
	global     bool
	scope      string
}

func refuse(status, code int, message string) *apiError {
	return &apiError{status: status, code: code, message: message}
}

func unknown(code int, what string) *apiError {
	return refuse(http.StatusNotFound, code, "Unknown "+what)
}

func unauthorized() *apiError { return refuse(http.StatusUnauthorized, 0, "401: Unauthorized") }

func missingAccess() *apiError { return refuse(http.StatusForbidden, 50001, "Missing Access") }

func missingPermissions() *apiError {
	return refuse(http.StatusForbidden, 50013, "Missing Permissions")
}

func wrongChannel() *apiError {
	return refuse(http.StatusBadRequest, 50024, "Cannot execute action on this channel type")
}

// invalid returns the error for one invalid field of the body.
func invalid(field, code, message string) *apiError {
	e := refuse(http.StatusBadRequest, 50035, "Invalid Form Body")
	e.errors = obj{field: obj{"_errors": []obj{{"code": code, "message": message}}}}
	return e
}

func tooLong(field string, most int) *apiError {
	return invalid(field, "BASE_TYPE_MAX_LENGTH", fmt.Sprintf("Must be %d or fewer in length.", most))
}

func badLength(field string, least, most int) *apiError {
	return invalid(field, "BASE_TYPE_BAD_LENGTH", fmt.Sprintf("Must be between %d and %d in length.", least, most))
}

func tooMany(after time.Duration, global bool, scope string) *apiError {
	e := refuse(http.StatusTooManyRequests, 0, "You are being rate limited.")
	e.retryAfter, e.global, e.scope = after, global, scope
	return e
}

// body returns the JSON object of the error answer.
func (e *apiError) body() obj {
	if e.status == http.StatusTooManyRequests {
		b := obj{"message": e.message, "retry_after": e.retryAfter.Seconds(), "global": e.global}
		if e.code != 0 { // some limits have one
			b["code"] = e.code
		}
		return b
	}
	b := obj{"message": e.message, "code": e.code}
	if e.errors != nil {
		b["errors"] = e.errors
	}
	return b
}
