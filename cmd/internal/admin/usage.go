package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway/session"
)

// Usage is what model calls came to. Calls that make summaries for a compression
// are not among them: no ledger has them. Compacted tells of them.
type Usage struct {
	Since time.Time  `json:"since,omitzero"` // zero: from the first call that is kept
	By    string     `json:"by"`             // session, platform or model
	Rows  []UsageRow `json:"rows"`           // what costs the most first
	Total UsageRow   `json:"total"`
	// Compacted are the conversations of which something was archived, whenever that
	// was.
	Compacted []Compacted `json:"compacted"`
	// Prices says from which day the prices are, and where they were found.
	Prices string `json:"prices"`
}

// UsageRow is one group of calls.
type UsageRow struct {
	Name  string    `json:"name"`
	Title string    `json:"title,omitempty"` // of a session
	Calls int       `json:"calls"`
	Usage llm.Usage `json:"usage"`
	// Reuse is the share of the prompts that was read from a cache, in per cent.
	Reuse float64 `json:"reuse_percent"`
	// Costs are in dollars, of the calls of models with a known price only.
	Costs Costs `json:"costs_usd"`
	// Unpriced is how many calls are in no cost, as their models have no price;
	// those are Unknown.
	Unpriced int      `json:"unpriced_calls"`
	Unknown  []string `json:"unknown_prices"`
}

// Costs are those of calls, by what was paid for.
type Costs struct {
	Input      pricing.USD `json:"input"`
	CacheRead  pricing.USD `json:"cache_read"`
	CacheWrite pricing.USD `json:"cache_write"`
	Output     pricing.USD `json:"output"`
	Paid       pricing.USD `json:"paid"`
	Uncached   pricing.USD `json:"without_cache"`
	Floor      pricing.USD `json:"minimum"` // an estimate
}

// Compacted is how often a conversation was made smaller.
type Compacted struct {
	Session     session.ID `json:"session"`
	Title       string     `json:"title,omitempty"`
	Context     int        `json:"context_tokens"` // of the last call; 0 if they are not known
	Compactions int        `json:"compactions"`    // among the calls that are kept
	Archived    int        `json:"archived_messages"`
	// Summaries is what their summaries took; nil if that is not known.
	Summaries *llm.Usage `json:"summaries,omitempty"`
}

// compacted is what calls, those of the session that are kept, tell of s.
func compacted(s session.Record, calls []ledger.Record) Compacted {
	c := Compacted{Session: s.ID, Title: cmp.Or(s.Title, s.Name), Context: s.PromptTokens, Archived: s.Archived()}
	sum := ledger.Summarize(calls)
	for _, r := range calls {
		if r.Break == ledger.Compression || r.Break == ledger.Hygiene {
			c.Compactions++
		}
	}
	var all llm.Usage
	if len(calls) == 0 || calls[0].N != 1 || json.Unmarshal(s.Usage, &all) != nil {
		return c
	}
	u := llm.Usage{Input: all.Prompt() - sum.Usage.Prompt(), Output: all.Output - sum.Usage.Output}
	if u.Input >= 0 && u.Output >= 0 {
		c.Summaries = &u
	}
	return c
}

// Add counts a call too.
func (s *UsageRow) Add(r ledger.Record, prices *pricing.Table) {
	s.Calls++
	s.Usage = s.Usage.Add(r.Usage)
	if n := s.Usage.Prompt(); n > 0 {
		s.Reuse = 100 * float64(s.Usage.CacheRead) / float64(n)
	}
	p, ok := prices.Price(r.Model)
	if !ok {
		s.Unpriced++
		if name := ModelOf(r); !slices.Contains(s.Unknown, name) {
			s.Unknown = append(s.Unknown, name)
		}
		return
	}
	u, sum := r.Usage, ledger.Price([]ledger.Record{r}, prices)
	s.Costs.Input += p.Cost(llm.Usage{Input: u.Input})
	s.Costs.CacheRead += p.Cost(llm.Usage{CacheRead: u.CacheRead})
	s.Costs.CacheWrite += p.Cost(llm.Usage{CacheWrite: u.CacheWrite, CacheWrite1h: u.CacheWrite1h})
	s.Costs.Output += p.Cost(llm.Usage{Output: u.Output})
	s.Costs.Paid += sum.Paid
	s.Costs.Uncached += sum.Uncached
	s.Costs.Floor += sum.Floor
}

// ModelOf is what answered a call, as provider/model.
func ModelOf(r ledger.Record) string {
	if r.Model == "" || r.Model == r.Provider {
		return r.Provider
	}
	return r.Provider + "/" + r.Model
}

// groups returns how calls can be told apart.
func groups() map[string]func(session.Record, ledger.Record) (name, title string) {
	return map[string]func(session.Record, ledger.Record) (name, title string){
		"session":  func(s session.Record, _ ledger.Record) (string, string) { return string(s.ID), cmp.Or(s.Title, s.Name) },
		"platform": func(s session.Record, _ ledger.Record) (string, string) { return string(s.Address.Platform), "" },
		"model":    func(_ session.Record, c ledger.Record) (string, string) { return ModelOf(c), "" },
	}
}

func (h *Handler) usage(w http.ResponseWriter, r *http.Request) {
	by := cmp.Or(r.FormValue("by"), "session")
	group, ok := groups()[by]
	if !ok {
		h.fail(w, &Error{http.StatusBadRequest, fmt.Sprintf("calls cannot be told apart by %q; use session, platform or model", by)})
		return
	}
	out := Usage{By: by, Rows: []UsageRow{}, Compacted: []Compacted{}, Total: UsageRow{Name: "together", Unknown: []string{}}}
	if s := r.FormValue("since"); s != "" {
		var err error
		if out.Since, err = time.Parse(time.RFC3339, s); err != nil {
			h.fail(w, &Error{http.StatusBadRequest, fmt.Sprintf("since is %q; it must be a time such as 2026-01-31T15:04:05Z", s)})
			return
		}
	}
	prices := cmp.Or(h.opts.Prices, pricing.Builtin())
	out.Prices = prices.Date + ", " + prices.Source
	sessions, err := h.opts.Store.Sessions(r.Context(), every)
	if err != nil {
		h.fail(w, err)
		return
	}
	rows := make(map[string]*UsageRow)
	for _, s := range sessions {
		if s.Updated.Before(out.Since) {
			continue
		}
		calls, err := h.calls(r, s.ID)
		if err != nil {
			h.fail(w, err)
			return
		}
		if s.Archived() > 0 {
			out.Compacted = append(out.Compacted, compacted(s, calls))
		}
		for _, c := range calls {
			if c.CalledAt.Before(out.Since) {
				continue
			}
			name, title := group(s, c)
			if rows[name] == nil {
				rows[name] = &UsageRow{Name: name, Title: title, Unknown: []string{}}
			}
			rows[name].Add(c, prices)
			out.Total.Add(c, prices)
		}
	}
	for _, s := range rows {
		out.Rows = append(out.Rows, *s)
	}
	slices.SortFunc(out.Rows, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(b.Costs.Paid, a.Costs.Paid), cmp.Compare(b.Usage.Prompt(), a.Usage.Prompt()), cmp.Compare(a.Name, b.Name))
	})
	h.reply(w, http.StatusOK, out)
}
