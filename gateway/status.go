package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// Status is a snapshot of the state of the daemon.
type Status struct {
	Version      string            `json:"version"`
	Started      time.Time         `json:"started"`
	Model        string            `json:"model"`
	Mode         string            `json:"busy_mode"`
	Accounts     []accounts.Health `json:"accounts"`
	Paused       bool              `json:"paused,omitempty"`
	TurnsRunning int               `json:"turns_running"`
	TurnsQueued  int               `json:"turns_queued"`
	Store        inbox.Stats       `json:"store"`
	Cron         schedule.Status   `json:"cron"`
	// Breaks counts prefix breaks since the start, by reason. Undeclared breaks are
	// bugs.
	Breaks map[string]int `json:"prefix_breaks"`
	// Caching describes in one line whether prompts are cached.
	Caching   string    `json:"prompt_caching"`
	CallStats CallStats `json:"prefix_reuse"`
	// BackgroundCompactions counts the compactions that run in the background of turns.
	BackgroundCompactions hygiene.Stats         `json:"background_compactions"`
	Fallbacks             failure.FallbackStats `json:"fallbacks"`
}

// Status returns the current status.
func (g *Gateway) Status() Status {
	s := Status{Version: g.opts.Version, Started: rebaseTime(g.started), Model: g.opts.Model, Mode: string(g.opts.Mode), Store: g.opts.Store.Stats()}
	s.Paused, s.Cron = g.Paused(), g.CronStatus()
	s.TurnsRunning, s.TurnsQueued = g.lanes.Running()
	s.Breaks, s.Caching, s.CallStats = g.opts.Usage.Breaks(), g.opts.HomeInfo.Caching, g.callStats()
	s.BackgroundCompactions, s.Fallbacks = g.passes.Stats(), g.opts.Usage.Fallbacks()
	s.Accounts = g.opts.Accounts.Health()
	for i := range s.Accounts {
		h := &s.Accounts[i].Health
		h.Since, h.LastContact = rebaseTime(h.Since), rebaseTime(h.LastContact)
	}
	return s
}

// rebaseTime converts a time of this process to the current wall clock: the age of the
// result is correct even if the clock was changed.
func rebaseTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(-time.Since(t)).Round(0)
}

// env implements command.Env.
type env struct{ g *Gateway }

func (e env) Version() string { return "hermesd " + e.g.opts.Version }

// SetHome makes a chat the home channel of its platform.
func (e env) SetHome(ctx context.Context, at chat.Address) error { return e.g.targets.SetHome(ctx, at) }

func (e env) CanRestart() bool { return e.g.opts.Restart != nil }

func (e env) Busy(key session.Key) (running bool, waiting int) {
	l := inbox.LaneOf(key)
	return e.g.lanes.Active(l) || e.g.runner.HasOfferedClaim(l), e.g.opts.Store.Waiting(l)
}

func (e env) IsSoleAuthor(c command.Call) bool {
	return e.g.runner.IsSoleAuthor(inbox.LaneOf(c.Key), c.Principal)
}

func (e env) SetTitle(ctx context.Context, id session.ID, title string) error {
	return e.g.opts.Store.SetTitle(ctx, id, title)
}

// maxScannedSessions is the maximum number of sessions that lists are made from.
const maxScannedSessions = 1000

func (e env) Sessions(ctx context.Context, c command.Call) ([]session.Record, error) {
	all, err := e.g.opts.Store.Sessions(ctx, maxScannedSessions)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r session.Record) bool { return r.Key != c.Key }), nil
}

func (e env) Why(ctx context.Context, c command.Call, id string) (string, error) {
	histories, err := e.g.opts.Store.MessageHistory(ctx, id)
	if err != nil {
		return "", err
	}
	histories = slices.DeleteFunc(histories, func(h inbox.MessageHistory) bool { return h.Entry.Session != c.Key })
	if len(histories) == 0 {
		return c.T("I know of no such message in this conversation."), nil
	}
	var b strings.Builder
	for _, h := range histories {
		b.WriteString("```\n" + FormatHistory(h) + "```\n")
	}
	return b.String(), nil
}

func (e env) Status(_ context.Context, c command.Call) (string, error) {
	s := e.g.Status()
	var b strings.Builder
	b.WriteString(c.T("**hermesd %s**, up %s", s.Version, time.Since(s.Started).Round(time.Second)) + "\n\n")
	if c.Session.ID == "" {
		fmt.Fprintln(&b, c.T("- conversation: none yet"))
	} else {
		fmt.Fprintln(&b, c.T("- conversation: `%s`, %d messages, %d turns", c.Session.ID, c.Session.Messages, c.Session.Turns))
		if c.Session.Title != "" {
			fmt.Fprintln(&b, c.T("- name: %s", strings.ReplaceAll(c.Session.Title, "\n", " ")))
		}
		if u, ok := usageOf(c.Session); ok {
			fmt.Fprintln(&b, c.T("- tokens: %d in, %d cached, %d out", u.Input+u.CacheWrite, u.CacheRead, u.Output))
		}
	}
	if s.CallStats.Calls > 0 {
		fmt.Fprintln(&b, c.T("- reuse: %.0f %% of what was sent since the start came from the provider's cache", s.CallStats.Percent))
	}
	if n := s.Breaks[string(ledger.Undeclared)]; n > 0 {
		fmt.Fprintln(&b, c.T("- ⚠️ %d undeclared breaks of the prefix: a bug; `hermesd prompt trace` shows them", n))
	}
	if e.g.Paused() {
		fmt.Fprintln(&b, c.T("- ⏸ paused: no turn begins until `/pause off`"))
	}
	running, waiting := e.Busy(c.Key)
	state := c.T("idle")
	if running {
		state = c.T("a turn is running")
	}
	fmt.Fprintln(&b, c.T("- now: %s, %d messages wait", state, waiting))
	fmt.Fprintln(&b, c.T("- model: `%s`", s.Model))
	for _, a := range s.Accounts {
		fmt.Fprintf(&b, "- %s: %s\n", a.Platform, c.Translate(string(a.State)))
	}
	if n := s.Store.Outbox; n > 0 {
		fmt.Fprintln(&b, c.T("- waiting to be delivered: %d", n))
	}
	return b.String(), nil
}

func usageOf(r session.Record) (u llm.Usage, ok bool) {
	if len(r.Usage) == 0 {
		return u, false
	}
	return u, json.Unmarshal(r.Usage, &u) == nil
}
