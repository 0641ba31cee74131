package anthropic_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
)

// A recorder is an unreachable service that stores the request it should get.
type recorder struct {
	last *http.Request
	read bool
	body []byte
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	r.last = q
	if r.read {
		var err error
		if r.body, err = io.ReadAll(q.Body); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("no route to host")
}

func (r *recorder) ask(t testing.TB, q *llm.Request) {
	p := anthropic.New(anthropic.Options{Key: "k", HTTP: &http.Client{Transport: r}})
	for _, err := range p.Stream(t.Context(), q) {
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.Network {
			t.Fatal(err)
		}
	}
}

func long(n int) *llm.Transcript {
	tr := llm.NewTranscript()
	for i := range n / 2 {
		tr.Append(llm.UserText(fmt.Sprintf("question %d %s", i, strings.Repeat("word ", 20))), llm.AssistantText("answer "+strings.Repeat("word ", 20)))
	}
	tr.Append(llm.UserText("now"))
	return tr
}

// TestBodyEqualsEncode checks that the body of a conversation of any length equals the output of
// Encode, has its length, and stays the same for a retry, even if the conversation changes.
func TestBodyEqualsEncode(t *testing.T) {
	for _, n := range []int{0, 2, 200, 2_000} {
		for _, prefill := range [][]llm.Message{nil, {llm.UserText("p"), llm.AssistantText("q")}} {
			r := &llm.Request{Model: "claude-opus-4-8", System: "s", CacheTTL: "5m", Prefill: prefill, Transcript: long(n), Overlay: "o"}
			want := []byte(body(t, r))
			rec := &recorder{read: true}
			rec.ask(t, r)
			if !bytes.Equal(rec.body, want) {
				t.Fatalf("%d messages: sent\n%s\nwant\n%s", n, rec.body, want)
			}
			if rec.last.ContentLength != int64(len(want)) {
				t.Errorf("a length of %d was announced, it is %d", rec.last.ContentLength, len(want))
			}
			r.Transcript.Truncate(n / 2)
			r.Transcript.Append(llm.AssistantText("something else"), llm.UserText("and more"))
			rec.ask(t, r)
			first := rec.last
			r.Transcript.Truncate(n / 4)
			r.Transcript.Append(llm.AssistantText("x"), llm.UserText("y"))
			rec.ask(t, r)
			again, err := first.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(again)
			if err != nil || int64(len(got)) != first.ContentLength || !bytes.Contains(got, []byte("something else")) || bytes.Contains(got, []byte("\"y\"")) {
				t.Errorf("%d messages: a second try is sent %s (%v)", n, got, err)
			}
		}
	}
}

// BenchmarkStream sends a request for a transcript of the given number of messages, to
// which two are added each time, without the copying done by the connection.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tr := long(n)
			r := &llm.Request{Model: "claude-opus-4-8", System: "s", CacheTTL: "5m", Transcript: tr, Overlay: "o"}
			rec := &recorder{}
			rec.ask(b, r)
			b.SetBytes(rec.last.ContentLength)
			b.ReportAllocs()
			for b.Loop() {
				tr.Append(llm.AssistantText("more"), llm.UserText("and more"))
				rec.ask(b, r)
			}
		})
	}
}
