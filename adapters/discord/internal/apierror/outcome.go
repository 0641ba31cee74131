// Package apierror converts failed calls to Discord's API to delivery errors
// with reasons for users.
package apierror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/gateway/chat"
)

// Discord's error codes with special handling.
const (
	UnknownChannel     = 10003
	UnknownMessage     = 10008
	unknownWebhook     = 10015
	unknownInteraction = 10062
	TooManyEdits       = 30046 // of a message that is older than an hour; with status 429
	Acknowledged       = 40060
	MissingAccess      = 50001
	MissingPermissions = 50013
	tokenExpired       = 50027
	Form               = 50035
	Archived           = 50083
	NoReplies          = 160002
	HasThread          = 160004
)

// BadToken is the reason for a token that Discord rejects; it tells the operator
// what to do.
const BadToken = "Discord does not know this bot token; put the token of the developer portal into token (DISCORD_BOT_TOKEN)"

// SendError returns the outcome of a call that failed with err. An error
// response of Discord's API and a request that was given no connection are
// certain failures; anything else is uncertain.
//
//	answer of the API                 outcome
//	429                               Transient: retry after the given delay
//	401                               Transient: the operator has to act
//	other 4xx                         Permanent: never in this form
//	5xx                               Uncertain
//	no answer
//	request not sent                  Transient
//	request sent, cut off, timed out  Uncertain
//	answer of an intermediary
//	429                               Transient: the IP address is banned for a while
//	other 3xx, 4xx                    Transient: the request was not passed on
//	2xx, 5xx                          Uncertain
func SendError(err error) *chat.SendError {
	var (
		we     *apiclient.Error
		chosen *chat.SendError
	)
	switch {
	case errors.As(err, &chosen):
		return chosen
	case !errors.As(err, &we):
		return &chat.SendError{Outcome: chat.Uncertain, Reason: "Discord's answer could not be understood", Err: err}
	case we.API:
		return refusal(we)
	}
	out := &chat.SendError{Outcome: chat.Uncertain, Err: we}
	switch {
	case we.Status == http.StatusTooManyRequests:
		out.Outcome, out.RetryAfter, out.AccountWide = chat.Transient, we.After, true
		out.Reason = fmt.Sprintf("Discord keeps this address out for %v because of too many refused requests", we.After)
	case we.Status == http.StatusRequestEntityTooLarge:
		out.Outcome, out.Refused, out.Reason = chat.Permanent, true, TooBig
	case we.Status >= 300 && we.Status < 500:
		out.Outcome, out.Reason = chat.Transient, "something between here and Discord answered instead of it"
	case we.Status != 0:
		out.Reason = "the answer did not come from Discord's API"
	case !we.Sent:
		out.Outcome, out.Reason = chat.Transient, "Discord could not be reached"
	case errors.Is(we, context.DeadlineExceeded):
		out.Reason = "Discord did not answer in time"
	default:
		out.Reason = "the connection broke before Discord answered"
	}
	return out
}

// refusal returns the outcome of an error response of Discord's API.
func refusal(e *apiclient.Error) *chat.SendError {
	out := &chat.SendError{Outcome: chat.Permanent, Refused: refused(e), Reason: Describe(e), Err: e}
	switch {
	case e.Status == http.StatusTooManyRequests:
		out.Outcome, out.RetryAfter, out.AccountWide = chat.Transient, e.After, e.Global
		where := "in this channel"
		if e.Global {
			where = "anywhere"
		}
		out.Reason = fmt.Sprintf("Discord asks to wait %v before writing %s again", e.After.Round(time.Millisecond), where)
	case e.Status == http.StatusUnauthorized:
		out.Outcome, out.AccountWide, out.Reason = chat.Transient, true, BadToken
	case e.Status >= 500:
		out.Outcome, out.Reason = chat.Uncertain, "Discord has an internal problem and gave no result"
	}
	return out
}

// refused reports whether an error response concerns what the message contains.
func refused(e *apiclient.Error) bool {
	switch e.Code {
	case 40005, Form, 50006, 200000, 200001, 240000:
		return true
	}
	return e.Status == http.StatusRequestEntityTooLarge
}

// TooBig is the reason for a file that is too large.
const TooBig = "the file is larger than this Discord server takes; send a smaller one or a link"

