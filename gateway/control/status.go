package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hermesd/agent/llm/ledger"
	"hermesd/gateway/accounts"
	"hermesd/gateway/command"
	"hermesd/gateway/failure"
	"hermesd/gateway/memory"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
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
	Store        store.Stats       `json:"store"`
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
	Memory                *memory.Status        `json:"memory,omitempty"` // nil: there is no external memory
}

// Status returns the current status.
func (ctl *Control) Status() Status {
	run, o := ctl.parts.Runtime, ctl.parts.Options
	s := Status{Version: o.Version, Started: rebaseTime(ctl.started), Model: o.Model, Mode: string(o.Mode), Store: ctl.parts.Store.Stats()}
	s.Paused, s.Cron = run.Pause.Paused(), run.Cron.Status()
	s.TurnsRunning, s.TurnsQueued = run.Lanes.Running()
	s.Breaks, s.Caching, s.CallStats = run.Usage.Breaks(), o.Caching, ctl.callStats()
	s.BackgroundCompactions, s.Fallbacks = run.Turns.Compactions(), run.Usage.Fallbacks()
	if m := run.Memory.Status(); m.Provider != "" {
		s.Memory = &m
	}
	s.Accounts = run.Accounts.Health()
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

// describeStatus describes the conversation and the daemon.
func (ctl *Control) describeStatus(_ context.Context, c command.Call) (string, error) {
	s := ctl.Status()
	var b strings.Builder
	b.WriteString(c.T("**hermesd %s**, up %s", s.Version, time.Since(s.Started).Round(time.Second)) + "\n\n")
	if c.Session.ID == "" {
		fmt.Fprintln(&b, c.T("- conversation: none yet"))
	} else {
		fmt.Fprintln(&b, c.T("- conversation: `%s`, %d messages, %d turns", c.Session.ID, c.Session.Messages, c.Session.Turns))
		if c.Session.Title != "" {
			fmt.Fprintln(&b, c.T("- name: %s", strings.ReplaceAll(c.Session.Title, "\n", " ")))
		}
		if u := c.Session.Usage; u != nil {
			fmt.Fprintln(&b, c.T("- tokens: %d in, %d cached, %d out", u.Input+u.CacheWrite, u.CacheRead, u.Output))
		}
	}
	if s.CallStats.Calls > 0 {
		fmt.Fprintln(&b, c.T("- reuse: %.0f %% of what was sent since the start came from the provider's cache", s.CallStats.Percent))
	}
	if n := s.Breaks[string(ledger.Undeclared)]; n > 0 {
		fmt.Fprintln(&b, c.T("- ⚠️ %d undeclared breaks of the prefix: a bug; `hermesd prompt trace` shows them", n))
	}
	if s.Paused {
		fmt.Fprintln(&b, c.T("- ⏸ paused: no turn begins until `/pause off`"))
	}
	running, waiting := ctl.busy(c.Key)
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
