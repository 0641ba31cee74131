package apierror_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/gateway/chat"
)

func TestWhatACallThatFailedMeans(t *testing.T) {
	api := func(status, code int) *apiclient.Error {
		return &apiclient.Error{Sent: true, API: true, Status: status, Code: code}
	}
	for _, c := range []struct {
		name  string
		err   error
		want  chat.Outcome
		after time.Duration
		all   bool // Global
		has   string
	}{
		{"rate of a channel", &apiclient.Error{Sent: true, API: true, Status: 429, After: 650 * time.Millisecond}, chat.Transient, 650 * time.Millisecond, false, "650ms"},
		{"rate of the bot", &apiclient.Error{Sent: true, API: true, Status: 429, After: time.Second, Global: true}, chat.Transient, time.Second, true, "anywhere"},
		{"a ban", &apiclient.Error{Sent: true, Status: 429, After: time.Minute, Global: true}, chat.Transient, time.Minute, true, "keeps this address out"},
		{"bad token", api(401, 0), chat.Transient, 0, true, "DISCORD_BOT_TOKEN"},
		{"500", api(500, 0), chat.Uncertain, 0, false, "internal problem"},
		{"502", &apiclient.Error{Sent: true, Status: 502}, chat.Uncertain, 0, false, "did not come from"},
		{"503", api(503, 0), chat.Uncertain, 0, false, "internal problem"},
		{"a proxy refuses", &apiclient.Error{Sent: true, Status: 407}, chat.Transient, 0, false, "something between"},
		{"too large for a proxy", &apiclient.Error{Sent: true, Status: 413}, chat.Permanent, 0, false, "smaller"},
		{"no connection", &apiclient.Error{}, chat.Transient, 0, false, "could not be reached"},
		{"too late", sentError(context.DeadlineExceeded), chat.Uncertain, 0, false, "in time"},
		{"cut", sentError(net.ErrClosed), chat.Uncertain, 0, false, "broke"},
		{"something else", errors.New("?"), chat.Uncertain, 0, false, "understood"},
		{"no channel", api(404, 10003), chat.Permanent, 0, false, "no longer exists"},
		{"no guild", api(404, 10004), chat.Permanent, 0, false, "invite"},
		{"no member", api(404, 10007), chat.Permanent, 0, false, "no longer in"},
		{"no message", api(404, 10008), chat.Permanent, 0, false, "message no longer exists"},
		{"no interaction", api(404, 10062), chat.Permanent, 0, false, "use it again"},
		{"no access", api(403, 50001), chat.Permanent, 0, false, "View Channel"},
		{"an empty message", api(400, 50006), chat.Permanent, 0, false, "empty"},
		{"no direct messages", api(403, 50007), chat.Permanent, 0, false, "privacy settings"},
		{"no rights", api(403, 50013), chat.Permanent, 0, false, "Send Messages"},
		{"token of an interaction", api(401, 50027), chat.Transient, 0, true, "DISCORD_BOT_TOKEN"}, // of a send; answers look at the status
		{"too long", &apiclient.Error{API: true, Status: 400, Code: 50035, Detail: `{"content":{"_errors":[{"code":"base_type_max_length"}]}}`}, chat.Permanent, 0, false, "2,000"},
		{"bad text", &apiclient.Error{API: true, Status: 400, Code: 50035, Detail: `{"content":{}}`}, chat.Permanent, 0, false, "does not take this text"},
		{"bad form", api(400, 50035), chat.Permanent, 0, false, "refuses this message"},
		{"archived", api(400, 50083), chat.Permanent, 0, false, "Manage Threads"},
		{"no shared server", api(403, 50278), chat.Permanent, 0, false, "share no"},
		{"too many threads", api(400, 160006), chat.Permanent, 0, false, "archive some"},
		{"moderation", api(400, 200000), chat.Permanent, 0, false, "AutoMod"},
		{"too large", api(413, 40005), chat.Permanent, 0, false, "smaller"},
		{"an unknown 403", api(403, 1), chat.Permanent, 0, false, "does not allow"},
		{"an unknown 404", api(404, 1), chat.Permanent, 0, false, "no such place"},
		{"an unknown 400", api(400, 1), chat.Permanent, 0, false, "refuses"},
		{"what is known already", fmt.Errorf("x: %w", &chat.SendError{Outcome: chat.Permanent, Reason: "said"}), chat.Permanent, 0, false, "said"},
	} {
		se := apierror.SendError(c.err)
		if se.Outcome != c.want || se.RetryAfter != c.after || se.AccountWide != c.all || !strings.Contains(se.Reason, c.has) {
			t.Errorf("%s: %+v", c.name, se)
		}
		content := []string{"an empty message", "too long", "bad text", "bad form", "moderation", "too large", "too large for a proxy"}
		if se.Refused != slices.Contains(content, c.name) {
			t.Errorf("%s: refused %v", c.name, se.Refused)
		}
	}
}

// sentError is that of a call that left and then met err.
func sentError(err error) error { return fmt.Errorf("%w", apiclient.Lost(true, err)) }

func TestClosesThatStay(t *testing.T) {
	for code := 4000; code < 4020; code++ {
		final := code == 4004 || code >= 4010 && code <= 4014
		if why := apierror.FinalClose(code); (why != "") != final || strings.Contains(why, "\n") {
			t.Errorf("%d: %q", code, why)
		}
	}
}

func TestWhatIsGone(t *testing.T) {
	cause := &apiclient.Error{API: true, Status: 404, Code: 10008}
	if err := apierror.Gone(cause); !errors.Is(err, chat.ErrGone) || apierror.Status(err) != 404 {
		t.Errorf("%v", err)
	}
}
