package app

import (
	"context"
	"encoding/json"

	"hermesd/agent/engine/lcm"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// An archive reads the stored messages of a session by their row numbers.
type archive struct {
	store store.Sessions
	id    session.ID
}

// Rows implements lcm.Archive.
func (r archive) Rows(ctx context.Context, from, to int) ([]llm.Message, error) {
	rows, err := r.store.Rows(ctx, r.id, session.Span{From: from, To: to})
	if err != nil {
		return nil, err
	}
	return store.Decode(rows, from)
}

// recallTools returns the tools of the context engine with which a model reads
// archived messages; none if the engine has no such tools. They read the store: what
// the running turn has compacted is stored when the turn ends.
func (a *App) recallTools() []tool.Tool {
	sessions := a.store
	switch {
	case !a.opts.Config.Compression.Enabled:
		return nil
	case a.engineHost != nil:
		return a.engineHost.Tools(func(ctx context.Context, id string) (json.RawMessage, error) {
			return sessions.Engine(ctx, session.ID(id))
		})
	case a.opts.Config.Context.Engine != lcm.Name:
		return nil
	}
	return lcm.Tools(func(ctx context.Context, id string) (json.RawMessage, lcm.Archive, error) {
		state, err := sessions.Engine(ctx, session.ID(id))
		return state, archive{sessions, session.ID(id)}, err
	})
}
