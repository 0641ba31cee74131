package ledger

import (
	"fmt"

	"hermesd/agent/llm"
)

// A Summary is what the calls of a session come to.
type Summary struct {
	Calls  int
	Usage  llm.Usage
	Breaks map[Reason]int // without the beginning of the session
	Missed int            // tokens that should have been read from a cache
}

// Summarize returns what records come to.
func Summarize(records []Record) Summary {
	s := Summary{Breaks: map[Reason]int{}}
	for _, r := range records {
		s.Add(r)
	}
	return s
}

// Add counts r too.
func (s *Summary) Add(r Record) {
	s.Calls++
	s.Usage = s.Usage.Add(r.Usage)
	s.Missed += r.MissedTokens
	if r.Break != "" && r.BreakLayer != "" {
		s.Breaks[r.Break]++
	}
}

// Reuse is the share of the prompts that came from a cache, in per cent.
func (s Summary) Reuse() float64 {
	if s.Usage.Prompt() == 0 {
		return 0
	}
	return 100 * float64(s.Usage.CacheRead) / float64(s.Usage.Prompt())
}

// Undeclared is the number of breaks that nobody declared: bugs.
func (s Summary) Undeclared() int { return s.Breaks[Undeclared] }

// Declared is the number of breaks with a reason.
func (s Summary) Declared() int {
	n := 0
	for r, k := range s.Breaks {
		if r != Undeclared {
			n += k
		}
	}
	return n
}

// Diff says where the prefixes of calls n and m of a session part: the name of a
// layer or message, or "" if the longer one extends the shorter. records must
// reach from the session's first call to the later of the two.
func Diff(records []Record, n, m int) (where string, err error) {
	var found [2]*Record
	var chains [2][]llm.Digest
	var chain []llm.Digest
	for i, r := range records {
		if i == 0 && r.N != 1 {
			return "", fmt.Errorf("the records begin with call %d, not with the first", r.N)
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
			return "", fmt.Errorf("there is no record of call %d; the session has %d", want, len(records))
		}
	}
	a, b := &prefix{layers: found[0].Layers, chain: chains[0]}, &prefix{layers: found[1].Layers, chain: chains[1]}
	switch {
	case key(found[0].Provider, found[0].Model) != key(found[1].Provider, found[1].Model):
		return LayerModel, nil
	case len(a.chain) < len(b.chain):
		return b.differs(a), nil
	}
	return a.differs(b), nil
}
