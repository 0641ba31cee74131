package turn

import (
	"maps"
	"sync"

	"hermesd/agent/llm/ledger"
)

// usageTotals sums the usage of model calls since the start of the process, by model.
type usageTotals struct {
	mu      sync.Mutex // guards what follows
	byModel map[string]ledger.Summary
}

func (s *usageTotals) add(r ledger.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byModel == nil {
		s.byModel = make(map[string]ledger.Summary)
	}
	name := modelName(r.Provider, r.Model)
	sum, ok := s.byModel[name]
	if !ok {
		sum.Breaks = make(map[ledger.Reason]int)
	}
	sum.Add(r)
	s.byModel[name] = sum
}

// UsageByModel returns the usage of model calls since the start of the process, by
// "provider/model". The caller may change the map.
func (r *Runner) UsageByModel() map[string]ledger.Summary {
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	totals := maps.Clone(r.usage.byModel)
	for name, sum := range totals {
		sum.Breaks = maps.Clone(sum.Breaks)
		totals[name] = sum
	}
	return totals
}
