package command

import (
	"context"

	"hermesd/gateway/chat"
)

// replyWith returns a command whose reply is the result of an Env method. If there is no
// session yet and otherwise is not "", the reply is otherwise.
func replyWith(about func(Env, context.Context, Call) (string, error), otherwise string) func(context.Context, Env, Call) (Result, error) {
	return func(ctx context.Context, env Env, c Call) (Result, error) {
		if c.Session.ID == "" && otherwise != "" {
			return Result{Text: c.Translate(otherwise)}, nil
		}
		text, err := about(env, ctx, c)
		return Result{Text: text}, err
	}
}

// memory shows an owner how full the memories are, only in a direct chat.
func memory(ctx context.Context, env Env, c Call) (Result, error) {
	if c.Inbound.Address.Kind != chat.DM || c.Session.Shared {
		return Result{Text: c.T("Memories are not shown where others read along. Ask me in a direct chat, or run `hermesd memory show`.")}, nil
	}
	text, err := env.Memory(ctx, c)
	return Result{Text: text}, err
}
