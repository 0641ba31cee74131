package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"pgregory.net/rapid"

	"hermesd/internal/sim/memnet"
)

func TestWhatIsWrittenIsReadInOrderWhateverThePieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near, far := memnet.Conns("x.test")
		want := bytes.Repeat([]byte("0123456789abcdef!"), rapid.IntRange(0, 20_000).Draw(t, "size"))
		piece := rapid.IntRange(1, 100_000).Draw(t, "piece")
		var all sync.WaitGroup
		all.Go(func() {
			for rest := want; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if n, err := near.Write(rest[:min(piece, len(rest))]); err != nil || n != min(piece, len(rest)) {
					t.Errorf("write: %d, %v", n, err)
					break
				}
			}
			_ = near.Close()
		})
		got, err := io.ReadAll(far)
		all.Wait()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes and %v, want %d", len(got), err, len(want))
		}
		_ = far.Close()
	})
}

func TestAWriteDoesNotWaitForTheReader(t *testing.T) {
	near, far := memnet.Conns("x.test")
	if n, err := near.Write([]byte("on its way")); n != 10 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	_ = far.Close() // its data is lost
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read from a closed peer: %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to a closed peer: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read from a closed end: %v", err)
	}
	if _, err := far.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write to a closed end: %v", err)
	}
}

func TestDeadlinesEndWaitingAndCanBeMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := memnet.Conns("x.test")
		defer func() { _ = far.Close() }()
		start := time.Now()
		for _, wait := range []time.Duration{time.Second, 3 * time.Second} {
			_ = near.SetDeadline(start.Add(wait))
			_, err := near.Read(make([]byte, 1))
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != wait {
				t.Errorf("read: %v after %v, want the deadline after %v", err, time.Since(start), wait)
			}
		}
		if _, err := near.Write(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write after the deadline: %v", err)
		}
		_ = near.SetDeadline(time.Time{})
		_ = near.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := near.Write(make([]byte, 1<<20)); n == 0 || n == 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a reader that does not read: %d, %v", n, err)
		}
		time.AfterFunc(time.Minute, func() { _ = near.SetReadDeadline(time.Unix(1, 0)) })
		_ = near.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 64*time.Second {
			t.Errorf("a deadline moved to the past: %v after %v", err, time.Since(start))
		}
		_ = near.Close()
	})
}

func TestAWebsocketRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen("gateway.test:443")
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			for {
				kind, m, err := c.ReadMessage()
				if err != nil {
					return
				}
				<-time.After(time.Hour)
				if err := c.WriteMessage(kind, m); err != nil {
					return
				}
			}
		})}
		var all sync.WaitGroup
		all.Go(func() { _ = srv.Serve(l) })
		defer all.Wait()
		defer func() { _ = srv.Close() }()
		d := websocket.Dialer{NetDialContext: l.Dial, NetDialTLSContext: l.Dial}
		for _, url := range []string{"ws://gateway.test", "wss://gateway.test"} {
			c, resp, err := d.DialContext(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			start := time.Now()
			if err := c.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, m, err := c.ReadMessage(); err != nil || string(m) != "hello" || time.Since(start) != time.Hour {
				t.Errorf("%s: got %q, %v after %v", url, m, err, time.Since(start))
			}
			_ = c.Close()
		}
	})
}

func TestAClosedListenerRefuses(t *testing.T) {
	l := memnet.Listen("x.test")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx, "tcp", "a:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts: %v", err)
	}
	_, _ = l.Close(), l.Close()
	if _, err := l.Dial(t.Context(), "tcp", "a:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
}
