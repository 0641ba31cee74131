package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/prompt"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// An instantTransport reads a request and answers at once.
type instantTransport struct{}

const answerStream = `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"yes"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

`

func (instantTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(answerStream)), Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// BenchmarkTurnInLongSession runs a turn from accept to send in a session with many
// stored messages, with the real store and request encoding, without a network.
func BenchmarkTurnInLongSession(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("messages=", n), func(b *testing.B) {
			store, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "hermesd.db"), bolt.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			sent := make(chan struct{}, 1)
			w := &notifyingAdapter{fakeAdapter: newFakeAdapter(), sent: sent}
			provider := anthropic.New(anthropic.Options{Key: "sk-ant-benchmark", HTTP: &http.Client{Transport: instantTransport{}}})
			gw := gatewaytest.New(gatewaytest.Options{
				Store: store, Agent: agent.New(agent.Config{}, provider, noTools(b)),
				Accounts: accountsOf(w), Access: defaultChecker(b),
				Prefix: func(r session.Record) (prompt.Prefix, []string) {
					return prompt.Build(prompt.Inputs{Session: string(r.ID)}), nil
				},
				Model: "claude-sonnet-4-5", CacheTTL: "5m", Mode: inbox.Queue, Uncertain: outbox.Resend,
				Limits: gateway.Config{MaxConcurrentTurns: 4, MaxQueuedMessages: 100, TranscriptCacheBytes: 64 << 20, DrainTimeout: time.Second},
			})
			if err := gw.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = gw.Stop(context.Background()) }()
			say := func(i int) {
				err := gw.Accept(b.Context(), []chat.Inbound{{
					IdempotencyKey: fmt.Sprint("7:", i), ID: fmt.Sprint(i), Kind: chat.Message, Text: "and now?", SentAt: time.Now(), Addressed: true,
					Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}, Sender: chat.Person{ID: "7"},
				}})
				if err != nil {
					b.Fatal(err)
				}
				<-sent
			}
			say(0)
			fill(b, store, n-2)
			say(1) // reads the transcript into memory
			b.ResetTimer()
			for i := range b.N {
				say(i + 2)
			}
		})
	}
}

// fill appends n messages to the transcript of the only session.
func fill(b *testing.B, db *bolt.Store, n int) {
	ctx := b.Context()
	recs, err := db.Sessions(ctx, session.Query{Max: 1})
	if err != nil || len(recs) != 1 {
		b.Fatal(len(recs), err)
	}
	rec := recs[0]
	e := inbox.Entry{Lane: inbox.LaneOf(rec.Key), Session: rec.Key, State: inbox.Waiting, Inbound: chat.Inbound{IdempotencyKey: "7:fill", ID: "fill", Address: rec.Address}}
	taken, err := db.Accept(ctx, []store.Admission{{Entry: e, Claim: true}})
	if err != nil {
		b.Fatal(err)
	}
	var rows []store.Doc[llm.Message]
	for i := range n {
		m := llm.UserText(fmt.Sprintf("message %d, about as long as people write in a chat", i))
		if i%2 == 1 {
			m = llm.AssistantText(fmt.Sprintf("answer %d, which is a little longer than what people write in a chat", i))
		}
		raw, err := json.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		rows = append(rows, raw)
	}
	rec.Messages += n
	_, err = db.CommitTurn(ctx, *taken[0].Claim, store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Session: rec, Messages: rows})
	if err != nil {
		b.Fatal(err)
	}
}

// A notifyingAdapter signals each send.
type notifyingAdapter struct {
	*fakeAdapter
	sent chan<- struct{}
}

func (q *notifyingAdapter) Send(context.Context, chat.Outbound) (chat.Receipt, error) {
	q.sent <- struct{}{}
	return chat.Receipt{ID: "1"}, nil
}
