package telegram_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/telegram"
)

// A door is a socket in memory.
type door struct {
	mu    sync.Mutex // guards what follows
	conns chan net.Conn
	end   chan struct{}
	fails int // how often listening fails first
}

func (d *door) listen(string, string) (net.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails > 0 {
		d.fails--
		return nil, errors.New("address already in use")
	}
	d.conns, d.end = make(chan net.Conn), make(chan struct{})
	return &doorListener{d.conns, d.end, sync.Once{}}, nil
}

func (d *door) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.mu.Lock()
	conns, end := d.conns, d.end
	d.mu.Unlock()
	here, there := net.Pipe()
	select {
	case conns <- there:
		return here, nil
	case <-end:
	case <-ctx.Done():
	}
	return nil, errors.New("connection refused")
}

type doorListener struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func (l *doorListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *doorListener) Close() error   { l.once.Do(func() { close(l.end) }); return nil }
func (l *doorListener) Addr() net.Addr { return &net.TCPAddr{} }

const hookURL = "https://bot.invalid/hooks/telegram"

// hooked is a world whose simulator delivers to d, and an adapter behind it.
func hooked(t *testing.T, d *door) (*world, *telegram.Adapter, *http.Client) {
	t.Helper()
	tr := &http.Transport{DialTLSContext: d.dial, DialContext: d.dial}
	t.Cleanup(tr.CloseIdleConnections)
	w := newWorld(t, sim.Options{Webhooks: tr})
	c := w.config("")
	c.WebhookURL, c.WebhookSecret = hookURL, "hook-secret"
	own := w.srv.Transport()
	t.Cleanup(own.CloseIdleConnections)
	a, err := telegram.New(c, telegram.Options{Log: zap.NewNop(), Transport: own, Listen: d.listen, Memory: w.memory})
	if err != nil {
		t.Fatal(err)
	}
	return w, a, &http.Client{Transport: tr}
}

func TestAWebhookIsConfirmedOnlyWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, _ := hooked(t, &door{fails: 1})
		inbox, r, g := adaptertest.NewInbox(t), w.direct(), w.Group("", 0)
		r.Say("before it was set")
		end := running(t, a, inbox)
		pass(5 * time.Second)
		g.Say("in a group")
		pass(time.Second)
		inbox.Fail(true)
		r.Say("while nothing is stored")
		pass(10 * time.Second)
		if n := w.bots[""].Pending(); n != 1 || inbox.Refused() == 0 {
			t.Errorf("%d pending, %d refused", n, inbox.Refused())
		}
		inbox.Fail(false)
		pass(5 * time.Minute)
		want := []string{"before it was set", "while nothing is stored"}
		if got := inbox.Texts(r.At()); !slices.Equal(got, want) || len(inbox.Texts(g.At())) != 1 {
			t.Errorf("%q and %q", got, inbox.Texts(g.At()))
		}
		if h := a.Health(); h.State != chat.Connected || time.Since(h.LastContact) > 2*time.Minute {
			t.Errorf("health %+v", h)
		}
		set := w.srv.Recorder().Calls("setWebhook")
		if p := set[0].Params; p["secret_token"] != "hook-secret" || p["drop_pending_updates"] != "" || p["max_connections"] != "1" {
			t.Errorf("%v", p)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAWebhookTurnsAwayWhatIsNotTelegram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, client := hooked(t, &door{})
		inbox := adaptertest.NewInbox(t)
		running(t, a, inbox)
		pass(time.Second)
		good := `{"update_id":1,"message":{"message_id":50,"date":1,"chat":{"id":5,"type":"private"},"from":{"id":5},"text":"hi"}}`
		for _, c := range []struct {
			name, method, path, secret, body string
			want                             int
		}{
			{"no secret", "POST", "", "", good, 401},
			{"another secret", "POST", "", "hook-secre", good, 401},
			{"a longer secret", "POST", "", "hook-secret2", good, 401},
			{"a GET", "GET", "", "hook-secret", "", 405},
			{"too large", "POST", "", "hook-secret", strings.Repeat("x", 2<<20), 413},
			{"no JSON", "POST", "", "hook-secret", "{", 200},
			{"another path", "POST", "/other", "hook-secret", good, 404},
			{"good", "POST", "", "hook-secret", good, 200},
		} {
			u := hookURL
			if c.path != "" {
				u = "https://bot.invalid" + c.path
			}
			req, err := http.NewRequestWithContext(t.Context(), c.method, u, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Telegram-Bot-Api-Secret-Token", c.secret)
			resp, err := client.Do(req)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s: %d, want %d", c.name, resp.StatusCode, c.want)
			}
		}
		_ = w
		if n := len(inbox.Texts(chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "5"})); n != 1 {
			t.Errorf("%d messages were taken", n)
		}
	})
}

func TestAWebhookThatWasTakenAwayIsSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, _ := hooked(t, &door{})
		inbox, r := adaptertest.NewInbox(t), w.direct()
		running(t, a, inbox)
		pass(time.Second)
		resp, err := w.srv.Client().Get(w.srv.URL() + "/bot" + w.bots[""].Token() + "/deleteWebhook")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		r.Say("hello")
		pass(3 * time.Minute)
		if got := inbox.Texts(r.At()); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

func TestConfigErrorsSayWhatToDo(t *testing.T) {
	good := telegram.Config{Token: "99:abc"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*telegram.Config)
		want   string
	}{
		{func(c *telegram.Config) { c.Token = "" }, "TELEGRAM_BOT_TOKEN"},
		{func(c *telegram.Config) { c.Token = "abc" }, "not a bot token"},
		{func(c *telegram.Config) { c.Token = "99:a/../b" }, "not a bot token"},
		{func(c *telegram.Config) { c.BaseURL = "ftp://x" }, "api_url"},
		{func(c *telegram.Config) { c.Proxy = secret.Value("nonsense-with-password") }, "proxy"},
		{func(c *telegram.Config) { c.WebhookURL = hookURL }, "webhook_secret: required"},
		{func(c *telegram.Config) { c.WebhookURL, c.WebhookSecret = "http://x/", "s" }, "webhook_url"},
		{func(c *telegram.Config) { c.WebhookURL, c.WebhookSecret = hookURL, "not allowed!" }, "webhook_secret: must"},
		{func(c *telegram.Config) {
			c.WebhookURL, c.WebhookSecret, c.WebhookListen = hookURL, "s", "nowhere"
		}, "webhook_listen"},
		{func(c *telegram.Config) { c.MentionPatterns = []string{"("} }, `mention_patterns: "("`},
		{func(c *telegram.Config) { c.AllowedChats = []string{"@team"} }, `allowed_chats: "@team"`},
		{func(c *telegram.Config) { c.FreeResponseChats = []string{"x"} }, "free_response_chats"},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "nonsense-with-password") {
			t.Errorf("got %v, want %q", err, c.want)
		}
		_, err = telegram.New(cfg, telegram.Options{Log: zap.NewNop(), Memory: newMemory()})
		var ce *chat.ConfigError
		if !errors.As(err, &ce) || strings.Contains(ce.Reason, "\n") {
			t.Errorf("New: %v", err)
		}
	}
}
