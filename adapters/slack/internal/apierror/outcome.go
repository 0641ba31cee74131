// Package apierror converts failed calls to Slack's API to delivery errors with
// reasons for users.
package apierror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/gateway/chat"
)

// SendError returns the outcome of a call for which the library returned err:
//
//	answer of the Web API                   outcome
//	429, ratelimited                        Transient, after the given delay
//	internal_error, fatal_error             Uncertain: Slack itself does not know
//	service_unavailable, request_timeout    Transient: later
//	a token that is invalid or revoked      Transient: the operator has to repair it
//	any other error                         Permanent: never in this form
//	no answer of the Web API
//	request not sent                        Transient
//	request sent, cut off or timed out      Uncertain
//	answer of an intermediary
//	3xx, 4xx                                Transient: the request was not passed on
//	2xx, 5xx                                Uncertain
func SendError(err error) *chat.SendError {
	var (
		chosen *chat.SendError
		flood  *slack.RateLimitedError
		said   slack.SlackErrorResponse
		lost   *apiclient.Error
		status slack.StatusCodeError
	)
	switch {
	case errors.As(err, &chosen):
		return chosen
	case errors.As(err, &flood):
		return &chat.SendError{Outcome: chat.Transient, RetryAfter: flood.RetryAfter, Err: err, Reason: fmt.Sprintf("Slack asks to wait %v before the next message", flood.RetryAfter)}
	case errors.As(err, &said):
		return refusal(said)
	case errors.As(err, &lost):
		return lostOutcome(lost)
	case errors.As(err, &status):
		return statusOutcome(&chat.SendError{Err: err}, status.Code)
	}
	return &chat.SendError{Outcome: chat.Uncertain, Reason: "Slack's answer could not be understood", Err: err}
}

func lostOutcome(e *apiclient.Error) *chat.SendError {
	out := &chat.SendError{Err: e, Outcome: chat.Uncertain}
	switch {
	case e.Status != 0:
		return statusOutcome(out, e.Status)
	case !e.Sent:
		out.Outcome, out.Reason = chat.Transient, "Slack could not be reached"
	case errors.Is(e, context.DeadlineExceeded):
		out.Reason = "Slack did not answer in time"
	default:
		out.Reason = "the connection broke before Slack answered"
	}
	return out
}

// statusOutcome completes the outcome of an answer that is not from the Web API.
func statusOutcome(out *chat.SendError, status int) *chat.SendError {
	switch {
	case status == http.StatusTooManyRequests:
		out.Outcome, out.Reason = chat.Transient, "Slack asks to wait and does not say for how long"
	case status >= 300 && status < 500:
		out.Outcome, out.Reason = chat.Transient, fmt.Sprintf("something between here and Slack answered instead of it (status %d); check api_url and proxy", status)
	default:
		out.Outcome, out.Reason = chat.Uncertain, fmt.Sprintf("Slack's servers gave no result (status %d)", status)
	}
	return out
}

// refusal returns the outcome of an error response of the Web API.
func refusal(e slack.SlackErrorResponse) *chat.SendError {
	out := &chat.SendError{Outcome: chat.Permanent, Err: e}
	if words, ok := tokenWords(e.Err); ok {
		out.Outcome, out.AccountWide, out.Reason = chat.Transient, true, words
		return out
	}
	switch e.Err {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		out.Outcome, out.Reason = chat.Transient, "Slack asks to wait and does not say for how long"
	case "internal_error", "fatal_error":
		out.Outcome, out.Reason = chat.Uncertain, "Slack has an internal problem and does not know whether it did what was asked"
	case "service_unavailable", "request_timeout", "team_added_to_org", "channel_migration_in_progress":
		out.Outcome, out.Reason = chat.Transient, "Slack is not available at the moment"
	case "missing_scope", "no_permission":
		out.Outcome, out.Reason = chat.Transient, scopeWords(e.Needed)
	default:
		out.Refused = refused(e.Err)
		out.Reason = Describe(e.Err)
		out.Reason = cmp.Or(out.Reason, "Slack refuses this ("+e.Err+")")
	}
	if m := e.ResponseMetadata.Messages; len(m) > 0 && strings.HasPrefix(e.Err, "invalid_") {
		out.Reason += ": " + strings.Join(m, "; ")
	}
	return out
}

// refused reports whether an error code concerns what the message contains.
func refused(code string) bool {
	switch code {
	case "msg_too_long", "msg_blocks_too_long", "no_text", "invalid_blocks", "invalid_blocks_format", "invalid_attachments",
		"file_uploads_disabled", "file_upload_size_restricted", "storage_limit_reached", "blocked_file_type":
		return true
	}
	return false
}

