package telegram

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-telegram/bot"
	"go.uber.org/zap"

	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

const secretHeader = "X-Telegram-Bot-Api-Secret-Token"

// maxUpdate limits the body of one delivery, in bytes.
const maxUpdate = 1 << 20

// serve accepts deliveries and keeps the webhook registered until ctx ends.
func (a *Adapter) serve(ctx context.Context, sink chat.Sink, stop context.CancelCauseFunc) {
	var wg sync.WaitGroup
	open := make(chan struct{})
	wg.Go(func() { a.listen(ctx, sink, open) })
	defer wg.Wait()
	select {
	case <-open: // register only when the socket is open
	case <-ctx.Done():
		return
	}
	var b backoff.Backoff
	for registered := false; ctx.Err() == nil; {
		err := a.register(ctx, &registered)
		d := webhookCheck
		switch ce := configError(err); {
		case err == nil:
			b.Reset()
			a.health.MarkAlive()
			a.health.Set(chat.Connected, "")
		case ce != nil:
			stop(ce)
			return
		case ctx.Err() == nil:
			text := a.wire.Mask(err.Error())
			a.log.Warn("cannot maintain webhook", zap.String("err", text))
			a.health.Set(chat.Retrying, text)
			d = max(b.Next(), sendError(err, chat.Address{}).RetryAfter)
		}
		if backoff.Sleep(ctx, d) != nil {
			return
		}
	}
}

// register sets the webhook at Telegram, once and again whenever it points
// elsewhere. Delivery failures that Telegram reports are returned as an error
// too.
func (a *Adapter) register(ctx context.Context, registered *bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if *registered {
		info, err := a.api.GetWebhookInfo(ctx)
		if err != nil {
			return err
		}
		if info.URL == a.cfg.WebhookURL {
			if at := time.Unix(int64(info.LastErrorDate), 0); info.PendingUpdateCount > 0 && time.Since(at) < 2*webhookCheck {
				return fmt.Errorf("deliveries to the webhook fail: %s", info.LastErrorMessage)
			}
			return nil
		}
		*registered = false
	}
	_, err := a.api.SetWebhook(ctx, &bot.SetWebhookParams{
		URL:            a.cfg.WebhookURL,
		SecretToken:    a.cfg.WebhookSecret.Reveal(),
		AllowedUpdates: allowed,
		MaxConnections: 1, // keeps the order
	})
	*registered = err == nil
	return err
}

// listen serves deliveries on the configured socket until ctx ends, and closes
// open once the socket is open.
func (a *Adapter) listen(ctx context.Context, sink chat.Sink, open chan<- struct{}) {
	listen := a.o.Listen
	if listen == nil {
		listen = net.Listen
	}
	path := "/"
	if u, err := url.Parse(a.cfg.WebhookURL); err == nil && u.Path != "" {
		path = u.Path
	}
	mux := http.NewServeMux()
	mux.Handle(path, a.webhook(sink))
	var b backoff.Backoff
	var once sync.Once
	for ctx.Err() == nil {
		l, err := listen("tcp", a.cfg.WebhookListen)
		if err == nil {
			once.Do(func() { close(open) })
			err = serveUntil(ctx, l, mux)
		}
		if ctx.Err() != nil {
			return
		}
		a.log.Error("cannot serve webhook", zap.Error(err))
		a.health.Set(chat.Retrying, "the webhook's socket: "+err.Error())
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
}

// serveUntil serves h on l until ctx ends and running deliveries are done.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // received below
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(sctx) != nil {
		_ = s.Close()
	}
	return <-ended
}

// webhook returns the handler of deliveries. It answers 200 only when the update
// is stored; otherwise Telegram delivers it again.
func (a *Adapter) webhook(sink chat.Sink) http.Handler {
	secret := []byte(a.cfg.WebhookSecret.Reveal())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(secretHeader)), secret) != 1 {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodPost {
			http.Error(w, "POST only", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
		if err != nil {
			http.Error(w, "body", http.StatusRequestEntityTooLarge)
			return
		}
		if !json.Valid(body) {
			a.log.Error("cannot parse webhook delivery", zap.String("rule", inbound.RuleUnreadable))
			return // a repeat would be the same
		}
		a.health.MarkAlive()
		n, err := a.take(r.Context(), sink, []json.RawMessage{body})
		switch {
		case err != nil:
			a.log.Error("cannot store webhook delivery", zap.Error(err))
			http.Error(w, "not stored", http.StatusServiceUnavailable)
		case n == 0:
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
}
