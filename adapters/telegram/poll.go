package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// allowed are the updates that are asked for.
var allowed = bot.AllowedUpdates{
	models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage,
	models.AllowedUpdateChannelPost, models.AllowedUpdateEditedChannelPost,
	models.AllowedUpdateCallbackQuery, models.AllowedUpdateMyChatMember,
}

// poll runs the library's poll loop over a poller until ctx ends.
func (a *Adapter) poll(ctx context.Context, sink chat.Sink, stop context.CancelCauseFunc) {
	p := &poller{a: a, sink: sink, stop: stop}
	b, err := a.newBot(p,
		bot.WithInitialOffset(-1), // the first offset is one more: 0, which is left out
		bot.WithAllowedUpdates(allowed),
		bot.WithNotAsyncHandlers(),
		bot.WithDefaultHandler(func(context.Context, *bot.Bot, *models.Update) {}),
	)
	if err != nil { // the same token made the other client
		stop(&chat.ConfigError{Platform: chat.Telegram, Reason: "client: " + mask(err.Error(), a.cfg.Token.Reveal())})
		return
	}
	b.Start(ctx)
}

// A poller is the HTTP client of the library's poll loop. Its answer to a poll
// is the id of the last update that need not come again, given only when the
// sink has everything up to there. It never answers with an error but for the
// end of the context.
type poller struct {
	a    *Adapter
	sink chat.Sink
	stop context.CancelCauseFunc

	back      backoff
	conflicts int
	// held: the last batch ended before an update that waits for the bot's name.
	held bool
	// proven: the last poll returned. If not, the next one does not stay open,
	// so that it shows at once whether the way is free.
	proven bool
}

// Do implements the library's HttpClient for getUpdates.
func (p *poller) Do(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	form, err := readForm(req)
	if err != nil {
		return nil, fmt.Errorf("read the library's request: %w", err)
	}
	for {
		if p.held {
			p.held = false
			if err := p.awaitName(ctx); err != nil {
				return nil, err
			}
		}
		last, n, err := p.round(ctx, req.URL, form)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			if err := p.mend(ctx, err); err != nil {
				return nil, err
			}
		case n > 0 || !p.held:
			return answer(last, n), nil
		}
	}
}

// round makes one poll and offers what it brings. n is how many updates may be
// confirmed, last the id of the last of them.
func (p *poller) round(ctx context.Context, u *url.URL, form url.Values) (last int64, n int, err error) {
	raws, err := p.fetch(ctx, u, form)
	if err != nil {
		return 0, 0, err
	}
	p.a.proved()
	full := p.proven
	n, err = p.a.take(ctx, p.sink, raws)
	if err != nil {
		return 0, 0, &storeError{err}
	}
	p.proven = true
	p.back.reset()
	if full || p.conflicts == 0 { // a short poll does not show that nobody else polls
		p.conflicts = 0
		p.a.set(chat.Connected, "")
	}
	p.held = n < len(raws)
	for i := n; i > 0; i-- {
		if id, ok := updateID(raws[i-1]); ok {
			return id, n, nil
		}
	}
	if n > 0 {
		return 0, 0, fmt.Errorf("%d updates without an id", n)
	}
	return 0, 0, nil
}

// A storeError says that the sink did not take a batch.
type storeError struct{ err error }

