package command

import (
	"context"

	"hermesd/gateway/chat"
)

// ask returns a command whose answer the daemon gives as Markdown. Of a
// conversation that has not begun there is nothing to tell: otherwise is said.
func ask(about func(Env, context.Context, Call) (string, error), otherwise string) func(context.Context, Env, Call) (Result, error) {
	return func(ctx context.Context, env Env, c Call) (Result, error) {
		if c.Session.ID == "" && otherwise != "" {
			return Result{Text: c.Translate(otherwise)}, nil
		}
		text, err := about(env, ctx, c)
		return Result{Text: text}, err
	}
}

// memory tells an owner how full the memories are, where nobody else reads it.
func memory(ctx context.Context, env Env, c Call) (Result, error) {
	if c.Inbound.Address.Kind != chat.DM || c.Session.Shared {
		return Result{Text: c.T("Memories are not shown where others read along. Ask me in a direct chat, or run `hermesd memory show`.")}, nil
	}
	text, err := env.Memory(ctx, c)
	return Result{Text: text}, err
}
