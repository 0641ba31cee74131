package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
)

// take offers a batch of raw updates to sink. It returns how many of them, from
// the first, may be confirmed: all, or those before the first that waits for the
// bot's own name. Later updates that do not need the name are accepted too;
// their keys make a repeat harmless.
func (a *Adapter) take(ctx context.Context, sink chat.Sink, raws []json.RawMessage) (n int, err error) {
	c := a.converter()
	n = len(raws)
	batch := make([]chat.Inbound, 0, len(raws))
	for i, raw := range raws {
		in, v := a.convert(c, raw)
		switch v {
		case inbound.Converted:
			batch = append(batch, in)
			if in.Kind == chat.Migrated { // later updates may use the chat's new ID
				c = c.After(in.Address.Chat, in.MigratedTo.Chat)
			}
		case inbound.NeedsBotName:
			n = min(n, i)
		}
	}
	if len(batch) == 0 {
		return n, nil
	}
	if err := accept(ctx, sink, batch); err != nil {
		return 0, err
	}
	return n, nil
}

func (a *Adapter) converter() inbound.Converter {
	return inbound.Converter{Account: a.o.Account, Me: a.me.get(), Rules: a.rules, Was: a.o.Was}
}

// convert converts one update. It always settles the update: one that cannot be
// converted is recorded if it says where it happened, and never fetched again.
func (a *Adapter) convert(c inbound.Converter, raw json.RawMessage) (in chat.Inbound, v inbound.ConvertResult) {
	quarantine := func(err error) (chat.Inbound, inbound.ConvertResult) {
		id, _ := inbound.ID(raw)
		a.log.Error("cannot convert update", zap.Int64("update", id), zap.String("rule", inbound.RuleUnreadable), zap.Error(err))
		a.log.Debug("unconverted update", zap.ByteString("raw", raw))
		if in, ok := c.Quarantined(raw, id); ok {
			return in, inbound.Converted
		}
		return chat.Inbound{}, inbound.Skipped
	}
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("cannot convert update: panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			in, v = quarantine(fmt.Errorf("panic: %v", p))
		}
	}()
	if in, v, err := a.conv(c, raw, time.Now()); err != nil {
		return quarantine(err)
	} else if v != inbound.Skipped {
		return in, v
	}
	id, _ := inbound.ID(raw)
	if in, ok := c.Quarantined(raw, id); ok {
		return in, inbound.Converted
	}
	a.log.Info("update skipped", zap.Int64("update", id), zap.String("rule", inbound.RuleUnsupported))
	return chat.Inbound{}, inbound.Skipped
}

// accept passes a batch to the sink; a panic of the sink counts as a rejection.
func accept(ctx context.Context, sink chat.Sink, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return sink.Accept(ctx, batch)
}
