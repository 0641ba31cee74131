package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/internal/backoff"
)

const (
	// healAtOnce is the number of concurrent history calls.
	healAtOnce = 4
	// maxHeld is the number of new events of a channel that wait while its gap is
	// backfilled.
	maxHeld  = 1000
	pageSize = 100
	// pageLimit limits the duration of the call for one page.
	pageLimit = 8 * time.Second
	// healPatience is how long new events of a channel wait for its history; after
	// that they are processed, and the backfill continues in the background. While
	// there is no history there are no answers either: both need the same API.
	healPatience = 5 * time.Minute
)

type backfill struct {
	held  []item
	late  bool // new events no longer wait
	again bool // some events were dropped
}

// A page is a part of a channel's history, or the error of fetching it.
type page struct {
	channel string
	batch   []Event
	last    string
	more    bool
	late    bool // none yet
	err     error
}

// ready starts the backfill of direct chats for a new session.
func (t *intake) ready(ctx context.Context) {
	if err := t.marks.load(ctx, t.o.Converter().Me.ID); err != nil {
		t.o.Log.Error("cannot load checkpoints; backfill is postponed", zap.Error(err))
	}
	t.backfillWhere(ctx, func(_ string, m checkpoint) bool { return m.Guild == "" })
}

// backfillGuild starts the backfill of a guild whose channels have just been
// reported.
func (t *intake) backfillGuild(ctx context.Context, guild string) {
	t.backfillWhere(ctx, func(id string, m checkpoint) bool {
		if m.Guild != guild {
			return false
		}
		p, ok := t.o.Dir.Channel(id)
		return !ok || p.Last == "" || inbound.Before(m.At, p.Last)
	})
}

// backfillWhere starts the backfill of the channels for which ok returns true.
func (t *intake) backfillWhere(ctx context.Context, ok func(id string, m checkpoint) bool) {
	for id, m := range t.marks.all {
		if !ok(id, m) {
			continue
		}
		if h := t.healing[id]; h != nil {
			h.again = true
			continue
		}
		t.healing[id] = &backfill{}
		t.marks.gaps[id] = true
		t.read(ctx, id, m)
	}
}

// read fetches the next page after a checkpoint in the background.
func (t *intake) read(ctx context.Context, id string, m checkpoint) {
	p, ok := t.o.Dir.Channel(id)
	if !ok {
		p = m.place(id)
	}
	joined := t.marks.joined(p)
	t.calls.Go(func() {
		var b backoff.Backoff
		begin, late := time.Now(), false
		for {
			got := t.fetch(ctx, p, m.since(time.Now()), joined)
			if s := apierror.Status(got.err); got.err == nil || s == 403 || s == 404 || s == 401 {
				t.hand(ctx, got)
				return
			}
			t.o.Log.Warn("cannot fetch history page", zap.String("channel", id), zap.Error(got.err))
			if !late && time.Since(begin) > healPatience {
				late = true
				t.hand(ctx, page{channel: id, late: true})
			}
			if backoff.Sleep(ctx, max(apierror.SendError(got.err).RetryAfter, b.Next())) != nil {
				return
			}
		}
	})
}

func (t *intake) hand(ctx context.Context, p page) {
	select {
	case t.pages <- p:
	case <-ctx.Done():
	}
}

func (t *intake) fetch(ctx context.Context, p inbound.ChannelInfo, after string, joined bool) page {
	out := page{channel: p.ID}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		out.err = ctx.Err()
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	path := fmt.Sprintf("channels/%s/messages?limit=%d&after=%s", p.ID, pageSize, after)
	var raws []json.RawMessage
	if out.err = t.o.Wire.Do(ctx, apiclient.Call{Method: "GET", Path: path, Bucket: "history/" + p.ID}, &raws); out.err != nil {
		return out
	}
	out.more = len(raws) >= pageSize
	slices.Reverse(raws) // the API returns the newest first
	roles := map[string][]string{}
	for _, raw := range raws {
		if _, _, id, err := inbound.Where(raw); err == nil {
			out.last = id
		}
		e, ok := t.convert(item{messageCreate, raw}, p, joined)
		if !ok {
			continue
		}
		if e.In.IgnoreRule == "" && p.Guild != "" {
			if e.In.Sender.Roles, out.err = t.roles(ctx, p.Guild, e.In.Sender.ID, roles); out.err != nil {
				return out
			}
		}
		out.batch = append(out.batch, e)
	}
	return out
}

// roles returns the roles of a member, which the history does not contain.
func (t *intake) roles(ctx context.Context, guild, person string, known map[string][]string) ([]string, error) {
	if r, ok := known[person]; ok {
		return r, nil
	}
	var m struct {
		Roles []string `json:"roles"`
	}
	err := t.o.Wire.Do(ctx, apiclient.Call{Method: "GET", Path: "guilds/" + guild + "/members/" + person, Bucket: "member/" + guild}, &m)
	if s := apierror.Status(err); err != nil && s != 403 && s != 404 {
		return nil, err
	}
	if len(m.Roles) == 0 {
		m.Roles = nil
	}
	known[person] = m.Roles
	return m.Roles, nil
}

// turn processes a page, and continues with the next one or with the held
// events.
func (t *intake) turn(ctx context.Context, p page) {
	h := t.healing[p.channel]
	switch {
	case h == nil:
		return
	case p.late:
		h.late = true
		t.release(ctx, h)
		return
	case p.err != nil:
		t.o.Log.Warn("cannot backfill channel", zap.String("channel", p.channel), zap.String("reason", apierror.SendError(p.err).Reason))
		if apierror.Status(p.err) == 404 {
			t.marks.drop(p.channel)
		}
		t.done(ctx, p.channel, h)
		return
	}
	t.accept(ctx, p.batch)
	if ctx.Err() != nil {
		return
	}
	m := t.marks.all[p.channel]
	delete(t.marks.gaps, p.channel)
	if p.last != "" && m.At != "" {
		t.marks.reach(inbound.ChannelInfo{ID: p.channel, Guild: m.Guild, Parent: m.Parent, Type: m.Type}, p.last, false)
		m = t.marks.all[p.channel]
	}
	if p.more && m.At != "" {
		t.marks.gaps[p.channel] = true
		t.read(ctx, p.channel, m)
		return
	}
	t.done(ctx, p.channel, h)
}

func (t *intake) done(ctx context.Context, channel string, h *backfill) {
	delete(t.marks.gaps, channel)
	delete(t.healing, channel)
	t.release(ctx, h)
	if h.again && !errors.Is(ctx.Err(), context.Canceled) {
		t.backfillWhere(ctx, func(id string, _ checkpoint) bool { return id == channel })
	}
}

// release processes the held events.
func (t *intake) release(ctx context.Context, h *backfill) {
	held := h.held
	h.held = nil
	if len(held) > 0 {
		t.digest(ctx, held)
	}
}
