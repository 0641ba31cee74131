package compaction

import (
	"encoding/json"
	"fmt"
	"time"
)

// state is what an engine keeps with its session.
type state struct {
	Engine      string          `json:"engine"`
	Passes      int             `json:"passes,omitempty"`
	Archived    int             `json:"archived,omitempty"`
	Last        string          `json:"last,omitempty"`
	Failures    int             `json:"failures,omitempty"` // in a row
	Until       time.Time       `json:"until,omitzero"`     // no pass before
	Reason      string          `json:"why,omitempty"`      // the last failure
	Ineffective int             `json:"ineffective,omitempty"`
	Resume      int             `json:"resume,omitempty"` // number of the message from which on the pause is over
	Banner      string          `json:"banner,omitempty"` // digest of the newest summary
	From        int             `json:"from,omitempty"`   // the first message that it stands for
	Body        string          `json:"body,omitempty"`   // the newest summary
	Scribe      json.RawMessage `json:"scribe,omitempty"` // what the scribe keeps
	Stands      bool            `json:"stands,omitempty"` // From and Body are known
}

// load reads raw, if an engine called name kept it.
func load(raw json.RawMessage, name string) state {
	var s state
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.Engine != name || s.Failures < 0 || s.Ineffective < 0 {
		return state{Engine: name}
	}
	return s
}

// The cooldowns after one, two, and more failures in a row.
var cooldowns = [...]time.Duration{60 * time.Second, 300 * time.Second, 900 * time.Second}

// What makes automatic passes pause, and for how long.
const (
	effective      = 10 // per cent that a pass must save
	maxIneffective = 2  // passes that did not
	pause          = 20 // messages
)

func (s *state) failed(err error) {
	s.Failures++
	s.Until = time.Now().Add(cooldowns[min(s.Failures, len(cooldowns))-1]).UTC().Round(0)
	s.Reason = err.Error()
}

// idle notes a pass that did not help; end is the number of the next message.
func (s *state) idle(end int) {
	if s.Ineffective++; s.Ineffective >= maxIneffective {
		s.Resume = end + pause
	}
}

// coolingDown reports whether automatic passes rest when the next message will have
// the number end, and ends a pause that is over.
func (s *state) coolingDown(end int) bool {
	if s.Ineffective >= maxIneffective && end >= s.Resume {
		s.Ineffective, s.Resume = 0, 0
	}
	return s.Ineffective >= maxIneffective || s.pausing()
}

// pausing reports whether the rest after a failure goes on. One that is longer than
// the longest was begun by a clock that has been set back since.
func (s *state) pausing() bool {
	left := time.Until(s.Until)
	return left > 0 && left <= cooldowns[len(cooldowns)-1]
}

// endCooldown forgets failures and pauses.
func (s *state) endCooldown() {
	s.Failures, s.Until, s.Reason, s.Ineffective, s.Resume = 0, time.Time{}, "", 0, 0
}

// why says in words why automatic passes rest; "" if they do not.
func (s *state) why() string {
	switch {
	case s.pausing():
		return fmt.Sprintf("until %s, because the last pass failed: %s", s.Until.Format(time.RFC3339), s.Reason)
	case s.Ineffective >= maxIneffective:
		return fmt.Sprintf("the last %d passes saved under %d %%; it goes on after %d more messages, /compress or /new", s.Ineffective, effective, pause)
	}
	return ""
}

// Kept returns what the scribe of the engine called name has kept in raw, a
// state; nil for nothing.
func Kept(raw json.RawMessage, name string) json.RawMessage { return load(raw, name).Scribe }
