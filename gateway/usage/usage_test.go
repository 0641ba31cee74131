package usage_test

import (
	"errors"
	"testing"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/active"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
)

func TestMeterSumsByModel(t *testing.T) {
	var turns active.Turns
	m := usage.NewMeter(&turns)
	m.Called(ledger.Record{N: 2, Provider: "p", Model: "a", Usage: llm.Usage{Input: 1}, Break: ledger.Undeclared, BreakLayer: "system"})
	m.Called(ledger.Record{Provider: "p", Model: "a", Usage: llm.Usage{Input: 2}})
	turns.Set("s", store.Claim{Entries: make([]inbox.Entry, 1)})
	m.Charge("s", agent.Call{Provider: "p", Model: "b", Usage: llm.Usage{Output: 3}})
	m.FellBack("b", errors.New("overloaded"))
	got := m.ByModel()
	if a, b := got["p/a"], got["p/b"]; a.Calls != 2 || a.Usage.Input != 3 || b.Calls != 1 || b.Usage.Output != 3 {
		t.Errorf("by model: %+v", got)
	}
	if b := m.Breaks(); len(b) != 1 || b["undeclared"] != 1 {
		t.Errorf("breaks %v", b)
	}
	if u := turns.Remove("s"); u.Output != 3 {
		t.Errorf("the turn was charged %+v", u)
	}
	got["p/a"].Breaks[ledger.Undeclared] = 7 // a copy
	if n := m.ByModel()["p/a"].Breaks[ledger.Undeclared]; n != 1 {
		t.Errorf("changing a result changed the meter: %d", n)
	}
	if n := m.Fallbacks().Count; n != 1 {
		t.Errorf("%d fallbacks", n)
	}
}
