package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

const token = "99:AAtoken-nobody-may-see"

// against returns an adapter whose server is h.
func against(t *testing.T, h http.HandlerFunc) *telegram.Adapter {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return adapter(t, telegram.Config{BaseURL: srv.URL}, telegram.Options{Log: zap.NewNop()})
}

func adapter(t *testing.T, cfg telegram.Config, o telegram.Options) *telegram.Adapter {
	t.Helper()
	if cfg.Token == "" {
		cfg.Token = secret.Value(token)
	}
	if o.Transport == nil {
		tr := &http.Transport{MaxIdleConnsPerHost: 64}
		t.Cleanup(tr.CloseIdleConnections)
		o.Transport = tr
	}
	o.Memory = newMemory()
	a, err := telegram.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var dm = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "5"}

func hello() chat.Outbound { return chat.Outbound{ID: "o1", To: dm, Text: chat.PlainText("hello")} }

// reply answers with a status and a body once the request is read.
func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refuse(code int, text, more string) http.HandlerFunc {
	return reply(code, fmt.Sprintf(`{"ok":false,"error_code":%d,"description":%q%s}`, code, text, more))
}

// hangUp reads the request and closes the connection after writing some bytes.
func hangUp(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = buf.WriteString(first)
		_ = buf.Flush()
		_ = c.Close()
	}
}

func TestWhatIsKnownOfAFailedSend(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		outcome chat.Outcome
		reason  string
	}{
		{"flood", refuse(429, "Too Many Requests: retry after 149", `,"parameters":{"retry_after":149}`), chat.Transient, "wait 2m29s"},
		{"blocked", refuse(403, "Forbidden: bot was blocked by the user", ""), chat.Permanent, "blocked"},
		{"kicked", refuse(403, "Forbidden: bot was kicked from the supergroup chat", ""), chat.Permanent, "removed"},
		{"deactivated", refuse(403, "Forbidden: user is deactivated", ""), chat.Permanent, "no longer exists"},
		{"may not begin", refuse(403, "Forbidden: bot can't initiate conversation with a user", ""), chat.Permanent, "cannot write first"},
		{"no such chat", refuse(400, "Bad Request: chat not found", ""), chat.Permanent, "no such chat"},
		{"too long", refuse(400, "Bad Request: message is too long", ""), chat.Permanent, "4,096"},
		{"no right", refuse(400, "Bad Request: not enough rights to send text messages to the chat", ""), chat.Permanent, "right"},
		{"token withdrawn", refuse(401, "Unauthorized", ""), chat.Transient, "token"},
		{"internal", refuse(500, "Internal Server Error", ""), chat.Transient, "internal"},
		{"unavailable", refuse(503, "Service Unavailable", ""), chat.Transient, "internal"},
		{"own gateway", refuse(502, "Bad Gateway", ""), chat.Uncertain, "gateway"},
		{"own gateway, late", refuse(504, "Gateway Timeout", ""), chat.Uncertain, "gateway"},
		{"too large", refuse(413, "Request Entity Too Large", ""), chat.Permanent, "50 MB"},
		{"a balancer's 502", reply(502, "<html>bad gateway</html>"), chat.Uncertain, "not come from Telegram"},
		{"a portal's 403", reply(403, "<html>log in</html>"), chat.Transient, "between"},
		{"a portal's redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.invalid/", http.StatusTemporaryRedirect)
		}, chat.Transient, "between"},
		{"a 200 of something else", reply(200, "<html>hello</html>"), chat.Uncertain, "not come from Telegram"},
		{"half an answer", hangUp("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ok\":true"), chat.Uncertain, "broke"},
		{"no answer", hangUp(""), chat.Uncertain, "broke"},
		{"an answer without a message", reply(200, `{"ok":true,"result":true}`), chat.Uncertain, "understood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			a := against(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); c.handler(w, r) })
			_, err := a.Send(t.Context(), hello())
			se := sendError(t, err)
			if se.Outcome != c.outcome || !strings.Contains(se.Reason, c.reason) {
				t.Errorf("got %v %q, want %v with %q", se.Outcome, se.Reason, c.outcome, c.reason)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%d requests for one send", n)
			}
			if content := c.name == "too long" || c.name == "too large"; se.Refused != content {
				t.Errorf("refused %v", se.Refused)
			}
			if c.name == "flood" && (se.RetryAfter != 149*time.Second || se.AccountWide) {
				t.Errorf("after %v global %v", se.RetryAfter, se.AccountWide)
			}
		})
	}
}

