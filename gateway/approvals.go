package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hermesd/gateway/access"
	"hermesd/gateway/turn"
)

// approvalsKey is the store key of the permanent approvals.
const approvalsKey = "allowed"

// approvalOptions returns the approval options of turns: the configured ones with the
// permanent approvals of this gateway.
func (g *Gateway) approvalOptions() turn.Approvals {
	a := g.opts.Approvals
	a.Always = func(key string) bool {
		list := g.alwaysAllowed.Load()
		return list != nil && slices.Contains(*list, key)
	}
	a.StoreAlways = g.storeAlwaysAllowed
	if a.Level == nil {
		a.Level = access.ToolLevel
	}
	return a
}

// loadApprovals loads the permanent approvals from the store.
func (g *Gateway) loadApprovals(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, approvalsKey)
	if err != nil || raw == nil {
		return err
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("decode permanent approvals: %w", err)
	}
	g.alwaysAllowed.Store(&list)
	return nil
}

// storeAlwaysAllowed stores that an owner permanently approved key. If two keys are
// approved concurrently, one may be missing after a restart; the approval is then
// requested again.
func (g *Gateway) storeAlwaysAllowed(ctx context.Context, key string) error {
	var list []string
	for done := false; !done; {
		old := g.alwaysAllowed.Load()
		if list = nil; old != nil {
			list = slices.Clone(*old)
		}
		if slices.Contains(list, key) {
			return nil
		}
		list = append(list, key)
		done = g.alwaysAllowed.CompareAndSwap(old, &list)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode permanent approvals: %w", err)
	}
	return g.opts.Store.SetValue(context.WithoutCancel(ctx), approvalsKey, raw)
}
