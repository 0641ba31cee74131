package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// The events that users cause by writing or pressing.
const (
	messageCreate     = "MESSAGE_CREATE"
	messageUpdate     = "MESSAGE_UPDATE"
	interactionCreate = "INTERACTION_CREATE"
)

// The number and duration of attempts to look up an unknown channel.
const (
	placeTries   = 3
	placeTimeout = 3 * time.Second
)

// place returns the information about a channel.
func (t *intake) place(ctx context.Context, guild, channel string, it item) inbound.ChannelInfo {
	if p, ok := t.o.Dir.Channel(channel); ok {
		return p
	}
	if m, ok := t.marks.all[channel]; ok && (guild == "") == (m.Guild == "") {
		return m.place(channel)
	}
	if guild == "" {
		return inbound.ChannelInfo{ID: channel, Type: inbound.Direct}
	}
	if it.kind == interactionCreate { // an interaction must be handled quickly and contains enough
		if p, ok := inbound.InteractionPlace(it.raw); ok {
			return p
		}
	}
	return t.lookUp(ctx, guild, channel)
}

// lookUp fetches a channel that the gateway has not reported. If that fails, it
// is treated as an ordinary channel of the guild.
func (t *intake) lookUp(ctx context.Context, guild, channel string) inbound.ChannelInfo {
	for try := range placeTries {
		var raw json.RawMessage
		cctx, cancel := context.WithTimeout(ctx, placeTimeout)
		err := t.o.Wire.Do(cctx, apiclient.Call{Method: "GET", Path: "channels/" + channel, Bucket: "channel/" + channel}, &raw)
		cancel()
		if err == nil {
			if p, ok := t.o.Dir.Learn(raw); ok {
				return p
			}
			break
		}
		t.o.Log.Warn("cannot look up channel", zap.String("channel", channel), zap.Error(err))
		s := apierror.Status(err)
		if s == http.StatusForbidden || s == http.StatusNotFound || backoff.Sleep(ctx, time.Duration(try)*time.Second) != nil {
			break
		}
	}
	return inbound.ChannelInfo{ID: channel, Guild: guild, Type: inbound.Unknown}
}

// convert converts one event. It always settles the event: one that cannot be
// converted is recorded if it says where it happened.
func (t *intake) convert(it item, p inbound.ChannelInfo, joined bool) (e Event, ok bool) {
	c := t.o.Converter()
	quarantine := func(err error) (Event, bool) {
		t.o.Log.Error("cannot convert event", zap.String("kind", it.kind), zap.String("rule", inbound.RuleUnreadable), zap.Error(err))
		in, ok := c.Quarantined(it.raw, p, time.Now())
		return Event{In: in, Place: p}, ok && it.kind == messageCreate
	}
	defer func() {
		if r := recover(); r != nil {
			t.o.Log.Error("cannot convert event: panic", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			e, ok = quarantine(fmt.Errorf("panic: %v", r))
		}
	}()
	e.Place = p
	var v inbound.ConvertResult
	var err error
	if it.kind == interactionCreate {
		e.In, e.Interaction, v, err = c.Interaction(it.raw, p, time.Now())
	} else {
		e.In, v, err = c.Message(it.raw, p, it.kind == messageUpdate, joined)
		t.own(it.raw, e.In, c)
	}
	if err != nil {
		return quarantine(err)
	}
	e.own = v == inbound.OwnMessage
	return e, v != inbound.Skipped
}

// own learns from the gateway which message resulted from which send.
func (t *intake) own(raw json.RawMessage, in chat.Inbound, c inbound.Converter) {
	if in.Sender.ID == "" || in.Sender.ID != c.Me.ID {
		return
	}
	var m struct {
		Nonce string `json:"nonce"`
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &m); (err == nil || errors.As(err, &wrong)) && m.Nonce != "" {
		t.o.Own(m.Nonce, in.ID)
	}
}
