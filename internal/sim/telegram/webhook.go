package telegram

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxWebhooks    = 100 // connections
	usualWebhooks  = 40
	webhookTimeout = time.Minute
	maxRetryPause  = time.Minute
	maxSecret      = 256
	maxWebhookBody = 1 << 20
)

// A webhook sends the updates of a bot to its address: those of one chat one
// after another, those of different chats concurrently.
type webhook struct {
	b       *Bot
	url     string
	secret  string
	max     int
	client  *http.Client
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
	free    chan struct{} // capacity: the number of allowed connections

	// The server's mu guards the fields below.
	lanes     map[int64][]*item
	lastError string
	errorAt   time.Time
}

var secretToken = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

// setWebhook implements setWebhook and deleteWebhook, which has no url. The
// caller must not hold the lock, because it waits until the deliveries of the
// old webhook have ended.
func (c *call) setWebhook() (any, *apiError) {
	address := ""
	if c.method == "setwebhook" {
		address = c.str("url")
	}
	next, err := c.newWebhook(address)
	if err != nil {
		return nil, err
	}
	s, b := c.s, c.bot
	s.mu.Lock()
	old := b.hook
	b.hook = nil
	if address != "" {
		b.abortPollLocked("terminated by setWebhook request")
	}
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.bool("drop_pending_updates") {
		s.recorder.settled(time.Now(), false, offersOf(b.queue.keepLast(0))...)
	}
	b.allowLocked(c.str("allowed_updates"))
	if next == nil {
		if old == nil {
			return described{true, "Webhook is already deleted"}, nil
		}
		return described{true, "Webhook was deleted"}, nil
	}
	if s.closed {
		next.stop()
		return nil, &apiError{code: http.StatusInternalServerError, description: "Internal Server Error: restart"}
	}
	b.hook = next
	for _, it := range b.queue.pending() {
		next.addLocked(it)
	}
	if old != nil && old.url == next.url {
		return described{true, "Webhook is already set"}, nil
	}
	return described{true, "Webhook was set"}, nil
}

// newWebhook validates the parameters; it returns nil if there is no address.
func (c *call) newWebhook(address string) (*webhook, *apiError) {
	if address == "" {
		return nil, nil
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	secret := c.str("secret_token")
	switch {
	case err != nil || u.Host == "":
		return nil, badRequest("invalid webhook URL specified")
	case u.Scheme != "https" && (u.Scheme != "http" || c.s.opts.Webhooks == nil && !loopback(u.Hostname())):
		return nil, badRequest("bad webhook: An HTTPS URL must be provided for webhook")
	case len(secret) > maxSecret:
		return nil, badRequest("secret token is too long")
	case !secretToken.MatchString(secret):
		return nil, badRequest("secret token contains unallowed characters")
	}
	connections := min(max(c.int("max_connections", usualWebhooks), 1), maxWebhooks)
	transport := c.s.opts.Webhooks
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: connections}
	}
	ctx, stop := context.WithCancel(c.s.ctx)
	return &webhook{
		b: c.bot, url: address, secret: secret, max: connections, ctx: ctx, stop: stop,
		client: &http.Client{
			Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		free:  make(chan struct{}, connections),
		lanes: map[int64][]*item{},
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// close stops the deliveries and waits for them; unconfirmed updates stay
// pending.
func (h *webhook) close() {
	h.stop()
	h.workers.Wait()
	h.client.CloseIdleConnections()
}

// addLocked appends an update to its lane.
func (h *webhook) addLocked(it *item) {
	lane, busy := h.lanes[it.lane]
	h.lanes[it.lane] = append(lane, it)
	if !busy {
		h.workers.Go(func() { h.work(it.lane) }) // close waits
	}
}

// work delivers the updates of one lane until it is empty.
func (h *webhook) work(lane int64) {
	s := h.b.s
	for {
		s.mu.Lock()
		waiting := h.lanes[lane]
		if len(waiting) == 0 || h.ctx.Err() != nil {
			delete(h.lanes, lane)
			s.mu.Unlock()
			return
		}
		it := waiting[0]
		h.lanes[lane] = waiting[1:]
		s.mu.Unlock()
		h.deliver(it)
	}
}

// deliver retries until the receiver accepts the update, the update expires, or
// the webhook closes.
func (h *webhook) deliver(it *item) {
	s := h.b.s
	pause := time.Second
	for try := 0; ; try++ {
		select {
		case h.free <- struct{}{}:
		case <-h.ctx.Done():
			return
		}
		after, answer, err := h.post(it)
		<-h.free
		if err == nil {
			s.mu.Lock()
			if h.b.queue.drop(it) {
				s.recorder.settled(time.Now(), true, it.offer)
			}
			s.mu.Unlock()
			h.obey(answer)
			return
		}
		if h.ctx.Err() != nil {
			return
		}
		wait := min(after, time.Hour)
		if wait == 0 && try > 0 {
			pause = min(2*pause, maxRetryPause)
			wait = pause
		}
		s.mu.Lock()
		h.lastError, h.errorAt = sentence(err), time.Now()
		expired := time.Now().Add(wait).After(it.expires) && h.b.queue.drop(it)
		s.mu.Unlock()
		if expired {
			s.recorder.settled(time.Now(), false, it.offer)
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-h.ctx.Done():
			t.Stop()
			return
		}
	}
}

// post sends one request to the receiver. It returns the Retry-After of the
// receiver and the body of its answer.
func (h *webhook) post(it *item) (time.Duration, []byte, error) {
	ctx, cancel := context.WithTimeout(h.ctx, webhookTimeout)
	defer cancel()
	h.b.s.mu.Lock()
	update := it.encode() // Shuffle may change it
	h.b.s.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(update))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", h.secret)
	}
	h.b.s.recorder.delivered(time.Now(), it.offer)
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("connection failed: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxWebhookBody))
	if err != nil {
		return 0, nil, fmt.Errorf("read timeout expired: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(0, seconds)) * time.Second, nil,
			fmt.Errorf("wrong response from the webhook: %s", resp.Status)
	}
	return 0, body, nil
}

// obey executes the call that a receiver put into its answer.
func (h *webhook) obey(answer []byte) {
	q := &request{values: map[string]string{}}
	if len(answer) == 0 || q.addJSON(answer) != nil {
		return
	}
	name := methodKey(q.values["method"])
	if name == "" || strings.HasPrefix(name, "get") || slices.Contains([]string{"setwebhook", "deletewebhook", "file"}, name) {
		return
	}
	c := &call{s: h.b.s, bot: h.b, ctx: h.ctx, life: h.ctx, method: name, req: q}
	c.record()
	c.s.recorder.arrived(c.rec)
	_, _ = c.handle() // nobody receives the result
	c.finish(0, nil, false)
}

func (c *call) getWebhookInfo() (any, *apiError) {
	b := c.bot
	b.expireLocked(time.Now())
	w := wireWebhook{Pending: b.queue.live, Allowed: b.allowed}
	if h := b.hook; h != nil {
		w.URL, w.MaxConnections, w.LastError = h.url, h.max, h.lastError
		if !h.errorAt.IsZero() {
			w.LastErrorDate = h.errorAt.Unix()
		}
	}
	return w, nil
}

// sentence formats an error as getWebhookInfo shows it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