// reasons maps error codes to explanations for users.
var reasons = map[int]string{
	UnknownChannel:     "the channel or thread no longer exists, or the bot is not in it",
	10004:              "the bot is no longer in this Discord server; invite it again",
	10007:              "this person is no longer in the Discord server",
	UnknownMessage:     "the message no longer exists",
	10013:              "Discord knows no such person",
	unknownWebhook:     "the command can no longer be answered in place",
	unknownInteraction: "the button or command has waited too long to be answered; use it again",
	20016:              "the channel is in slow mode",
	TooManyEdits:       "the message has been edited too often; a new one has to be sent",
	40005:              TooBig,
	MissingAccess:      "the bot cannot see this channel; give it the permission View Channel there",
	50006:              "the message is empty",
	50007:              "this person takes no direct messages from the bot; they have to allow them in the privacy settings of a server that both are in",
	50008:              "nobody can write in this channel",
	MissingPermissions: "the bot may not do this here; give it Send Messages, Send Messages in Threads, Attach Files and Read Message History in the channel",
	50024:              "this kind of channel does not take that",
	tokenExpired:       "the command can no longer be answered in place",
	50278:              "this person and the bot share no Discord server",
	Archived:           "the thread is archived and the bot may not open it again; unarchive it, or give the bot Manage Threads",
	NoReplies:          "the bot may not reply without seeing earlier messages; give it Read Message History",
	HasThread:          "the message has a thread already",
	160005:             "the thread is locked; a moderator has to unlock it",
	160006:             "the server has as many open threads as it may have; archive some",
	200000:             "the server's AutoMod has blocked the text",
	200001:             "the server's AutoMod has blocked the text",
	240000:             "the server's content filter has blocked a link",
}

// Describe returns an explanation of an error response for users.
func Describe(e *apiclient.Error) string {
	if s, ok := reasons[e.Code]; ok {
		return s
	}
	switch {
	case e.Code == Form && strings.Contains(e.Detail, "max_length"):
		return "the text is longer than Discord's 2,000 characters"
	case e.Code == Form && strings.Contains(e.Detail, "content"):
		return "Discord does not take this text"
	case e.Status == http.StatusRequestEntityTooLarge:
		return TooBig
	case e.Status == http.StatusForbidden:
		return "Discord does not allow the bot to do this"
	case e.Status == http.StatusNotFound:
		return "Discord knows no such place"
	}
	return "Discord refuses this message"
}

// StaysArchived is the error of an archived thread that the bot may not
// unarchive.
func StaysArchived() *chat.SendError { return Permanent("%s", reasons[Archived]) }

// ChannelGone is the error of a channel that does not exist.
func ChannelGone() *chat.SendError { return Permanent("%s", reasons[UnknownChannel]) }

// Permanent returns the error of a message that Discord would never accept.
func Permanent(format string, args ...any) *chat.SendError {
	return &chat.SendError{Outcome: chat.Permanent, Reason: fmt.Sprintf(format, args...)}
}

// NotSent returns the error of a message that was not sent because an earlier
// call failed. Such calls can be repeated, so the outcome is never uncertain.
func NotSent(err error) *chat.SendError {
	se := *SendError(err)
	if se.Outcome == chat.Uncertain {
		se.Outcome = chat.Transient
	}
	return &se
}

// Gone returns the error of an edit or deletion of a message that no longer
// exists or can no longer be changed.
func Gone(err error) *chat.SendError {
	reason := reasons[UnknownMessage]
	if apiclient.Code(err) == TooManyEdits {
		reason = reasons[TooManyEdits]
	}
	return &chat.SendError{Outcome: chat.Permanent, Reason: reason, Err: errors.Join(chat.ErrGone, err)}
}

// Status returns the HTTP status of an error response of the API, 0 if err is
// something else.
func Status(err error) int {
	if we, ok := errors.AsType[*apiclient.Error](err); ok && we.API {
		return we.Status
	}
	return 0
}

// FinalClose returns what the operator has to do about a close code of the
// gateway; "" if the code does not require it.
func FinalClose(code int) string {
	switch code {
	case 4004:
		return BadToken
	case 4010:
		return "Discord calls the shard invalid; this is an error of the program, report it"
	case 4011:
		return "the bot is in too many servers for one connection; Discord requires sharding, which is not supported"
	case 4012:
		return "Discord no longer supports the version of its API that is used; update hermesd"
	case 4013:
		return "Discord does not know an intent that is asked for; update hermesd"
	case 4014:
		return "the bot may not read messages; switch on Message Content Intent in the developer portal (Bot, Privileged Gateway Intents) and restart"
	}
	return ""
}
