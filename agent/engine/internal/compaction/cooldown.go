package compaction

import (
	"encoding/json"
	"fmt"
	"time"
)

// state is the part of an engine that is stored with its session.
type state struct {
	Engine      string          `json:"engine"`
	Passes      int             `json:"passes,omitempty"`
	Archived    int             `json:"archived,omitempty"`
	Last        string          `json:"last,omitempty"`
	Failures    int             `json:"failures,omitempty"` // consecutive
	Until       time.Time       `json:"until,omitzero"`     // end of the cooldown after a failure
	Reason      string          `json:"why,omitempty"`      // text of the last failure
	Ineffective int             `json:"ineffective,omitempty"`
	Resume      int             `json:"resume,omitempty"` // number of the message that ends the pause
	Banner      string          `json:"banner,omitempty"` // digest of the newest summary block
	From        int             `json:"from,omitempty"`   // number of the first message that it covers
	Body        string          `json:"body,omitempty"`   // text of the newest summary
	Summarizer  json.RawMessage `json:"scribe,omitempty"` // state of the Summarizer
	HasSummary  bool            `json:"stands,omitempty"` // From and Body are valid
}

// loadState parses raw. It returns an empty state unless raw was stored by an
// engine called name.
func loadState(raw json.RawMessage, name string) state {
	var s state
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.Engine != name || s.Failures < 0 || s.Ineffective < 0 {
		return state{Engine: name}
	}
	return s
}

// Cooldowns after one, two, and more consecutive failures.
var cooldowns = [...]time.Duration{60 * time.Second, 300 * time.Second, 900 * time.Second}

// Compactions that save little pause automatic compaction.
const (
	minSavedPercent  = 10 // percentage of the tokens that a compaction must save
	maxIneffective   = 2  // compactions that saved less
	ineffectivePause = 20 // length of the pause, in messages
)

func (s *state) recordFailure(err error) {
	s.Failures++
	s.Until = time.Now().Add(cooldowns[min(s.Failures, len(cooldowns))-1]).UTC().Round(0)
	s.Reason = err.Error()
}

// recordIneffective counts a compaction that did not help; end is the number of
// the next message.
func (s *state) recordIneffective(end int) {
	if s.Ineffective++; s.Ineffective >= maxIneffective {
		s.Resume = end + ineffectivePause
	}
}

// coolingDown reports whether automatic compaction is paused when the next
// message has the number end. It ends a pause that is over.
func (s *state) coolingDown(end int) bool {
	if s.Ineffective >= maxIneffective && end >= s.Resume {
		s.Ineffective, s.Resume = 0, 0
	}
	return s.Ineffective >= maxIneffective || s.inFailureCooldown()
}

// inFailureCooldown reports whether the cooldown after a failure is running.
// One that is longer than the longest cooldown means that the clock was set
// back.
func (s *state) inFailureCooldown() bool {
	left := time.Until(s.Until)
	return left > 0 && left <= cooldowns[len(cooldowns)-1]
}

// endCooldown ends all cooldowns and pauses.
func (s *state) endCooldown() {
	s.Failures, s.Until, s.Reason, s.Ineffective, s.Resume = 0, time.Time{}, "", 0, 0
}

// cooldownReason says, for people, why automatic compaction is paused; "" if it
// is not.
func (s *state) cooldownReason() string {
	switch {
	case s.inFailureCooldown():
		return fmt.Sprintf("until %s, because the last pass failed: %s", s.Until.Format(time.RFC3339), s.Reason)
	case s.Ineffective >= maxIneffective:
		return fmt.Sprintf("the last %d passes saved under %d %%; it goes on after %d more messages, /compress or /new", s.Ineffective, minSavedPercent, ineffectivePause)
	}
	return ""
}

// Kept returns the state of the Summarizer of the engine called name from raw,
// an engine state; nil if there is none.
func Kept(raw json.RawMessage, name string) json.RawMessage { return loadState(raw, name).Summarizer }
