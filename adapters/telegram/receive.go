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
// the first, need not come again: all, or those before the first that has to
// wait for the bot's own name. Those behind that one which need not wait are
// taken too; their keys make them harmless when they come again.
func (a *Adapter) take(ctx context.Context, sink chat.Sink, raws []json.RawMessage) (n int, err error) {
	c := a.converter()
	n = len(raws)
	batch := make([]chat.Inbound, 0, len(raws))
	for i, raw := range raws {
		in, v := a.convert(c, raw)
		switch v {
		case inbound.Converted:
			batch = append(batch, in)
			if in.Kind == chat.Migrated { // what follows may be of the chat's new id
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

// convert converts one update. Whatever is wrong with it, it ends there: an
// update that cannot be converted is recorded if it says where it happened,
// and never asked for again.
func (a *Adapter) convert(c inbound.Converter, raw json.RawMessage) (in chat.Inbound, v inbound.ConvertResult) {
	id, _ := inbound.ID(raw)
	quarantine := func(err error) (chat.Inbound, inbound.ConvertResult) {
		a.log.Error("update cannot be converted", zap.Int64("update", id), zap.String("rule", inbound.RuleUnreadable), zap.Error(err))
		a.log.Debug("unconverted update", zap.ByteString("raw", raw))
		if in, ok := c.Quarantined(raw, id); ok {
			return in, inbound.Converted
		}
		return chat.Inbound{}, inbound.Skipped
	}
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("panic in conversion", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			in, v = quarantine(fmt.Errorf("panic: %v", p))
		}
	}()
	if in, v, err := a.conv(c, raw, time.Now()); err != nil {
		return quarantine(err)
	} else if v != inbound.Skipped {
		return in, v
	}
	if in, ok := c.Quarantined(raw, id); ok {
		return in, inbound.Converted
	}
	a.log.Info("update skipped", zap.Int64("update", id), zap.String("rule", inbound.RuleUnsupported))
	return chat.Inbound{}, inbound.Skipped
}

// accept hands a batch over; a panic of the sink is a refusal.
func accept(ctx context.Context, sink chat.Sink, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return sink.Accept(ctx, batch)
}
