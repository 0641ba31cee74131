package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// Status is the live state of the daemon.
type Status struct {
	Version  string          `json:"version"`
	Started  time.Time       `json:"started"`
	Model    string          `json:"model"`
	Mode     string          `json:"busy_mode"`
	Accounts []AccountHealth `json:"accounts"`
	Running  int             `json:"turns_running"`
	Ready    int             `json:"lanes_waiting"`
	Store    inbox.Stats     `json:"store"`
}

// AccountHealth is the state of one account.
type AccountHealth struct {
	chat.Account
	chat.Health
}

// Status returns the state of this moment.
func (g *Gateway) Status() Status {
	s := Status{Version: g.o.Version, Started: g.started, Model: g.o.Model, Mode: string(g.o.Mode), Store: g.o.Store.Stats()}
	s.Running, s.Ready = g.lanes.Running()
	for a, ad := range g.o.Adapters {
		s.Accounts = append(s.Accounts, AccountHealth{a, ad.Health()})
	}
	slices.SortFunc(s.Accounts, func(a, b AccountHealth) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Account.Name, b.Account.Name))
	})
	return s
}

// env is what commands may ask.
type env struct{ g *Gateway }

func (e env) Version() string { return "hermesd " + e.g.o.Version }

func (e env) Busy(key session.Key) (running bool, waiting int) {
	l := inbox.LaneOf(key)
	return e.g.lanes.Active(l), e.g.o.Store.Waiting(l)
}

func (e env) SetTitle(ctx context.Context, id session.ID, title string) error {
	return e.g.o.Store.SetTitle(ctx, id, title)
}

// scanned bounds how many sessions a list in the chat looks at.
const scanned = 1000

func (e env) Sessions(ctx context.Context, c command.Call) ([]session.Record, error) {
	all, err := e.g.o.Store.Sessions(ctx, scanned)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r session.Record) bool { return r.Key != c.Key }), nil
}

func (e env) Why(ctx context.Context, c command.Call, id string) (string, error) {
	chains, err := e.g.o.Store.Why(ctx, id)
	if err != nil {
		return "", err
	}
	chains = slices.DeleteFunc(chains, func(ch inbox.Chain) bool { return ch.Entry.Session != c.Key })
	if len(chains) == 0 {
		return "I know of no such message in this conversation.", nil
	}
	var b strings.Builder
	for _, ch := range chains {
		b.WriteString("```\n" + Story(ch) + "```\n")
	}
	return b.String(), nil
}

func (e env) Status(_ context.Context, c command.Call) (string, error) {
	s := e.g.Status()
	var b strings.Builder
	fmt.Fprintf(&b, "**hermesd %s**, up %s\n\n", s.Version, time.Since(s.Started).Round(time.Second))
	if c.Session.ID == "" {
		b.WriteString("- conversation: none yet\n")
	} else {
		fmt.Fprintf(&b, "- conversation: `%s`, %d messages, %d turns\n", c.Session.ID, c.Session.Messages, c.Session.Turns)
		if c.Session.Title != "" {
			fmt.Fprintf(&b, "- name: %s\n", strings.ReplaceAll(c.Session.Title, "\n", " "))
		}
		if u, ok := usageOf(c.Session); ok {
			fmt.Fprintf(&b, "- tokens: %d in, %d cached, %d out\n", u.Input+u.CacheWrite, u.CacheRead, u.Output)
		}
	}
	running, waiting := e.Busy(c.Key)
	state := "idle"
	if running {
		state = "a turn is running"
	}
	fmt.Fprintf(&b, "- now: %s, %d messages wait\n- model: `%s`\n", state, waiting, s.Model)
	for _, a := range s.Accounts {
		fmt.Fprintf(&b, "- %s: %s\n", a.Platform, a.State)
	}
	if n := s.Store.Outbox; n > 0 {
		fmt.Fprintf(&b, "- waiting to be delivered: %d\n", n)
	}
	return b.String(), nil
}

func usageOf(r session.Record) (u llm.Usage, ok bool) {
	if len(r.Usage) == 0 {
		return u, false
	}
	return u, json.Unmarshal(r.Usage, &u) == nil
}
