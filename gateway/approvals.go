package gateway

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/inbox"
	"hermesd/gateway/turn"
)

// ApprovalManager returns the manager of permanent approvals.
func (g *Gateway) ApprovalManager() *approval.Manager { return g.approvals }

// approvalOptions returns the approval options of turns: the configured ones with the
// permanent approvals of this gateway.
func (g *Gateway) approvalOptions() turn.Approvals {
	a := g.opts.Approvals
	a.Always = g.isAlwaysApproved
	a.StoreAlways = func(ctx context.Context, by access.Principal, shapes []string) error {
		return g.approvals.Add(ctx, by, "", shapes...)
	}
	if a.Level == nil {
		a.Level = access.ToolLevel
	}
	return a
}

// isAlwaysApproved reports whether a permanent approval of shape holds in the turn of e:
// with a person, one that holds everywhere, by any grantor; in a run of a job, one that
// approval.InRuns finds. If the approvals cannot be read, none holds.
func (g *Gateway) isAlwaysApproved(ctx context.Context, e inbox.Entry, shape string) bool {
	list, err := g.approvals.List(ctx)
	if err != nil {
		g.opts.Log.Error("cannot read permanent approvals", zap.Error(err))
		return false
	}
	if e.Occurrence == nil || len(list) == 0 {
		return slices.ContainsFunc(list, func(r approval.Record) bool { return r.Covers(shape) && r.Job == "" })
	}
	j, ok, err := g.opts.Store.Job(ctx, e.Occurrence.Job)
	if err != nil || !ok { // removed since the run started
		g.opts.Log.Warn("cannot load job for its approvals", zap.String("job", string(e.Occurrence.Job)), zap.Error(err))
		return false
	}
	creator, _ := g.cron.creatorOf(j)
	return approval.InRuns(list, j, creator)(shape)
}
