package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hermesd/gateway/access"
	"hermesd/gateway/turn"
)

// leaveKey is where it is kept what owners have allowed for ever.
const leaveKey = "allowed"

// approvals are how dangerous commands are allowed, with what was allowed for
// ever.
func (g *Gateway) approvals() turn.Approvals {
	a := g.o.Approvals
	a.Always = func(key string) bool {
		list := g.allowed.Load()
		return list != nil && slices.Contains(*list, key)
	}
	a.StoreAlways = g.allowForEver
	if a.Level == nil {
		a.Level = access.ToolLevel
	}
	return a
}

// readLeave reads what owners have allowed for ever.
func (g *Gateway) readLeave(ctx context.Context) error {
	raw, err := g.o.Store.Value(ctx, leaveKey)
	if err != nil || raw == nil {
		return err
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("what was allowed for ever: %w", err)
	}
	g.allowed.Store(&list)
	return nil
}

// allowForEver keeps that an owner has allowed key for ever. Of two that are
// allowed in the same moment a restart may forget one; it is asked for again then.
func (g *Gateway) allowForEver(ctx context.Context, key string) error {
	var list []string
	for done := false; !done; {
		old := g.allowed.Load()
		if list = nil; old != nil {
			list = slices.Clone(*old)
		}
		if slices.Contains(list, key) {
			return nil
		}
		list = append(list, key)
		done = g.allowed.CompareAndSwap(old, &list)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("what was allowed for ever: %w", err)
	}
	return g.o.Store.SetValue(context.WithoutCancel(ctx), leaveKey, raw)
}
