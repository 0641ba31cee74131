package ledger

import (
	"fmt"

	"hermesd/agent/llm"
)

// A Summary totals the calls of a session.
type Summary struct {
	Calls  int
	Usage  llm.Usage
	Breaks map[Reason]int // without the first call of the session
	Missed int            // tokens that should have been read from the cache
}

// Summarize returns the summary of records.
func Summarize(records []Record) Summary {
	s := Summary{Breaks: map[Reason]int{}}
	for _, r := range records {
		s.Add(r)
	}
	return s
}

// Add adds r to s.
func (s *Summary) Add(r Record) {
	s.Calls++
	s.Usage = s.Usage.Add(r.Usage)
	s.Missed += r.MissedTokens
	if r.Break != "" && r.BreakLayer != "" {
		s.Breaks[r.Break]++
	}
}

// Reuse returns the percentage of prompt tokens that were read from a cache.
func (s Summary) Reuse() float64 {
	if s.Usage.Prompt() == 0 {
		return 0
	}
	return 100 * float64(s.Usage.CacheRead) / float64(s.Usage.Prompt())
}

// Undeclared returns the number of undeclared breaks, which are bugs.
func (s Summary) Undeclared() int { return s.Breaks[Undeclared] }

// Declared returns the number of breaks with a declared reason.
func (s Summary) Declared() int {
	n := 0
	for r, k := range s.Breaks {
		if r != Undeclared {
			n += k
		}
	}
	return n
}

// Diff returns where the prefixes of calls n and m of a session differ: the name of a layer
// or message, or "" if the longer one extends the shorter. records must reach from the
// session's first call to the later of the two.
func Diff(records []Record, n, m int) (where string, err error) {
	var found [2]*Record
	var chains [2][]llm.Digest
	var chain []llm.Digest
	for i, r := range records {
		if i == 0 && r.N != 1 {
			return "", fmt.Errorf("records begin with call %d, not with call 1", r.N)
		}
		chain = extend(chain, r)
		for k, want := range [2]int{n, m} {
			if r.N == want {
				found[k], chains[k] = &records[i], chain
			}
		}
	}
	for k, want := range [2]int{n, m} {
		if found[k] == nil {
			return "", fmt.Errorf("no record of call %d; the session has %d calls", want, len(records))
		}
	}
	a, b := &prefix{layers: found[0].Layers, chain: chains[0]}, &prefix{layers: found[1].Layers, chain: chains[1]}
	switch {
	case key(found[0].Provider, found[0].Model) != key(found[1].Provider, found[1].Model):
		return LayerModel, nil
	case len(a.chain) < len(b.chain):
		return b.firstDifference(a), nil
	}
	return a.firstDifference(b), nil
}