func scopeWords(needed string) string {
	if needed == "" {
		return "the app lacks a permission for this; compare its scopes under OAuth & Permissions with the manifest in the documentation, then install it again"
	}
	return "the app lacks the scope " + needed + "; add it under OAuth & Permissions and install the app again"
}

// Describe returns an explanation of an error that the same message will meet
// again; "" if the code is unknown.
func Describe(code string) string {
	switch code {
	case "channel_not_found":
		return "Slack does not know this channel, or the bot is not in it; invite it with /invite"
	case "not_in_channel", "user_not_in_channel":
		return "the bot is not in this channel; invite it with /invite"
	case "is_archived":
		return "the channel is archived"
	case "msg_too_long":
		return "the message is longer than Slack takes"
	case "no_text":
		return "the message is empty"
	case "restricted_action", "restricted_action_read_only_channel", "restricted_action_non_threadable_channel",
		"restricted_action_thread_only_channel", "restricted_action_thread_locked", "not_allowed":
		return "a setting of the workspace or the channel keeps the bot from writing here; an administrator can change it"
	case "user_not_found", "users_not_found", "user_disabled", "cannot_dm_bot":
		return "Slack does not know this person, or their account is not active"
	case "invalid_thread_ts", "thread_not_found", "message_not_found", "cannot_reply_to_message":
		return "the message or its thread is not there any more"
	case "messages_tab_disabled":
		return "people cannot write to this app; switch on the Messages Tab under App Home"
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "invalid_attachments":
		return "Slack does not take the form of this message"
	case "file_not_found", "file_deleted":
		return "the file is no longer at Slack"
	case "file_uploads_disabled", "file_upload_size_restricted", "storage_limit_reached", "blocked_file_type":
		return "the workspace does not take this file"
	case "expired_url", "used_url":
		return "it is too late to answer this command where the bot is not a member; invite it with /invite"
	case "edit_window_closed", "cant_update_message", "cant_delete_message":
		return "the message can no longer be changed"
	}
	return ""
}

// tokenWords returns an explanation if code is about the bot token.
func tokenWords(code string) (string, bool) {
	switch code {
	case "invalid_auth", "not_authed":
		return "Slack does not know this token; put the Bot User OAuth Token of the app into token (SLACK_BOT_TOKEN)", true
	case "account_inactive":
		return "the app was taken out of the workspace or its account is not active; install it again and put the new Bot User OAuth Token into token (SLACK_BOT_TOKEN)", true
	case "token_revoked", "token_expired":
		return "the token was revoked or has expired; install the app again and put the new Bot User OAuth Token into token (SLACK_BOT_TOKEN)", true
	case "not_allowed_token_type":
		return "Slack wants another kind of token here; put the Bot User OAuth Token (xoxb-) into token (SLACK_BOT_TOKEN)", true
	case "team_access_not_granted", "org_login_required", "access_denied":
		return "the app is not installed in this workspace; install it, and put its Bot User OAuth Token into token (SLACK_BOT_TOKEN)", true
	}
	return "", false
}

// Code returns the Web API's error code, "" if err has none.
func Code(err error) string {
	if said, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		return said.Err
	}
	return ""
}

// Config returns the error that the operator has to repair if err, of a call
// with the bot token, is one; nil otherwise.
func Config(err error) error {
	if words, ok := tokenWords(Code(err)); ok {
		return &chat.ConfigError{Platform: chat.Slack, Reason: words}
	}
	return nil
}

// Socket is like Config for calls with the app token, which opens sockets.
func Socket(err error) error {
	c := Code(err)
	if c == "missing_scope" || c == "no_permission" {
		return &chat.ConfigError{Platform: chat.Slack, Reason: "the app-level token lacks the scope connections:write; make one that has it under Basic Information and put it into app_token (SLACK_APP_TOKEN)"}
	}
	if _, ok := tokenWords(c); ok || c == "forbidden_team" {
		return &chat.ConfigError{Platform: chat.Slack, Reason: "Slack does not take this app-level token (" + c + "); make one with connections:write under Basic Information and put it into app_token (SLACK_APP_TOKEN)"}
	}
	return nil
}

// Permanent returns the error of a message that can never be sent in this form.
func Permanent(reason string) *chat.SendError {
	return &chat.SendError{Outcome: chat.Permanent, Reason: reason}
}
