package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

// TestACrowdGetsEachItsOwnAnswer: many clients, in a few sessions, streaming or
// not, with keys or without, patient or not. Who stays gets the answer to what
// it said and no other; nothing hangs; each message is taken at most once.
func TestACrowdGetsEachItsOwnAnswer(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { crowd(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func crowd(t *testing.T, chance *rand.Rand) {
	d := start(t, func(c *httpapi.Config, o *httpapi.Options) { c.MaxConcurrent, o.Log = 1024, zap.NewNop() })
	var mu sync.Mutex // guards chance
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return chance.IntN(n)
	}
	d.answers(func(in chat.Inbound) {
		text := "you said: " + in.Text
		for n := 0; n < len(text) && roll(3) > 0; n += 3 {
			<-time.After(time.Duration(roll(50)) * time.Millisecond)
			_ = d.says(in, chat.PurposePreview, text[:n]) // perhaps nobody is there any more
		}
		var se *chat.SendError
		if err := d.says(in, chat.PurposeAnswer, text); err != nil && (!errors.As(err, &se) || se.Outcome != chat.Permanent) {
			t.Errorf("%q: %v", in.Text, err)
		}
	})
	var clients sync.WaitGroup
	for i := range 150 {
		clients.Go(func() {
			<-time.After(time.Duration(roll(2000)) * time.Millisecond)
			text, stream := fmt.Sprintf("message %d", i), roll(2) == 0
			key := ""
			if roll(3) == 0 {
				text = fmt.Sprintf("shared %d", i%7)
				key = text
			}
			for { // who has a key and loses its patience comes back
				patience := time.Hour
				if roll(3) == 0 {
					patience = time.Duration(roll(300)) * time.Millisecond
				}
				got, gone := d.visit(text, stream, key, i%4, patience)
				if gone && key != "" {
					continue
				}
				if !gone && got != "you said: "+text {
					t.Errorf("%q got %q", text, got)
				}
				return
			}
		})
	}
	clients.Wait()
	taken := map[string]int{}
	for _, in := range d.taken() {
		if taken[in.Text+in.Address.Chat]++; taken[in.Text+in.Address.Chat] > 1 {
			t.Errorf("%q was taken twice", in.Text)
		}
	}
	if len(taken) < 50 {
		t.Errorf("only %d were taken", len(taken))
	}
}

// visit is one request of a client; gone says that it lost its patience.
func (d *daemon) visit(text string, stream bool, key string, session int, patience time.Duration) (got string, gone bool) {
	body := user(text)
	if stream {
		body = streamed(text)
	}
	r := ask(d.t, body)
	r.Header.Set("X-Hermes-Session", fmt.Sprintf("s%d", session))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := d.web.Do(r.WithContext(ctx))
	if err != nil {
		return err.Error(), ctx.Err() != nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error(), ctx.Err() != nil
	}
	if stream {
		return events(d.t, raw).text(), false
	}
	_, rest, _ := strings.Cut(string(raw), `"content":"`)
	got, _, _ = strings.Cut(rest, `"`)
	return got, false
}
