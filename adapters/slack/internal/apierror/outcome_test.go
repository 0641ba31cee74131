package apierror_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/gateway/chat"
)

func TestOf(t *testing.T) {
	said := func(code string) error { return fmt.Errorf("call: %w", slack.SlackErrorResponse{Err: code}) }
	chosen := &chat.SendError{Outcome: chat.Permanent, Reason: "no"}
	for _, c := range []struct {
		err    error
		want   chat.Outcome
		after  time.Duration
		global bool
		has    string
	}{
		{chosen, chat.Permanent, 0, false, "no"},
		{&slack.RateLimitedError{RetryAfter: 7 * time.Second}, chat.Transient, 7 * time.Second, false, "7s"},
		{said("ratelimited"), chat.Transient, 0, false, "does not say"},
		{said("invalid_auth"), chat.Transient, 0, true, "SLACK_BOT_TOKEN"},
		{said("token_revoked"), chat.Transient, 0, true, "revoked"},
		{said("fatal_error"), chat.Uncertain, 0, false, "internal"},
		{said("request_timeout"), chat.Transient, 0, false, "not available"},
		{slack.SlackErrorResponse{Err: "missing_scope", Needed: "chat:write"}, chat.Transient, 0, false, "chat:write"},
		{said("missing_scope"), chat.Transient, 0, false, "OAuth & Permissions"},
		{said("is_archived"), chat.Permanent, 0, false, "archived"},
		{slack.SlackErrorResponse{Err: "invalid_blocks", ResponseMetadata: slack.ResponseMetadata{Messages: []string{"[ERROR] x"}}}, chat.Permanent, 0, false, "[ERROR] x"},
		{said("who_knows"), chat.Permanent, 0, false, "who_knows"},
		{slack.StatusCodeError{Code: 502}, chat.Uncertain, 0, false, "502"},
		{slack.StatusCodeError{Code: 407}, chat.Transient, 0, false, "proxy"},
		{slack.StatusCodeError{Code: 429}, chat.Transient, 0, false, "wait"},
		{errors.New("unexpected end of JSON"), chat.Uncertain, 0, false, "understood"},
	} {
		got := apierror.SendError(c.err)
		if got.Outcome != c.want || got.RetryAfter != c.after || got.AccountWide != c.global || !strings.Contains(got.Reason, c.has) {
			t.Errorf("%v: %+v", c.err, got)
		}
		if content := strings.Contains(c.err.Error(), "invalid_blocks"); got.Refused != content {
			t.Errorf("%v: refused %v", c.err, got.Refused)
		}
	}
}

func TestWhatOnlyTheOperatorCanRepair(t *testing.T) {
	for code, want := range map[string][2]bool{ // for the bot token, for the app token
		"invalid_auth": {true, true}, "not_authed": {true, true}, "account_inactive": {true, true}, "token_revoked": {true, true},
		"not_allowed_token_type": {true, true}, "missing_scope": {false, true}, "forbidden_team": {false, true},
		"ratelimited": {}, "internal_error": {}, "": {},
	} {
		err := error(slack.SlackErrorResponse{Err: code})
		for i, got := range []error{apierror.Config(err), apierror.Socket(err)} {
			var ce *chat.ConfigError
			if errors.As(got, &ce) != want[i] || ce != nil && (strings.Contains(ce.Reason, "\n") || !strings.Contains(ce.Reason, []string{"SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"}[i])) {
				t.Errorf("%s: %v", code, got)
			}
		}
	}
	if apierror.Config(nil) != nil || apierror.Socket(errors.New("x")) != nil || apierror.Code(nil) != "" {
		t.Error("no error of the Web API is one")
	}
}
