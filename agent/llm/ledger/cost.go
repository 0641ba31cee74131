package ledger

import (
	"slices"

	"hermesd/agent/llm/pricing"
)

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
