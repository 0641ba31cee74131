// Package pricing computes the cost of model calls from a price table.
//
// Prices come from an embedded file with its date and source, which a file of the user
// overrides. A model that is in neither has no price: the cost of its calls is unknown,
// never zero. A Table is immutable.
package pricing

import (
	_ "embed" // the prices
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"hermesd/agent/llm"
)

//go:embed prices.json
var builtin []byte

// USD is an amount of US dollars.
type USD float64

// String returns d with four decimals, from ten dollars on with two.
func (d USD) String() string {
	if math.Abs(float64(d)) >= 10 {
		return fmt.Sprintf("$%.2f", float64(d))
	}
	return fmt.Sprintf("$%.4f", float64(d))
}

// A Price is the price of a million tokens of a model, in dollars.
type Price struct {
	Input   USD
	Output  USD
	Read    USD // read from a cache
	Write5m USD // written to a cache for five minutes
	Write1h USD // written to a cache for an hour
}

const million = 1e6

// Cost returns the cost of u.
func (p Price) Cost(u llm.Usage) USD {
	return p.Input.of(u.Input) + p.Read.of(u.CacheRead) + p.Write5m.of(u.CacheWrite-u.CacheWrite1h) +
		p.Write1h.of(u.CacheWrite1h) + p.Output.of(u.Output)
}

// Uncached returns the cost of u without a cache.
func (p Price) Uncached(u llm.Usage) USD { return p.Input.of(u.Prompt()) + p.Output.of(u.Output) }

// Floor returns the lowest possible cost of u if known tokens of its prompt were sent
// before and tail tokens belong to this call only: known tokens are read from the cache,
// the tail is plain input, the rest is written once.
func (p Price) Floor(u llm.Usage, known, tail int) USD {
	prompt := u.Prompt()
	known = min(max(known, 0), prompt)
	tail = min(max(tail, 0), prompt-known)
	write := p.Write5m
	if u.CacheWrite1h > 0 {
		write = p.Write1h
	}
	return p.Read.of(known) + p.Input.of(tail) + write.of(prompt-known-tail) + p.Output.of(u.Output)
}

func (d USD) of(tokens int) USD { return d * USD(tokens) / million }

// A Table holds the prices of models. It is immutable and safe for concurrent use.
type Table struct {
	// Date and Source name the day and the origin of the prices.
	Date, Source string

	models []entry // overrides last
}

type entry struct {
	match    string // normalized name
	isPrefix bool   // also matches every name that begins with match
	price    Price
	layer    int // number of the file; higher layers win
}

// An Override is the price of a million tokens, in dollars, of a model, or of all models
// whose name begins with the text before a final *. Input and output are required. Without
// cache prices, cache reads and writes cost the same as input.
type Override struct {
	Match   string   `json:"match"`
	Input   *float64 `json:"input"`
	Output  *float64 `json:"output"`
	Read    *float64 `json:"cache_read"`
	Write5m *float64 `json:"cache_write_5m"`
	Write1h *float64 `json:"cache_write_1h"`
}

// Builtin returns the embedded prices.
func Builtin() *Table { return builtinTable() }

var builtinTable = sync.OnceValue(func() *Table {
	t, err := (&Table{}).With(strings.NewReader(string(builtin)))
	if err != nil {
		panic(err) // a broken invariant: tests decode the file
	}
	return t
})

// With returns a copy of t with override on top. An override is JSON in the format of
// prices.json: a date, a source, and the models.
func (t *Table) With(override io.Reader) (*Table, error) {
	var f struct {
		Date   string     `json:"date"`
		Source string     `json:"source"`
		Models []Override `json:"models"`
	}
	d := json.NewDecoder(override)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("decode prices: %w", err)
	}
	return t.WithModels(f.Date, f.Source, f.Models)
}

// WithModels returns a copy of t with models on top. date and source name the day and the
// origin of their prices.
func (t *Table) WithModels(date, source string, models []Override) (*Table, error) {
	out := &Table{Date: date, Source: source, models: slices.Clone(t.models)}
	layer := 0
	for _, e := range t.models {
		layer = max(layer, e.layer+1)
	}
	for i, e := range models {
		price, err := e.price()
		if err != nil {
			return nil, fmt.Errorf("price %d, %q: %w", i+1, e.Match, err)
		}
		match, open := strings.CutSuffix(normal(e.Match), "*")
		if match == "" {
			return nil, fmt.Errorf("price %d: match is empty", i+1)
		}
		out.models = append(out.models, entry{match, open, price, layer})
	}
	return out, nil
}

func (e Override) price() (Price, error) {
	if e.Input == nil || e.Output == nil {
		return Price{}, fmt.Errorf("input and output are required")
	}
	p := Price{Input: USD(*e.Input), Output: USD(*e.Output)}
	p.Read, p.Write5m = p.Input, p.Input
	for _, f := range []struct {
		to   *USD
		from *float64
	}{{&p.Read, e.Read}, {&p.Write5m, e.Write5m}} {
		if f.from != nil {
			*f.to = USD(*f.from)
		}
	}
	p.Write1h = p.Write5m
	if e.Write1h != nil {
		p.Write1h = USD(*e.Write1h)
	}
	for _, d := range []USD{p.Input, p.Output, p.Read, p.Write5m, p.Write1h} {
		if !(d >= 0 && d <= MaxPrice) { // false for NaN too
			return Price{}, fmt.Errorf("price of %g dollars per million tokens is out of range", float64(d))
		}
	}
	return p, nil
}

// MaxPrice is the highest accepted price, in dollars per million tokens.
const MaxPrice = 100_000

// normal returns the name of a model without its vendor, in the spelling that all services
// share.
func normal(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.ReplaceAll(name, ".", "-")
}

// version matches suffixes of a model name that do not change its price: a date, "latest",
// and the revisions of clouds.
var version = regexp.MustCompile(`^([-@][0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|[-@]latest)?(-v[0-9]+(:[0-9]+)?)?$`)

// Price returns the price of model; ok is false if it is unknown. A model is matched by its
// name, with or without a vendor before and a date after it; it never matches a model with
// a merely similar name.
func (t *Table) Price(model string) (p Price, ok bool) {
	model = normal(model)
	var best *entry
	for i := range t.models {
		e := &t.models[i]
		rest, begins := strings.CutPrefix(model, e.match)
		if !begins || !e.isPrefix && !version.MatchString(rest) {
			continue
		}
		if best == nil || e.layer > best.layer || e.layer == best.layer && len(e.match) >= len(best.match) {
			best = e
		}
	}
	if best == nil {
		return Price{}, false
	}
	return best.price, true
}
