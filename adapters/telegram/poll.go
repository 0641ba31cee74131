package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"hermesd/adapters/telegram/internal/apiclient"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

var allowed = bot.AllowedUpdates{
	models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage,
	models.AllowedUpdateChannelPost, models.AllowedUpdateEditedChannelPost,
	models.AllowedUpdateCallbackQuery, models.AllowedUpdateMyChatMember,
}

// poll polls for updates until ctx ends or an error requires the operator.
func (a *Adapter) poll(ctx context.Context, sink chat.Sink, stop context.CancelCauseFunc) {
	p := &poller{a: a, sink: sink, stop: stop}
	for ctx.Err() == nil {
		if p.held {
			p.held = false
			p.awaitName(ctx)
		}
		if err := p.round(ctx); err != nil && (ctx.Err() != nil || p.handleError(ctx, err) != nil) {
			return
		}
	}
}

// A poller is a poll loop. A poll confirms the updates before its offset, so the
// offset advances once the sink has stored them.
type poller struct {
	a    *Adapter
	sink chat.Sink
	stop context.CancelCauseFunc

	offset    int64 // of the next poll; 0: none, in the first poll of a process
	back      backoff.Backoff
	conflicts int
	// held is true if the last batch ended before an update that waits for the
	// bot's name.
	held bool
	// proven is true if the last poll returned. Otherwise the next poll is short,
	// so that it shows at once whether the connection works.
	proven bool
}

// round makes one poll and offers its updates to the sink.
func (p *poller) round(ctx context.Context) error {
	raws, err := p.fetch(ctx)
	if err != nil {
		return err
	}
	p.a.health.MarkAlive()
	full := p.proven
	n, err := p.a.take(ctx, p.sink, raws)
	if err != nil {
		return &storeError{err}
	}
	p.proven = true
	p.back.Reset()
	if full || p.conflicts == 0 { // a short poll does not prove that no other process polls
		p.conflicts = 0
		p.a.health.Set(chat.Connected, "")
	}
	p.held = n < len(raws)
	for i := n; i > 0; i-- {
		if id, ok := inbound.ID(raws[i-1]); ok {
			p.offset = id + 1
			return nil
		}
	}
	if n > 0 {
		return fmt.Errorf("updates without an ID: %d", n)
	}
	return nil
}

// A storeError is the sink's rejection of a batch.
type storeError struct{ err error }

func (e *storeError) Error() string { return "messages cannot be stored: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// handleError waits as long as the failure of a poll requires, and repairs what
// it can. It returns an error if polling must end.
func (p *poller) handleError(ctx context.Context, err error) error {
	a := p.a
	text := a.wire.Mask(err.Error())
	var (
		pe *apiclient.Refusal
		se *storeError
	)
	if errors.As(err, &se) {
		a.log.Error("cannot store updates", zap.String("err", text))
		a.health.Set(chat.Retrying, text)
		return backoff.Sleep(ctx, p.back.Next())
	}
	p.proven = false
	if !errors.As(err, &pe) {
		if errors.Is(err, context.DeadlineExceeded) {
			text = "no answer to a poll; the connection was cut and is rebuilt"
		}
		a.dropIdle()
		a.log.Warn("cannot poll", zap.String("err", text))
		a.health.Set(chat.Retrying, text)
		return backoff.Sleep(ctx, p.back.Next())
	}
	switch pe.Code {
	case http.StatusUnauthorized, http.StatusNotFound:
		ce := &chat.ConfigError{Platform: chat.Telegram, Reason: badToken}
		p.stop(ce)
		return ce
	case http.StatusConflict:
		return p.conflict(ctx)
	case http.StatusTooManyRequests:
		a.health.Set(chat.Retrying, fmt.Sprintf("Telegram asks to wait %v before the next poll", pe.After))
		return backoff.Sleep(ctx, max(pe.After, backoff.First))
	}
	a.log.Warn("cannot poll", zap.String("err", text))
	a.health.Set(chat.Retrying, text)
	return backoff.Sleep(ctx, p.back.Next())
}

// conflict handles a 409: a webhook is set, or another process polls.
func (p *poller) conflict(ctx context.Context) error {
	a := p.a
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := a.api.GetWebhookInfo(actx)
	if err == nil && info.URL != "" {
		host := "?"
		if u, err := url.Parse(info.URL); err == nil {
			host = u.Host
		}
		why := "a webhook at " + host + " takes the messages; it is deleted because polling is configured"
		a.log.Warn("poll conflict", zap.String("err", why))
		a.health.Set(chat.Retrying, why)
		if _, err = a.api.DeleteWebhook(actx, &bot.DeleteWebhookParams{}); err == nil {
			return ctx.Err()
		}
		a.log.Warn("cannot delete webhook", zap.Error(err))
		return backoff.Sleep(ctx, p.back.Next())
	}
	p.conflicts = min(p.conflicts+1, 6)
	d := time.Duration(p.conflicts) * 10 * time.Second
	why := fmt.Sprintf("another process polls with this token; stop it, or give this daemon a bot of its own (next try in %v)", d)
	a.log.Warn("poll conflict", zap.String("err", why))
	a.health.Set(chat.Retrying, why)
	return backoff.Sleep(ctx, d)
}

// awaitName waits up to nameWait for the bot's own name.
func (p *poller) awaitName(ctx context.Context) {
	t := time.NewTimer(nameWait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-p.a.me.known:
	case <-t.C:
	}
}

// dropIdle closes idle connections, so that the next request uses a new one.
func (a *Adapter) dropIdle() {
	if c, ok := a.wire.RT.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// fetch makes one poll, which is canceled if it does not return in time.
func (p *poller) fetch(ctx context.Context) ([]json.RawMessage, error) {
	form, open := url.Values{"allowed_updates": {`["` + strings.Join(allowed, `","`) + `"]`}}, time.Duration(0)
	if p.offset != 0 {
		form.Set("offset", strconv.FormatInt(p.offset, 10))
	}
	if p.proven {
		open = pollTimeout
		form.Set("timeout", strconv.Itoa(int(open/time.Second)))
	}
	ctx, cancel := context.WithTimeout(ctx, open+pollMargin)
	defer cancel()
	return p.a.wire.Poll(ctx, p.a.cfg.BaseURL, form)
}
