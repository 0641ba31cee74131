package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

// childEnv, if set, has this process serve the API instead of running tests:
// for clients of other modules. Its value is the key; the address is the first
// line of the output, and the end of the input is the end.
const childEnv = "HTTPAPI_TEST_CHILD"

// A scripted answers in place of the gateway, in pieces:
//
//	fail       with a failure, after a beginning of it if "begin" is said too
//	inbound N  with what was taken as the Nth message, as JSON
//	count      with how many messages were taken before
//
// and anything else with itself.
type scripted struct {
	a *httpapi.Adapter

	mu   sync.Mutex // guards what follows
	got  []chat.Inbound
	seen map[string]bool
	work sync.WaitGroup
}

func (s *scripted) Accept(_ context.Context, batch []chat.Inbound) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range batch {
		if s.seen[in.IdempotencyKey] {
			continue
		}
		text := s.answerLocked(in)
		s.seen[in.IdempotencyKey] = true
		s.got = append(s.got, in)
		s.work.Go(func() { s.answer(in, text) })
	}
	return nil
}

func (s *scripted) answerLocked(in chat.Inbound) string {
	var n int
	switch _, err := fmt.Sscanf(in.Text, "inbound %d", &n); {
	case in.Text == "count":
		return fmt.Sprint(len(s.got))
	case err == nil && n < len(s.got):
		raw, err := json.Marshal(s.got[n])
		if err != nil {
			return err.Error()
		}
		return string(raw)
	}
	return in.Text
}

func (s *scripted) answer(in chat.Inbound, text string) {
	say := func(as chat.Purpose, text string) {
		if _, err := s.a.Send(context.Background(), out(in, as, text)); err != nil {
			fmt.Fprintln(os.Stderr, "send:", err)
		}
	}
	if strings.Contains(text, "begin") {
		say(chat.PurposePreview, "I be")
		<-time.After(50 * time.Millisecond)
	}
	if strings.Contains(text, "fail") {
		say(chat.PurposeFailure, "⚠️ The model is overloaded. (ref t1)")
		return
	}
	for n := range min(20, len([]rune(text))) {
		say(chat.PurposePreview, string([]rune(text)[:n]))
		<-time.After(time.Millisecond)
	}
	say(chat.PurposeAnswer, text)
}

// child serves the API until the input ends.
func child(key string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o := options(key, l, zap.NewNop())
	o.StoreFile = func(_ context.Context, f chat.File, content []byte) (chat.File, error) {
		f.Path = "/" + string(content)
		return f, nil
	}
	a, err := httpapi.New(httpapi.Config{}, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Fprintln(os.Stdout, l.Addr())
	s := &scripted{a: a, seen: map[string]bool{}}
	err = a.Run(ctx, s)
	s.work.Wait()
	return err
}
