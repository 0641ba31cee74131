package memnet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// to returns a client of h and a function that waits for its requests.
func to(h http.HandlerFunc) (*http.Client, func()) {
	var all sync.WaitGroup
	t := memnet.Transport{Handler: h, Begin: func(f func()) bool { all.Go(f); return true }}
	return &http.Client{Transport: t}, all.Wait
}

func get(ctx context.Context, c *http.Client, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x.test/p", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return c.Do(r)
}

func TestAnAnswerStreams(t *testing.T) {
	next := make(chan struct{})
	c, wait := to(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		w.Header().Set("X-In", string(in))
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "lost")
		for range 2 {
			_, _ = io.WriteString(w, "piece")
			<-next
		}
	})
	defer wait()
	resp, err := get(t.Context(), c, "hi")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-In") != "hi" || resp.Header.Get("X-Late") != "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	for range 2 {
		b := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "piece" {
			t.Fatalf("got %q, %v", b, err)
		}
		next <- struct{}{}
	}
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
		t.Errorf("at the end: %q, %v", b, err)
	}
}

func TestConnectionsBreak(t *testing.T) {
	for _, before := range []bool{true, false} {
		c, wait := to(func(w http.ResponseWriter, _ *http.Request) {
			if !before {
				_, _ = io.WriteString(w, "half")
			}
			panic(http.ErrAbortHandler)
		})
		resp, err := get(t.Context(), c, "")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("before the answer %v: got %v", before, err)
		}
		wait()
	}
}

func TestAClientThatGoesAwayFreesTheHandler(t *testing.T) {
	c, wait := to(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if resp, err := get(ctx, c, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", resp, err)
	}
	wait()
	c, wait = to(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, "more"); err != nil {
				return
			}
		}
	})
	resp, err := get(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	wait()
}

func TestAClosedServerIsNotReached(t *testing.T) {
	c := &http.Client{Transport: memnet.Transport{Begin: func(func()) bool { return false }}}
	if resp, err := get(t.Context(), c, ""); err == nil {
		t.Errorf("got %v", resp)
	}
}
