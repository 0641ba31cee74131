package apiclient_test

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	sim "hermesd/internal/sim/llm"
	"hermesd/internal/sim/memnet"
)

// TestConnectionIsReused tests that a service which ends its responses a little after the
// answers gets the next request over the same connection, and that a response without an
// end does not keep its connection.
func TestConnectionIsReused(t *testing.T) {
	for name, provider := range map[string]func(*http.Client) llm.Provider{
		"anthropic": func(c *http.Client) llm.Provider {
			return anthropic.New(anthropic.Options{BaseURL: "http://model.test", Key: "k", HTTP: c})
		},
		"openai": func(c *http.Client) llm.Provider {
			return openai.New(openai.Options{BaseURL: "http://model.test/v1", Key: "k", HTTP: c})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sim.New(sim.Options{})
				defer s.Close()
				var endless atomic.Bool
				var ended atomic.Int32
				l := memnet.Listen("model.test:80")
				web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.ServeHTTP(w, r)
					_ = http.NewResponseController(w).Flush()
					if endless.Load() {
						<-r.Context().Done()
					} else {
						<-time.After(10 * time.Millisecond)
					}
					ended.Add(1)
				})}
				go web.Serve(l)
				defer web.Close()
				transport := &http.Transport{DialContext: l.Dial}
				defer transport.CloseIdleConnections()
				p := provider(&http.Client{Transport: transport})

				ask := func() (reused bool) {
					t.Helper()
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
					began := time.Now()
					got := llmtest.Collect(p.Stream(ctx, &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText("hi"))}))
					if got.Err != nil || got.Done == nil {
						t.Fatal(got.Err)
					}
					if took := time.Since(began); took != 0 {
						t.Errorf("the answer came after %v", took)
					}
					<-time.After(5 * time.Second)
					return reused
				}
				ask()
				if !ask() {
					t.Error("a second request has a new connection")
				}
				endless.Store(true)
				ask()
				if n := ended.Load(); n != 3 {
					t.Errorf("%d of 3 responses have ended", n)
				}
				endless.Store(false)
				if ask() {
					t.Error("a response without an end left a connection")
				}
			})
		})
	}
}
