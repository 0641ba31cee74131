package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memnet"
)

func TestMain(m *testing.M) {
	if key := os.Getenv(childEnv); key != "" {
		if err := child(key); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	key    = "hk-0123456789abcdefghij"
	scrape = "hk-metrics-0123456789"
)

// A daemon is an adapter that runs, with somebody who answers in place of the
// gateway.
type daemon struct {
	t    *testing.T
	a    *httpapi.Adapter
	web  *http.Client
	stop func() error

	mu     sync.Mutex // guards what follows
	refuse error
	got    []chat.Inbound
	seen   map[string]bool
	reply  func(chat.Inbound) // nil: nobody answers
	work   sync.WaitGroup
}

// options returns all that an adapter needs but StoreFile.
func options(key string, l net.Listener, log *zap.Logger) httpapi.Options {
	return httpapi.Options{
		Key: secret.Value(key), Model: "claude-test", Log: log,
		Listen:       func(string, string) (net.Listener, error) { return l, nil },
		Lookup:       func(context.Context, string) (httpapi.StoredMessage, error) { return httpapi.StoredMessage{}, nil },
		IsNewSession: func(context.Context, chat.Address) (bool, error) { return false, nil },
		Fetch:        func(context.Context, string, int64) ([]byte, error) { return nil, errors.New("no such host") },
		Ready:        func() (bool, string) { return true, "" },
		Accounts:     func() map[chat.Account]chat.Health { return nil },
		Metrics:      http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) }),
		MetricsKey:   scrape,
	}
}

// start runs an adapter until the test ends. change may be nil.
func start(t *testing.T, change func(*httpapi.Config, *httpapi.Options)) *daemon {
	t.Helper()
	d := &daemon{t: t, seen: map[string]bool{}}
	l := memnet.Listen("127.0.0.1:8642")
	c := httpapi.Config{}
	o := options(key, l, zaptest.NewLogger(t))
	o.StoreFile = func(_ context.Context, f chat.File, _ []byte) (chat.File, error) { return f, nil }
	if change != nil {
		change(&c, &o)
	}
	a, err := httpapi.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	d.a = a
	transport := &http.Transport{DialContext: l.Dial}
	d.web = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, d) }() // stop waits for it
	d.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		transport.CloseIdleConnections()
		d.work.Wait()
		return err
	})
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	})
	for a.Health().State != chat.Connected {
		<-time.After(time.Millisecond)
	}
	return d
}

// Accept implements chat.Sink as the inbox does: a key is taken once.
func (d *daemon) Accept(_ context.Context, batch []chat.Inbound) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	for _, in := range batch {
		if d.seen[in.IdempotencyKey] {
			continue
		}
		d.seen[in.IdempotencyKey] = true
		d.got = append(d.got, in)
		if d.reply != nil {
			d.work.Go(func() { d.reply(in) })
		}
	}
	return nil
}

func (d *daemon) taken() []chat.Inbound {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// answers has the daemon answer by f from now on.
func (d *daemon) answers(f func(in chat.Inbound)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reply = f
}

func (d *daemon) refuses(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

// out is a message about in.
func out(in chat.Inbound, as chat.Purpose, text string) chat.Outbound {
	m := chat.Outbound{ID: "o1", To: in.Address, Text: chat.PlainText(text), ReplyContext: &chat.ReplyContext{Purpose: as, IDs: []string{in.ID}}}
	if as == chat.PurposeAnswer {
		m.ReplyContext.Usage = &chat.Usage{Prompt: 100, Cached: 80, Output: 5}
	}
	return m
}

// says sends what is about in, as the gateway's delivery does.
func (d *daemon) says(in chat.Inbound, as chat.Purpose, text string) error {
	_, err := d.a.Send(context.Background(), out(in, as, text))
	return err
}

// echo answers with what was said.
func (d *daemon) echo(in chat.Inbound) {
	if err := d.says(in, chat.PurposeAnswer, "you said: "+in.Text); err != nil {
		d.t.Errorf("echo of %q: %v", in.Text, err)
	}
}

func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:8642"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func ask(t *testing.T, body string) *http.Request {
	t.Helper()
	return request(t, "POST", "/v1/chat/completions", body)
}

func user(text string) string {
	b, err := json.Marshal(map[string]any{"model": "hermes", "messages": []any{map[string]any{"role": "user", "content": text}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func streamed(text string) string {
	return strings.Replace(user(text), "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)
}

// An answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   string

	Choices []struct {
		Message struct{ Role, Content string }
		Finish  string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	Hermes struct {
		Notices []string
		Session string
	}
	Error *struct {
		Message, Type string
		Param, Code   *string
	}
}

func (a answer) text() string {
	if len(a.Choices) == 0 {
		return ""
	}
	return a.Choices[0].Message.Content
}

func (a answer) code() string {
	if a.Error == nil || a.Error.Code == nil {
		return ""
	}
	return *a.Error.Code
}

// do sends a request and reads its answer.
func (d *daemon) do(r *http.Request) answer {
	d.t.Helper()
	resp, err := d.web.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &a); err != nil {
			d.t.Fatalf("%v: %s", err, raw)
		}
	}
	return a
}

// later sends a request in the background.
func (d *daemon) later(r *http.Request) <-chan answer {
	ch := make(chan answer, 1)
	go func() { ch <- d.do(r) }() // whoever receives waits for it
	return ch
}

// A chunk is one event of a stream.
type chunk struct {
	Choices []struct {
		Delta  struct{ Role, Content string }
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Total int `json:"total_tokens"`
	}
	Error *struct {
		Message string
		Code    string
	}
	Hermes struct {
		Answer  string
		Notices []string
	}
}

// A transcript is what a stream said.
type transcript struct {
	deltas   []string
	finish   string
	usage    int
	done     bool
	failure  string
	answer   string // of the failure
	comments int
	notices  []string
}

func (s transcript) text() string { return strings.Join(s.deltas, "") }

// events reads a stream to its end.
func events(t *testing.T, body []byte) transcript {
	t.Helper()
	var s transcript
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		line := lines.Text()
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case strings.HasPrefix(line, ":"):
			s.comments++
			continue
		case !ok:
			continue
		case data == "[DONE]":
			s.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if c.Error != nil {
			s.failure, s.answer = c.Error.Code+": "+c.Error.Message, c.Hermes.Answer
		}
		if c.Usage != nil {
			s.usage = c.Usage.Total
		}
		for _, ch := range c.Choices {
			if ch.Delta.Content != "" {
				s.deltas = append(s.deltas, ch.Delta.Content)
			}
			if ch.Finish != nil {
				s.finish = *ch.Finish
				s.notices = c.Hermes.Notices
			}
		}
	}
	return s
}

func rejected(err error) bool {
	var se *chat.SendError
	return errors.As(err, &se) && se.Outcome == chat.Permanent
}
