package ledger

import (
	"fmt"
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
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

// Costs is the cost of the calls of a session.
type Costs struct {
	Paid     pricing.USD
	Uncached pricing.USD // the cost without a cache
	// Floor is the lowest possible cost: each token of the prefix written to the cache once
	// and read afterwards, overlays at the plain input price.
	Floor pricing.USD
	// Unknown lists the models without a price. Their calls are not part of any sum.
	Unknown []string
}

// Price returns the cost of records according to prices. The division of a prompt into
// known tokens, new tokens and tokens of that call alone is an estimate, scaled to the
// figures reported by the provider.
func Price(records []Record, prices *pricing.Table) Costs {
	var c Costs
	for _, r := range records {
		p, ok := prices.Price(r.Model)
		if !ok {
			if !slices.Contains(c.Unknown, r.Model) {
				c.Unknown = append(c.Unknown, r.Model)
			}
			continue
		}
		c.Paid += p.Cost(r.Usage)
		c.Uncached += p.Uncached(r.Usage)
		known, tail := r.split()
		c.Floor += p.Floor(r.Usage, known, tail)
	}
	return c
}

// split returns how many tokens of the prompt were sent before, and how many are in the
// overlay of this call, scaled to the provider's figures.
func (r Record) split() (known, tail int) {
	all := r.PrefixTokens + r.TailTokens
	if all == 0 {
		return 0, 0
	}
	scale := float64(r.Usage.Prompt()) / float64(all)
	return int(scale * float64(r.CommonTokens)), int(scale * float64(r.TailTokens))
}
