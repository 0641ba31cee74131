package telegram_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/internal/sim/telegram"
)

func copyAll(w io.Writer, r io.ReadCloser) (int64, error) {
	defer func() { _ = r.Close() }()
	return io.Copy(w, r)
}

func reply(status int, body string, header map[string]string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)),
	}
	for k, v := range header {
		resp.Header.Set(k, v)
	}
	return resp
}

func refuse(status int, header map[string]string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return reply(status, "", header), nil }
}

// TestWebhookRetries checks that retries follow after 2, 4, ... seconds or as
// the receiver demands, in the order of the chat, until the receiver accepts
// the update.
func TestWebhookRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{plan: []func(*http.Request) (*http.Response, error){
			refuse(500, nil), refuse(502, nil),
			func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") },
			refuse(503, map[string]string{"Retry-After": "30"}),
		}}
		p := newPlace(t, telegram.Options{Webhooks: r})
		p.dm.Say(p.ann, "one")
		p.dm.Say(p.ann, "two")
		start := time.Now()
		mustOK(t, p.call(t, "setWebhook", "url", "http://hook.invalid/x", "secret_token", "abc-1"))
		<-time.After(5 * time.Second)
		var info struct {
			URL     string `json:"url"`
			Pending int    `json:"pending_update_count"`
			Error   string `json:"last_error_message"`
			Date    int64  `json:"last_error_date"`
			Max     int    `json:"max_connections"`
		}
		if err := json.Unmarshal(p.call(t, "getWebhookInfo").Result, &info); err != nil {
			t.Fatal(err)
		}
		if info.Pending != 2 || !strings.Contains(info.Error, "Connection failed: ") || info.Max != 40 || info.Date == 0 {
			t.Errorf("info: %+v", info)
		}
		if err := p.Recorder().WaitCount(t.Context(), 2, func(c telegram.Counts) int { return c.Confirmed }); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, when := range r.times {
			at = append(at, when.Sub(start))
		}
		const s = time.Second
		if d := cmp.Diff([]time.Duration{0, 0, 2 * s, 6 * s, 36 * s, 36 * s}, at); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		for i, body := range r.bodies {
			if want := i == 5; strings.Contains(body, `"two"`) != want {
				t.Errorf("call %d: %s", i, body)
			}
			if r.secrets[i] != "abc-1" {
				t.Errorf("call %d: secret %q", i, r.secrets[i])
			}
		}
	})
}

// TestWebhookSlowChat checks that a chat with a slow receiver does not delay
// other chats.
func TestWebhookSlowChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{plan: []func(*http.Request) (*http.Response, error){
			func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			},
		}}
		p := newPlace(t, telegram.Options{Webhooks: r})
		mustOK(t, p.call(t, "setWebhook", "url", "http://hook.invalid/x"))
		p.dm.Say(p.ann, "stuck")
		synctest.Wait()
		bob := p.AddUser(telegram.Person{})
		bob.Chat(p.bot).Say(bob, "quick")
		synctest.Wait()
		o := p.Recorder().Offers()
		if !o[0].Confirmed.IsZero() || o[1].Confirmed.IsZero() {
			t.Errorf("offers: %+v", o)
		}
		mustOK(t, p.call(t, "deleteWebhook"))
		if got := p.updates(t); len(got) != 1 || got[0].Message.Text != "stuck" {
			t.Errorf("left for polling: %+v", got)
		}
	})
}

func TestWebhookAnswerIsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		p := newPlace(t, telegram.Options{Webhooks: r})
		r.plan = append(r.plan, func(*http.Request) (*http.Response, error) {
			return reply(200, `{"method":"sendMessage","chat_id":100001,"text":"by return"}`, nil), nil
		})
		mustOK(t, p.call(t, "setWebhook", "url", "http://hook.invalid/x"))
		p.dm.Say(p.ann, "hi")
		if _, err := p.dm.WaitText(t.Context(), "by return"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWebhookGivesUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		for range 2000 {
			r.plan = append(r.plan, refuse(500, nil))
		}
		p := newPlace(t, telegram.Options{Webhooks: r})
		mustOK(t, p.call(t, "setWebhook", "url", "http://hook.invalid/x"))
		p.dm.Say(p.ann, "hi")
		if err := p.Recorder().WaitCount(t.Context(), 1, func(c telegram.Counts) int { return c.Forgotten }); err != nil {
			t.Fatal(err)
		}
		if o := p.Recorder().Offers()[0]; time.Since(o.At) < 23*time.Hour || !o.Confirmed.IsZero() {
			t.Errorf("given up after %v: %+v", time.Since(o.At), o)
		}
	})
}

func TestSetWebhookRefuses(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	for _, tc := range []struct{ url, secret, want string }{
		{"http://example.com/", "", "Bad Request: bad webhook: An HTTPS URL must be provided for webhook"},
		{"https://", "", "Bad Request: invalid webhook URL specified"},
		{"https://example.com/", "not allowed!", "Bad Request: secret token contains unallowed characters"},
		{"https://example.com/", strings.Repeat("x", 257), "Bad Request: secret token is too long"},
	} {
		mustRefuse(t, p.call(t, "setWebhook", "url", tc.url, "secret_token", tc.secret), 400, tc.want)
	}
	p.dm.Say(p.ann, "old")
	mustOK(t, p.call(t, "deleteWebhook", "drop_pending_updates", "true"))
	if n := p.bot.Pending(); n != 0 {
		t.Errorf("%d pending after drop_pending_updates", n)
	}
	if o := p.Recorder().Offers()[0]; !o.Forgotten {
		t.Errorf("offer: %+v", o)
	}
}
