package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hermesd/gateway/access"
	"hermesd/gateway/turn"
)

// approvalsKey is where it is kept what owners have allowed for ever.
const approvalsKey = "allowed"

// approvals are how dangerous commands are allowed, with what was allowed for
// ever.
func (g *Gateway) approvals() turn.Approvals {
	a := g.opts.Approvals
	a.Always = func(key string) bool {
		list := g.allowed.Load()
		return list != nil && slices.Contains(*list, key)
	}
	a.StoreAlways = g.storeAlwaysAllowed
	if a.Level == nil {
		a.Level = access.ToolLevel
	}
	return a
}

// loadApprovals reads what owners have allowed for ever.
func (g *Gateway) loadApprovals(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, approvalsKey)
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

// storeAlwaysAllowed keeps that an owner has allowed key for ever. Of two that are
// allowed in the same moment a restart may forget one; it is asked for again then.
func (g *Gateway) storeAlwaysAllowed(ctx context.Context, key string) error {
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
	return g.opts.Store.SetValue(context.WithoutCancel(ctx), approvalsKey, raw)
}
