package ledger

import (
	"slices"

	"hermesd/agent/llm/pricing"
)

// Costs is what the calls of a session cost.
type Costs struct {
	Paid     pricing.USD
	Uncached pricing.USD // what they would have cost without a cache
	// Floor is the least they could have cost: each token of the prefix written
	// once and read afterwards, overlays at the plain price.
	Floor pricing.USD
	// Unknown are the models without a price. Their calls are in no sum.
	Unknown []string
}

// Price returns what records cost by prices. Only estimates divide a prompt into
// what was known, what was new and what was of its call alone; they are scaled to
// the provider's own figures.
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

// split returns how many tokens of the prompt were sent before, and how many are
// of this call alone, by the provider's figures.
func (r Record) split() (known, tail int) {
	all := r.PrefixTokens + r.TailTokens
	if all == 0 {
		return 0, 0
	}
	scale := float64(r.Usage.Prompt()) / float64(all)
	return int(scale * float64(r.CommonTokens)), int(scale * float64(r.TailTokens))
}
