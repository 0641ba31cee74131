package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"

	"hermesd/adapters/telegram/internal/apiclient"
	"hermesd/gateway/chat"
)

// sendError returns the outcome of a call for which the library returned err.
// An error response of the Bot API and a request that was not completely sent
// are certain failures; anything else is uncertain.
//
//	answer of the Bot API                   outcome
//	429, migrated, 401, 404, 409, 500, 503  Transient: retry (later, elsewhere)
//	400, 403, 413 and other 4xx             Permanent: never in this form
//	502, 504                                Uncertain: a gateway timed out
//	no answer
//	request not completely sent             Transient
//	request sent, cut off or timed out      Uncertain
//	answer of an intermediary
//	3xx, 4xx                                Transient: the request was not passed on
//	2xx, 5xx                                Uncertain
func sendError(err error, to chat.Address) *chat.SendError {
	var (
		we     *apiclient.Error
		flood  *bot.TooManyRequestsError
		chosen *chat.SendError
	)
	switch {
	case errors.As(err, &chosen):
		return chosen
	case errors.As(err, &we) && we.MovedTo != 0:
		dest := to
		dest.Chat, dest.Thread = strconv.FormatInt(we.MovedTo, 10), ""
		return &chat.SendError{Outcome: chat.Transient, MigratedTo: &dest, Reason: "the group has become a supergroup", Err: we}
	case errors.As(err, &we):
		return wireOutcome(we)
	case errors.As(err, &flood):
		after := time.Duration(flood.RetryAfter) * time.Second
		return &chat.SendError{Outcome: chat.Transient, RetryAfter: after, Reason: fmt.Sprintf("Telegram asks to wait %v before writing to this chat again", after), Err: flood}
	case errors.Is(err, bot.ErrorForbidden):
		return &chat.SendError{Outcome: chat.Permanent, Reason: forbiddenReason(err), Err: err}
	case errors.Is(err, bot.ErrorBadRequest):
		reason, refused := badReason(err)
		return &chat.SendError{Outcome: chat.Permanent, Refused: refused, Reason: reason, Err: err}
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound):
		return &chat.SendError{Outcome: chat.Transient, AccountWide: true, Reason: badToken, Err: err}
	case errors.Is(err, bot.ErrorConflict):
		return &chat.SendError{Outcome: chat.Transient, Reason: "Telegram reports a conflict with another process", Err: err}
	}
	return &chat.SendError{Outcome: chat.Uncertain, Reason: "Telegram's answer could not be understood", Err: err}
}

func wireOutcome(e *apiclient.Error) *chat.SendError {
	out := &chat.SendError{Err: e, Outcome: chat.Uncertain}
	switch {
	case e.API && (e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout):
		out.Reason = "Telegram's own gateway gave no result"
	case e.API && e.Status == http.StatusRequestEntityTooLarge:
		out.Outcome, out.Refused, out.Reason = chat.Permanent, true, tooBigUp
	case e.API && e.Status >= 400 && e.Status < 500:
		out.Outcome, out.Reason = chat.Permanent, "Telegram refuses this message"
	case e.API:
		out.Outcome, out.Reason = chat.Transient, "Telegram has an internal problem"
	case e.Status == http.StatusRequestEntityTooLarge:
		out.Outcome, out.Refused, out.Reason = chat.Permanent, true, tooBigUp
	case e.Status >= 300 && e.Status < 500:
		out.Outcome, out.Reason = chat.Transient, "something between here and Telegram answered instead of it"
	case e.Status != 0:
		out.Reason = "the answer did not come from Telegram"
	case !e.Sent:
		out.Outcome, out.Reason = chat.Transient, "Telegram could not be reached"
	case errors.Is(e, context.DeadlineExceeded):
		out.Reason = "Telegram did not answer in time"
	default:
		out.Reason = "the connection broke before Telegram answered"
	}
	return out
}

const (
	badToken   = "Telegram does not know this bot token; put the token of @BotFather into token (TELEGRAM_BOT_TOKEN)"
	tooBigUp   = "the file is larger than 50 MB, the most a bot can send on Telegram"
	tooBigDown = "the file is larger than 20 MB, the most a bot can download from Telegram"
)

func forbiddenReason(err error) string {
	t := strings.ToLower(err.Error())
	switch {
	case strings.Contains(t, "blocked"):
		return "this person has blocked the bot"
	case strings.Contains(t, "deactivated"):
		return "this account no longer exists"
	case strings.Contains(t, "kicked"):
		return "the bot was removed from this chat"
	case strings.Contains(t, "not a member"):
		return "the bot is not a member of this chat"
	case strings.Contains(t, "initiate conversation"):
		return "a bot cannot write first: the person has to start the chat"
	}
	return "the bot may not write in this chat"
}

// badReason returns the reason of a 400 response, and whether it concerns what the
// message contains.
func badReason(err error) (reason string, refused bool) {
	t := strings.ToLower(err.Error())
	for _, r := range []struct {
		has, say string
		refused  bool
	}{
		{"chat not found", "Telegram knows no such chat, or the bot is not in it", false},
		{"peer_id_invalid", "Telegram knows no such chat, or the bot is not in it", false},
		{"message is too long", "the text is longer than Telegram's 4,096 characters", true},
		{"caption is too long", "the caption is longer than Telegram's 1,024 characters", true},
		{"text is empty", "the message is empty", true},
		{"must be non-empty", "the message is empty", true},
		{"thread not found", "the topic no longer exists", false},
		{"topic_closed", "the topic is closed", false},
		{"topic_deleted", "the topic no longer exists", false},
		{"not enough rights", "the bot lacks the right to send this in the chat", false},
		{"have no rights", "the bot lacks the right to send this in the chat", false},
		{"write_forbidden", "the bot lacks the right to send this in the chat", false},
		{"file is too big", tooBigUp, true},
	} {
		if strings.Contains(t, r.has) {
			return r.say, r.refused
		}
	}
	return "Telegram refuses this message", true
}

// refusal returns the lower-case text of a 400 response, "" for any other error.
// Only what Telegram has certainly rejected may be sent again in another form.
func refusal(err error) string {
	if err == nil || !errors.Is(err, bot.ErrorBadRequest) {
		return ""
	}
	return strings.ToLower(err.Error())
}

// gone reports whether a 400 response to an edit or deletion says that the
// message no longer exists or can no longer be changed.
func gone(text string) bool {
	return containsAny(text, "message to edit not found", "message can't be edited", "message to delete not found",
		"message can't be deleted", "message_id_invalid", "there is no text in the message to edit")
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(text, s) })
}

// configError returns the error if only the operator can repair it, nil
// otherwise. A proxy's 401 is not a 401 of the Bot API.
func configError(err error) *chat.ConfigError {
	if errors.Is(err, bot.ErrorUnauthorized) || errors.Is(err, bot.ErrorNotFound) {
		return &chat.ConfigError{Platform: chat.Telegram, Reason: badToken}
	}
	return nil
}
