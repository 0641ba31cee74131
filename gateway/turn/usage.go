package turn

import (
	"maps"
	"sync"

	"hermesd/agent/llm/ledger"
)

// usageTotals sums what the calls of turns came to since the start, by model.
type usageTotals struct {
	mu sync.Mutex // guards what follows
	by map[string]ledger.Summary
}

func (s *usageTotals) add(r ledger.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[string]ledger.Summary)
	}
	name := target(r.Provider, r.Model)
	sum, ok := s.by[name]
	if !ok {
		sum.Breaks = make(map[ledger.Reason]int)
	}
	sum.Add(r)
	s.by[name] = sum
}

// UsageByModel returns what the calls of turns came to since the start, by
// provider/model. Its values are the caller's.
func (r *Runner) UsageByModel() map[string]ledger.Summary {
	r.spending.mu.Lock()
	defer r.spending.mu.Unlock()
	by := maps.Clone(r.spending.by)
	for name, sum := range by {
		sum.Breaks = maps.Clone(sum.Breaks)
		by[name] = sum
	}
	return by
}
