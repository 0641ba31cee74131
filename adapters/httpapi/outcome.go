package httpapi

import (
	"net/http"
	"time"

	"hermesd/adapters/httpapi/internal/openaiapi"
)

// failed returns the failure of a turn that ended without an answer.
func failed(text string) *openaiapi.Failure {
	return &openaiapi.Failure{Status: http.StatusBadGateway, Kind: openaiapi.Broken, Code: "turn_failed", Text: text, Final: true}
}

// ended returns the failure of a turn that ended without any message.
func ended(why string) *openaiapi.Failure {
	return &openaiapi.Failure{Status: http.StatusConflict, Kind: openaiapi.Broken, Code: "no_answer", Text: "There is no answer to this message: " + why + ".", Final: true}
}

// stopping returns the failure of requests that wait when the daemon stops.
func stopping(accepted bool) *openaiapi.Failure {
	f := &openaiapi.Failure{Status: http.StatusServiceUnavailable, Kind: openaiapi.Broken, Code: "stopping", Text: "The daemon stops. Send the request again when it is back.", After: 5 * time.Second}
	if accepted {
		f.Text = "The daemon stops. The message is stored and will be answered when it is back; with the same Idempotency-Key you get that answer."
		f.Final = true
	}
	return f
}

// notStored returns the failure of a message that was not accepted.
func notStored() *openaiapi.Failure {
	return &openaiapi.Failure{
		Status: http.StatusServiceUnavailable, Kind: openaiapi.Broken, Code: "not_stored", After: 2 * time.Second,
		Text: "The message could not be stored, so it was not taken. Send it again in a moment; if it stays, the operator finds the reason in the log.",
	}
}
