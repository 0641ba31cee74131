package slack

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/connection"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// scopes returns the scopes that the app needs; Manifest requests the same.
func scopes() []string {
	return []string{
		"app_mentions:read", "channels:history", "channels:read", "chat:write", "commands",
		"files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read",
		"mpim:history", "mpim:read", "reactions:write", "users:read",
	}
}

// decoration reports whether a scope is optional, so that nothing is lost
// without it.
func decoration(scope string) bool {
	return scope == "reactions:write" || scope == "commands"
}

// identify fetches the bot's own identity, retrying until it succeeds. It fails
// only with an error that the operator has to repair, or when ctx ends.
func (a *Adapter) identify(ctx context.Context) error {
	b := backoff.Backoff{First: connection.First}
	for {
		err := a.ask(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if ce := apierror.Config(err); ce != nil {
			return ce
		}
		se := apierror.SendError(err)
		a.log.Warn("cannot fetch bot identity", zap.Error(err))
		a.health.Set(chat.Retrying, se.Reason)
		if err := backoff.Sleep(ctx, max(se.RetryAfter, b.Next())); err != nil {
			return err
		}
	}
}

func (a *Adapter) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := a.api.AuthTestContext(ctx)
	if err != nil {
		return err //nolint:wrapcheck // sendError converts it
	}
	a.mu.Lock()
	a.me = inbound.Identity{Team: r.TeamID, UserID: r.UserID, BotID: r.BotID, Name: r.User}
	a.mu.Unlock()
	a.compare(r.Header)
	return nil
}

// compare logs and records the scopes that the app lacks.
func (a *Adapter) compare(h http.Header) {
	said := h.Get("X-Oauth-Scopes")
	if said == "" {
		return // the server does not report scopes
	}
	var have, lack, bad []string
	for s := range strings.SplitSeq(said, ",") {
		have = append(have, strings.TrimSpace(s))
	}
	for _, s := range scopes() {
		if slices.Contains(have, s) {
			continue
		}
		lack = append(lack, s)
		if !decoration(s) {
			bad = append(bad, s)
		}
	}
	if len(lack) == 0 {
		a.note(&a.lacking, "")
		return
	}
	a.log.Warn("app lacks scopes; add them under OAuth & Permissions and reinstall it", zap.Strings("scopes", lack))
	if len(bad) > 0 {
		a.note(&a.lacking, "the app lacks the scopes "+strings.Join(bad, ", ")+"; add them under OAuth & Permissions and install it again")
	}
}
