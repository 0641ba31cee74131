// Package pricing says what calls cost.
//
// Prices are a data file with its date and source, which a file of the person
// overrides. A model that is in neither has no price: its calls cost an unknown
// amount, never nothing.
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

// USD is an amount of money in dollars.
type USD float64

// String returns d with four significant digits below a cent, and whole cents
// from ten dollars on.
func (d USD) String() string {
	if math.Abs(float64(d)) >= 10 {
		return fmt.Sprintf("$%.2f", float64(d))
	}
	return fmt.Sprintf("$%.4f", float64(d))
}

// A Price is what a million tokens of a model cost, in dollars.
type Price struct {
	Input   USD
	Output  USD
	Read    USD // from a cache
	Write5m USD // to a cache, for five minutes
	Write1h USD // for an hour
}

const million = 1e6

// Cost is what u costs.
func (p Price) Cost(u llm.Usage) USD {
	return p.Input.of(u.Input) + p.Read.of(u.CacheRead) + p.Write5m.of(u.CacheWrite-u.CacheWrite1h) +
		p.Write1h.of(u.CacheWrite1h) + p.Output.of(u.Output)
}

// Uncached is what u would have cost without a cache.
func (p Price) Uncached(u llm.Usage) USD { return p.Input.of(u.Prompt()) + p.Output.of(u.Output) }

// Floor is the least that u could have cost if known tokens of its prompt had
// been sent before and tail tokens are of this call alone: what is known is
// read, the tail is plain input, the rest is written once.
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

// A Table holds the prices of models. It does not change, so it may be used from
// any goroutine.
type Table struct {
	// Date and Source say when the prices were looked up, and where.
	Date, Source string

	models []entry // those of overrides first
}

type entry struct {
	match string // normal form of a name
	open  bool   // every name that begins with match
	price Price
	layer int // which file it is from; higher ones win
}

// An Override is the price of a million tokens of a model, or of each model whose
// name begins with what stands before a final *, in dollars. Input and output
// are needed. Without prices of a cache, reading and writing it costs what input
// costs.
type Override struct {
	Match   string   `json:"match"`
	Input   *float64 `json:"input"`
	Output  *float64 `json:"output"`
	Read    *float64 `json:"cache_read"`
	Write5m *float64 `json:"cache_write_5m"`
	Write1h *float64 `json:"cache_write_1h"`
}

// Builtin returns the prices that come with the program.
func Builtin() *Table { return builtinTable() }

var builtinTable = sync.OnceValue(func() *Table {
	t, err := (&Table{}).With(strings.NewReader(string(builtin)))
	if err != nil {
		panic(err) // a broken invariant: the tests read the file
	}
	return t
})

// With returns t with what override says on top. An override is JSON in the form
// of prices.json: a date, a source, and the models.
func (t *Table) With(override io.Reader) (*Table, error) {
	var f struct {
		Date   string     `json:"date"`
		Source string     `json:"source"`
		Models []Override `json:"models"`
	}
	d := json.NewDecoder(override)
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("read the prices: %w", err)
	}
	return t.WithModels(f.Date, f.Source, f.Models)
}

// WithModels returns t with models on top, whose prices were looked up at date, and
// where source says.
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
			return nil, fmt.Errorf("price %d: match names no model", i+1)
		}
		out.models = append(out.models, entry{match, open, price, layer})
	}
	return out, nil
}

func (e Override) price() (Price, error) {
	if e.Input == nil || e.Output == nil {
		return Price{}, fmt.Errorf("input and output are needed")
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
		if !(d >= 0 && d <= MaxPrice) { // nor is it no number
			return Price{}, fmt.Errorf("%g dollars for a million tokens cannot be", float64(d))
		}
	}
	return p, nil
}

// MaxPrice is the highest price that is believed, in dollars for a million tokens.
const MaxPrice = 100_000

// normal returns the name of a model without who makes it, in the form in which
// all services write it alike.
func normal(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.ReplaceAll(name, ".", "-")
}

// version matches what may stand behind the name of a model and does not change
// its price: a date, "latest", and the revisions of clouds.
var version = regexp.MustCompile(`^([-@][0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|[-@]latest)?(-v[0-9]+(:[0-9]+)?)?$`)

// Price returns the price of model; ok is false if it is not known. A model is
// known by its name, with or without who makes it before and a date behind; it
// is never taken for a model with a similar name.
func (t *Table) Price(model string) (p Price, ok bool) {
	model = normal(model)
	var best *entry
	for i := range t.models {
		e := &t.models[i]
		rest, begins := strings.CutPrefix(model, e.match)
		if !begins || !e.open && !version.MatchString(rest) {
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
