package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/admission"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
)

func newRules() admission.Rules {
	specs, handlers := command.Specs(), make(map[string]command.Handler)
	for _, s := range specs {
		handlers[s.Name] = func(context.Context, command.Call) (command.Result, error) { return command.Result{}, nil }
	}
	return admission.Rules{Acknowledge: true, MaxWaiting: 3, Commands: command.NewTable(specs, handlers), Printer: i18n.Printer{}}
}

// message returns a message of an owner ("1"), a member ("2") or a guest.
func message(from, text string) chat.Inbound {
	at := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: from}
	return chat.Inbound{Kind: chat.Message, ID: "100", IdempotencyKey: "k", Address: at, Sender: chat.Person{ID: from}, Text: text}
}

// factsOf returns the facts about an event while nothing else happens.
func factsOf(t testing.TB, in chat.Inbound) admission.Facts {
	t.Helper()
	checker, err := access.New(access.Policy{Config: access.Config{Owners: []string{"1"}, AllowFrom: []string{"2"}, AllowAll: true}})
	if err != nil {
		t.Fatal(err)
	}
	f := admission.Facts{Now: time.Unix(1e9, 0).UTC(), Free: true, MayChange: true}
	f.Grant, f.Denial = checker.Check(in)
	return f
}

// describe returns what differs from an ordinary message that starts a turn.
func describe(d admission.Decision) string {
	e, words := d.Entry, []string{string(d.Entry.State)}
	add := func(cond bool, format string, args ...any) {
		if cond {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(e.Lane.Immediate(), "immediate")
	add(e.Exclusive, "alone")
	add(e.Background, "background")
	add(e.Mode != "", "%s", e.Mode)
	add(d.Claim, "claim")
	if e.Outcome != nil {
		add(true, "%s(%s)", e.Outcome.Result, e.Outcome.Reason)
	}
	add(e.Inbound.Text != "", "%q", e.Inbound.Text)
	if n := d.Notice; n != nil {
		first, _, _ := strings.Cut(n.Text, " ")
		add(d.Acknowledgement, "acknowledged %s", first)
		add(!d.Acknowledgement, "told %s", first)
		add(n.Draft.Secret, "secretly")
	}
	add(d.Refusal != nil, "or refused")
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	type facts = admission.Facts
	type rules = admission.Rules
	busy := func(f *facts) { f.Active, f.Free = true, false }
	group := func(in *chat.Inbound) { in.Address.Kind, in.Address.Chat = chat.Group, "-5" }
	for name, tt := range map[string]struct {
		from, text string // from: "2" if empty
		in         func(*chat.Inbound)
		facts      func(*facts)
		rules      func(*rules)
		want       string
	}{
		"a message":                        {text: "hi", want: `waiting claim "hi"`},
		"an ignored message":               {text: "hi", in: func(in *chat.Inbound) { in.IgnoreRule = "not_addressed" }, want: `done silent(not_addressed)`},
		"a migration":                      {in: func(in *chat.Inbound) { in.Kind = chat.Migrated }, want: `done silent(moved)`},
		"of nobody":                        {text: "hi", facts: func(f *facts) { f.Grant, f.Denial = access.Grant{}, access.Denial{Rule: "bot"} }, want: `done silent(bot)`},
		"of a stranger":                    {text: "hi", facts: func(f *facts) { *f = facts{PairingRule: pairing.RuleOffered, PairingCode: "ABCD2345"} }, want: `done replied(pairing_offered) told You secretly`},
		"of a stranger again":              {text: "hi", facts: func(f *facts) { *f = facts{PairingRule: pairing.RuleRecent} }, want: `done silent(pairing_recent)`},
		"a command":                        {text: "/title x", want: `waiting alone claim "/title x"`},
		"an immediate command":             {text: "/status", want: `waiting immediate alone claim "/status"`},
		"an unknown command":               {text: "/weather x", want: `waiting immediate alone claim "/weather x"`},
		"a skill":                          {text: "/weather x", facts: func(f *facts) { f.Skill = true }, want: `waiting claim "/weather x"`},
		"a path":                           {text: "/etc/hosts", want: `waiting claim "/etc/hosts"`},
		"a button":                         {text: "/approve x", in: func(in *chat.Inbound) { in.Kind = chat.Callback }, want: `waiting immediate alone claim "/approve x"`},
		"a button that is no command":      {text: "x", in: func(in *chat.Inbound) { in.Kind = chat.Callback }, want: `done silent(no_such_button)`},
		"an edit":                          {text: "/new", in: func(in *chat.Inbound) { in.Kind = chat.Edit }, facts: busy, want: `waiting "/new"`},
		"an edit of what was queued":       {text: "/queue hi there", in: func(in *chat.Inbound) { in.Kind = chat.Edit }, facts: busy, want: `waiting "hi there"`},
		"busy":                             {text: "hi", facts: busy, want: `waiting "hi"`},
		"busy, the rule is to queue":       {text: "hi", facts: busy, rules: func(r *rules) { r.Mode = inbox.Queue }, want: `waiting queue "hi" acknowledged ⏳`},
		"busy, the conversation steers":    {text: "hi", facts: func(f *facts) { busy(f); f.Mode = inbox.Steer }, rules: func(r *rules) { r.Mode = inbox.Queue }, want: `waiting steer "hi" acknowledged ↪️`},
		"busy, it may not change the turn": {text: "hi", facts: func(f *facts) { busy(f); f.Mode, f.MayChange = inbox.Steer, false }, want: `waiting queue "hi" acknowledged ⏳`},
		"busy, the conversation interrupts": {
			text: "hi", facts: func(f *facts) { busy(f); f.Mode = inbox.Interrupt }, rules: func(r *rules) { r.Mode = inbox.Queue }, want: `waiting "hi"`,
		},
		"busy, nothing is acknowledged":     {text: "hi", facts: busy, rules: func(r *rules) { r.Mode, r.Acknowledge = inbox.Queue, false }, want: `waiting queue "hi"`},
		"busy, unattended":                  {text: "hi", facts: func(f *facts) { busy(f); f.Unattended = true }, rules: func(r *rules) { r.Mode = inbox.Queue }, want: `waiting queue "hi"`},
		"queued on request":                 {text: "/queue hi", facts: busy, want: `waiting queue "hi" acknowledged ⏳`},
		"steered on request":                {text: "/steer hi", facts: busy, want: `waiting steer "hi" acknowledged ↪️`},
		"a skill, queued":                   {text: "/queue /weather x", facts: func(f *facts) { busy(f); f.Skill = true }, want: `waiting queue "/weather x" acknowledged ⏳`},
		"a command, queued":                 {text: "/queue /undo", facts: busy, want: `waiting alone queue "/undo" acknowledged ⏳`},
		"/queue alone":                      {text: "/queue", facts: busy, want: `waiting immediate alone "/queue"`},
		"in the background":                 {text: "/bg hi", facts: func(f *facts) { f.Active, f.Waiting = true, 9 }, rules: func(r *rules) { r.Mode = inbox.Queue }, want: `waiting background claim "hi"`},
		"in the background, by alias":       {from: "3", text: "/background hi", want: `waiting background claim "hi"`},
		"an answer":                         {text: "blue", facts: func(f *facts) { busy(f); f.Question = true }, want: `waiting steer "blue"`},
		"yes":                               {text: " Yes! ", facts: func(f *facts) { busy(f); f.Approvals = []string{"q1"} }, want: `waiting immediate alone "/approve q1"`},
		"no":                                {text: "n", facts: func(f *facts) { busy(f); f.Approvals = []string{"q1"} }, want: `waiting immediate alone "/deny q1"`},
		"yes to one of two":                 {text: "yes", facts: func(f *facts) { busy(f); f.Approvals = []string{"q1", "q2"} }, want: `waiting "yes"`},
		"yes to nothing":                    {text: "yes", facts: busy, want: `waiting "yes"`},
		"paused":                            {text: "hi", facts: func(f *facts) { f.Paused, f.Free = true, false }, want: `waiting "hi" acknowledged ⏸`},
		"an immediate command while paused": {text: "/pause off", facts: func(f *facts) { f.Paused, f.Free = true, false }, want: `waiting immediate alone "/pause off"`},
		"one waits":                         {text: "hi", facts: func(f *facts) { busy(f); f.Waiting = 2 }, want: `waiting "hi"`},
		"many wait":                         {text: "hi", facts: func(f *facts) { busy(f); f.Waiting = 3 }, want: `waiting "hi" or refused`},
		"many wait, and it is told":         {text: "/queue hi", facts: func(f *facts) { busy(f); f.Waiting = 3 }, want: `waiting queue "hi" acknowledged ⏳ or refused`},
		"many wait for a command":           {text: "/undo", facts: func(f *facts) { busy(f); f.Waiting = 3 }, want: `waiting alone "/undo"`},
		"a guest in a group":                {from: "3", text: "hi", in: group, want: `waiting claim "hi"`},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.from == "" {
				tt.from = "2"
			}
			r, in := newRules(), message(tt.from, tt.text)
			if tt.in != nil {
				tt.in(&in)
			}
			f := factsOf(t, in)
			if tt.facts != nil {
				tt.facts(&f)
			}
			if tt.rules != nil {
				tt.rules(&r)
			}
			d := r.Decide(in, f, new(admission.Tally))
			if got := describe(d); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// The entries of a batch that precede a message count, in its lane only.
func TestDecideCountsTheBatch(t *testing.T) {
	var tally admission.Tally
	var refused []bool
	for _, from := range []string{"2", "2", "1", "2", "2"} {
		in := message(from, "hi")
		refused = append(refused, newRules().Decide(in, factsOf(t, in), &tally).Refusal != nil)
	}
	if got := fmt.Sprint(refused); got != "[false false false false true]" {
		t.Errorf("refused: %s", got)
	}
}

// Only the notice of a pairing code contains the code, and it is secret.
func TestDecidePairingCodeIsInTheSecretNoticeOnly(t *testing.T) {
	in := message("9", "hello")
	d := newRules().Decide(in, admission.Facts{PairingRule: pairing.RuleOffered, PairingCode: "ABCD2345"}, new(admission.Tally))
	if n := d.Notice; n == nil || strings.Count(n.Text, "ABCD2345") != 2 || !n.Draft.Secret || n.Draft.To != in.Address || n.Draft.ReplyTo != in.ID {
		t.Errorf("notice %+v", n)
	}
	if kept := fmt.Sprintf("%+v %+v", d.Entry, d.Entry.Outcome); strings.Contains(kept, "ABCD2345") || strings.Contains(kept, "hello") {
		t.Errorf("entry %s", kept)
	}
}

// An event without a valid grant ends and leaves nothing of what it contains, whatever
// else is known; the same facts always have the same decision.
func TestDecideDependsOnTheGrant(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := message(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "from"), rapid.SampledFrom([]string{"canary", "/new canary", "/bg canary", "/queue canary", "yes"}).Draw(r, "text"))
		in.Kind = rapid.SampledFrom([]chat.EventKind{chat.Message, chat.Edit, chat.Callback}).Draw(r, "kind")
		in.Files, in.ReplyTo = []chat.File{{Name: "canary"}}, &chat.Quote{Text: "canary"}
		f := factsOf(t, in)
		granted := rapid.Bool().Draw(r, "granted")
		if !granted {
			f.Grant = access.Grant{}
		}
		f.Waiting, f.Active, f.Paused = rapid.IntRange(0, 5).Draw(r, "waiting"), rapid.Bool().Draw(r, "active"), rapid.Bool().Draw(r, "paused")
		f.Question, f.MayChange, f.Skill = rapid.Bool().Draw(r, "question"), rapid.Bool().Draw(r, "may change"), rapid.Bool().Draw(r, "skill")
		decide := func() string {
			raw, err := json.Marshal(newRules().Decide(in, f, new(admission.Tally)))
			if err != nil {
				r.Fatal(err)
			}
			return string(raw)
		}
		got := decide()
		if got != decide() {
			r.Error("decided differently")
		}
		if !granted && (strings.Contains(got, "canary") || !strings.Contains(got, `"state":"done"`) || strings.Contains(got, `"Claim":true`)) {
			r.Errorf("without a grant: %s", got)
		}
	})
}