func (e *storeError) Error() string { return "messages cannot be stored: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// fetch makes one poll. One that does not return in time is cut.
func (p *poller) fetch(ctx context.Context, u *url.URL, form url.Values) ([]json.RawMessage, error) {
	a := p.a
	open := a.cfg.PollTimeout
	if !p.proven {
		form = withoutTimeout(form)
		open = 0
	}
	pctx, cancel := context.WithTimeout(ctx, open+pollMargin)
	defer cancel()
	req, err := http.NewRequestWithContext(pctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("make the poll: bad address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := &wire{rt: a.rt, token: a.cfg.Token.Reveal()}
	resp, err := (&http.Client{Transport: a.rt, CheckRedirect: noRedirect}).Do(req)
	if err != nil {
		return nil, w.lost(true, 0, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, w.lost(true, 0, err)
	}
	return updates(resp.StatusCode, body)
}

// updates takes a poll's answer apart.
func updates(status int, body []byte) ([]json.RawMessage, error) {
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil || env.OK == nil {
		return nil, &wireError{status: status, text: fmt.Sprintf("answer with status %d is not from the Bot API", status)}
	}
	if !*env.OK {
		return nil, &pollError{code: env.ErrorCode, after: time.Duration(env.Parameters.RetryAfter) * time.Second, text: env.Description}
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(env.Result, &raws); err != nil {
		return nil, &wireError{status: status, text: "the poll's result is not a list"}
	}
	return raws, nil
}

// A pollError is a poll that the Bot API refused.
type pollError struct {
	code  int
	after time.Duration
	text  string
}

func (e *pollError) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

// mend waits for as long as the failure of a poll asks for, and mends what
// can be mended. Its error is the end of polling.
func (p *poller) mend(ctx context.Context, err error) error {
	a := p.a
	text := mask(err.Error(), a.cfg.Token.Reveal())
	var (
		pe *pollError
		se *storeError
	)
	if errors.As(err, &se) {
		a.log.Error("poll", zap.String("err", text))
		a.set(chat.Retrying, text)
		return wait(ctx, p.back.next())
	}
	p.proven = false
	if !errors.As(err, &pe) {
		if errors.Is(err, context.DeadlineExceeded) {
			text = "no answer to a poll; the connection was cut and is rebuilt"
		}
		a.dropIdle()
		a.log.Warn("poll", zap.String("err", text))
		a.set(chat.Retrying, text)
		return wait(ctx, p.back.next())
	}
	switch pe.code {
	case http.StatusUnauthorized, http.StatusNotFound:
		ce := &chat.ConfigError{Platform: chat.Telegram, Reason: badToken}
		p.stop(ce)
		return ce
	case http.StatusConflict:
		return p.conflict(ctx)
	case http.StatusTooManyRequests:
		a.set(chat.Retrying, fmt.Sprintf("Telegram asks to wait %v before the next poll", pe.after))
		return wait(ctx, max(pe.after, backoffFirst))
	}
	a.log.Warn("poll", zap.String("err", text))
	a.set(chat.Retrying, text)
	return wait(ctx, p.back.next())
}

// conflict deals with a 409: a webhook is set, or another process polls.
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
		a.log.Warn("poll", zap.String("err", why))
		a.set(chat.Retrying, why)
		if _, err = a.api.DeleteWebhook(actx, &bot.DeleteWebhookParams{}); err == nil {
			return ctx.Err()
		}
		a.log.Warn("delete the webhook", zap.Error(err))
		return wait(ctx, p.back.next())
	}
	p.conflicts = min(p.conflicts+1, 6)
	d := time.Duration(p.conflicts) * 10 * time.Second
	why := fmt.Sprintf("another process polls with this token; stop it, or give this daemon a bot of its own (next try in %v)", d)
	a.log.Warn("poll", zap.String("err", why))
	a.set(chat.Retrying, why)
	return wait(ctx, d)
}

// awaitName waits a moment for the bot's own name.
func (p *poller) awaitName(ctx context.Context) error {
	t := time.NewTimer(holdPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.a.me.known:
	case <-t.C:
	}
	return nil
}

// dropIdle makes the next request use a fresh connection.
func (a *Adapter) dropIdle() {
	if c, ok := a.rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// answer is what the library gets to see of a batch: its last id, from which
// it makes the next offset.
func answer(last int64, n int) *http.Response {
	body := []byte(`{"ok":true,"result":[]}`)
	if n > 0 {
		body = fmt.Appendf(nil, `{"ok":true,"result":[{"update_id":%d}]}`, last)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// readForm reads the parameters that the library would send.
func readForm(req *http.Request) (url.Values, error) {
	_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	f, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		return nil, err
	}
	return url.Values(f.Value), nil
}

func withoutTimeout(form url.Values) url.Values {
	short := make(url.Values, len(form))
	for k, v := range form {
		if k != "timeout" {
			short[k] = v
		}
	}
	return short
}
