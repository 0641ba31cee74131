package app

import (
	"context"
	"encoding/json"
	"fmt"

	"hermesd/agent/engine/lcm"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/gateway/session"
)

// An archive reads the messages of a session by their numbers.
type archive struct {
	a  *App
	id session.ID
}

// Rows implements lcm.Archive.
func (r archive) Rows(ctx context.Context, from, to int) ([]llm.Message, error) {
	rows, err := r.a.store.Rows(ctx, r.id, session.Span{From: from, To: to})
	if err != nil {
		return nil, err
	}
	ms := make([]llm.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &ms[i]); err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", from+i, r.id, err)
		}
	}
	return ms, nil
}

// recallTools are the tools with which a model brings back what was archived,
// where the engine has such. They see what is stored: what the turn under way has
// compacted comes with its end.
func (a *App) recallTools() []tool.Tool {
	switch {
	case !a.opts.Config.Compression.Enabled:
		return nil
	case a.host != nil:
		return a.host.Tools(func(ctx context.Context, id string) (json.RawMessage, error) {
			return a.store.Engine(ctx, session.ID(id))
		})
	case a.opts.Config.Context.Engine != lcm.Name:
		return nil
	}
	return lcm.Tools(func(ctx context.Context, id string) (json.RawMessage, lcm.Archive, error) {
		state, err := a.store.Engine(ctx, session.ID(id))
		return state, archive{a, session.ID(id)}, err
	})
}
