package turn

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// command runs the command in the claim's only entry. It is marked done before
// what it stops is stopped, so it can never be run twice.
func (t *turn) command(ctx context.Context) {
	e := t.first()
	name, args, _ := command.Parse(e.In.Text)
	rec, _, err := t.r.o.Store.Session(ctx, e.Session)
	if err != nil {
		t.fail(ctx, fmt.Errorf("session %s: %w", e.Session, err))
		return
	}
	call := command.Call{Name: name, Args: args, In: e.In, By: e.By, Key: e.Session, Session: rec}
	res, err := t.r.o.Commands.Run(ctx, t.r.o.Env, call)
	if err != nil {
		t.fail(ctx, fmt.Errorf("/%s: %w", name, err))
		return
	}
	m := inbox.Commit{
		Outcome: inbox.Outcome{Result: inbox.Replied},
		Rows:    t.r.o.Delivery.Render(res.Text, t.draft()),
	}
	if res.Stop {
		m.Cancel, m.CancelWhy = []inbox.Lane{inbox.LaneOf(e.Session)}, "/"+name
	}
	if res.Open {
		s, err := t.r.begin(e, res.Title)
		if err != nil {
			t.fail(ctx, err)
			return
		}
		m.Open, m.Session = s.open, session.Record{}
	}
	t.commit(ctx, 0, m)
	if res.Stop && t.r.o.Stop(inbox.LaneOf(e.Session), Stopped{By: "/" + name}) {
		t.log.Info("stopped", zap.String("by", e.By.ID))
	}
}