func sendError(t *testing.T, err error) *chat.SendError {
	t.Helper()
	var se *chat.SendError
	if !errors.As(err, &se) {
		t.Fatalf("error %v is no SendError", err)
	}
	for e := error(se); e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e), "nobody-may-see") {
			t.Errorf("the token is in %v", e)
		}
	}
	return se
}

func TestAGroupThatHasMovedIsNamed(t *testing.T) {
	a := against(t, refuse(400, "Bad Request: group chat was upgraded to a supergroup chat", `,"parameters":{"migrate_to_chat_id":-1005}`))
	m := hello()
	m.To = chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-5"}
	_, err := a.Send(t.Context(), m)
	want := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1005"}
	if se := sendError(t, err); se.Outcome != chat.Transient || se.MigratedTo == nil || *se.MigratedTo != want {
		t.Errorf("%+v", se)
	}
}

func TestWhatNeverLeftIsRefused(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_ = l.Close()
		_, err = adapter(t, telegram.Config{BaseURL: "http://" + address}, telegram.Options{Log: zap.NewNop()}).Send(t.Context(), hello())
		if se := sendError(t, err); se.Outcome != chat.Transient {
			t.Errorf("%+v", se)
		}
	})
	t.Run("no such name", func(t *testing.T) {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "api.invalid"}
		}}
		_, err := adapter(t, telegram.Config{BaseURL: "http://api.invalid"}, telegram.Options{Log: zap.NewNop(), Transport: tr}).Send(t.Context(), hello())
		if se := sendError(t, err); se.Outcome != chat.Transient {
			t.Errorf("%+v", se)
		}
	})
	t.Run("a certificate of somebody else", func(t *testing.T) {
		srv := httptest.NewUnstartedServer(reply(200, ""))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		defer srv.Close()
		_, err := adapter(t, telegram.Config{BaseURL: srv.URL}, telegram.Options{Log: zap.NewNop()}).Send(t.Context(), hello())
		if se := sendError(t, err); se.Outcome != chat.Transient {
			t.Errorf("%+v", se)
		}
	})
	t.Run("half a file", func(t *testing.T) {
		a := against(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 300<<10)
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		})
		m := hello()
		m.File = &chat.File{Kind: chat.Document, Path: bigFile(t, 8<<20)}
		_, err := a.Send(t.Context(), m)
		if se := sendError(t, err); se.Outcome != chat.Transient {
			t.Errorf("%+v", se)
		}
	})
}

func bigFile(t *testing.T, n int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestASendThatIsCutOffIsUncertain(t *testing.T) {
	got := make(chan struct{})
	end := make(chan struct{})
	a := against(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(got)
		<-end
	})
	defer close(end)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-got; cancel() }() // ends with the request, which Send waits for
	_, err := a.Send(ctx, hello())
	if se := sendError(t, err); se.Outcome != chat.Uncertain {
		t.Errorf("%+v", se)
	}
}

func TestASentMessageIsSentWhateverComesBackWithIt(t *testing.T) {
	a := against(t, reply(200, `{"ok":true,"result":{"message_id":12,"date":1,"chat":{"id":5,"type":"private"},"forward_origin":{"type":"teleport"}}}`))
	r, err := a.Send(t.Context(), hello())
	if err != nil || r.ID != "12" {
		t.Errorf("%v %v", r, err)
	}
}

func TestADownloadThatHasNoEndIsCut(t *testing.T) {
	for _, n := range []int{8, 9, 1 << 16} {
		a := against(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/getFile") {
				reply(200, `{"ok":true,"result":{"file_id":"x","file_path":"documents/a b.txt"}}`)(w, r)
				return
			}
			if want := "/file/bot" + token + "/documents/a b.txt"; r.URL.Path != want {
				t.Errorf("path %q, want %q", r.URL.Path, want)
			}
			w.(http.Flusher).Flush() // no length is told
			_, _ = io.WriteString(w, strings.Repeat("x", n))
		})
		var got strings.Builder
		err := a.Fetch(t.Context(), chat.File{Ref: "x"}, &got, 8)
		if over := n > 8; (err != nil) != over || got.Len() > 8 || over && !strings.Contains(err.Error(), "larger than 1 KB") {
			t.Errorf("%d bytes: %v, %d written", n, err, got.Len())
		}
	}
}
