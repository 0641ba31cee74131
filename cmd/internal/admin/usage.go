package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Usage is the sum of tokens and costs of model calls. Calls that write summaries
// for compactions are not included, since the ledger does not record them; see
// Compacted.
type Usage struct {
	Since time.Time  `json:"since,omitzero"` // zero: since the first recorded call
	By    string     `json:"by"`             // session, platform or model
	Rows  []UsageRow `json:"rows"`           // most expensive first
	Total UsageRow   `json:"total"`
	// Compacted lists the conversations with archived messages, regardless of Since.
	Compacted []Compacted `json:"compacted"`
	// Prices describes the date and the source of the price table.
	Prices string `json:"prices"`
}

// UsageRow is one group of calls.
type UsageRow struct {
	Name  string    `json:"name"`
	Title string    `json:"title,omitempty"` // of a session
	Calls int       `json:"calls"`
	Usage llm.Usage `json:"usage"`
	// Reuse is the share of prompt tokens read from a cache, in percent.
	Reuse float64 `json:"reuse_percent"`
	// Costs are in US dollars and cover only models with a known price.
	Costs Costs `json:"costs_usd"`
	// Unpriced is the number of calls of models without a known price, which are
	// listed in Unknown.
	Unpriced int      `json:"unpriced_calls"`
	Unknown  []string `json:"unknown_prices"`
}

// Costs are the costs of calls by kind of tokens, and their sums.
type Costs struct {
	Input      pricing.USD `json:"input"`
	CacheRead  pricing.USD `json:"cache_read"`
	CacheWrite pricing.USD `json:"cache_write"`
	Output     pricing.USD `json:"output"`
	Paid       pricing.USD `json:"paid"`
	Uncached   pricing.USD `json:"without_cache"`
	Floor      pricing.USD `json:"minimum"` // an estimate
}

// Compacted describes the compactions of one conversation.
type Compacted struct {
	Session     session.ID `json:"session"`
	Title       string     `json:"title,omitempty"`
	Context     int        `json:"context_tokens"` // of the last call; 0 if unknown
	Compactions int        `json:"compactions"`    // among the recorded calls
	Archived    int        `json:"archived_messages"`
	// Summaries are the tokens of their summaries; nil if unknown.
	Summaries *llm.Usage `json:"summaries,omitempty"`
}

// compacted derives the compactions of s from its recorded calls.
func compacted(s session.Record, calls []ledger.Record) Compacted {
	c := Compacted{Session: s.ID, Title: cmp.Or(s.Title, s.Name), Context: s.PromptTokens, Archived: s.Archived()}
	sum := ledger.Summarize(calls)
	for _, r := range calls {
		if r.Break == ledger.Compression || r.Break == ledger.Hygiene {
			c.Compactions++
		}
	}
	all := s.Usage
	if len(calls) == 0 || calls[0].N != 1 || all == nil {
		return c
	}
	u := llm.Usage{Input: all.Prompt() - sum.Usage.Prompt(), Output: all.Output - sum.Usage.Output}
	if u.Input >= 0 && u.Output >= 0 {
		c.Summaries = &u
	}
	return c
}

// Add adds the tokens and costs of a call.
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

// ModelOf returns the model of a call as provider/model.
func ModelOf(r ledger.Record) string {
	if r.Model == "" || r.Model == r.Provider {
		return r.Provider
	}
	return r.Provider + "/" + r.Model
}

// groups returns the functions by which calls can be grouped.
func groups() map[string]func(session.Record, ledger.Record) (name, title string) {
	return map[string]func(session.Record, ledger.Record) (name, title string){
		"session":  func(s session.Record, _ ledger.Record) (string, string) { return string(s.ID), cmp.Or(s.Title, s.Name) },
		"platform": func(s session.Record, _ ledger.Record) (string, string) { return string(s.Address.Platform), "" },
		"model":    func(_ session.Record, c ledger.Record) (string, string) { return ModelOf(c), "" },
	}
}

func (h *Handler) usage(r *http.Request) (any, error) {
	by := cmp.Or(r.FormValue("by"), "session")
	group, ok := groups()[by]
	if !ok {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("calls cannot be told apart by %q; use session, platform or model", by)}
	}
	out := Usage{By: by, Rows: []UsageRow{}, Compacted: []Compacted{}, Total: UsageRow{Name: "together", Unknown: []string{}}}
	if s := r.FormValue("since"); s != "" {
		var err error
		if out.Since, err = time.Parse(time.RFC3339, s); err != nil {
			return nil, &Error{http.StatusBadRequest, fmt.Sprintf("since is %q; it must be a time such as 2026-01-31T15:04:05Z", s)}
		}
	}
	prices := h.opts.Prices
	out.Prices = prices.Date + ", " + prices.Source
	sessions, err := h.opts.Store.Sessions(r.Context(), session.Query{})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]*UsageRow)
	for _, s := range sessions {
		if s.Updated.Before(out.Since) {
			continue
		}
		calls, err := store.LoadCalls(r.Context(), h.opts.Store, s.ID, 0)
		if err != nil {
			return nil, err
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
	return out, nil
}

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	if !h.opts.Daemon.Running {
		h.fail(w, &Error{http.StatusServiceUnavailable, noDaemon})
		return
	}
	h.opts.Daemon.Metrics.ServeHTTP(w, r)
}

// Metrics returns the metrics of the daemon in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	raw, err := c.request(ctx, http.MethodGet, "/metrics", http.NoBody)
	return string(raw), err
}
