package llm

import (
	"strings"
	"sync"
	"time"
)

// A cache is the prompt cache of a service.
//
// With marks it is that of the Messages API. A mark writes one entry: the prefix
// that ends with its block. From each mark a request looks back over at most 20
// blocks, itself included, for an entry that an earlier request wrote; the
// longest is read, what follows it up to the last mark is written, the rest is
// plain input. Prefixes that are shorter than the model's least length are never
// kept. An entry lives for five minutes or an hour from its last use.
//
// Chat Completions has the same for claude models, as OpenRouter does. Other
// models have an automatic cache that marks do not change: prefixes from 1,024
// tokens on, in steps of 128, for ten minutes from their last use.
type cache struct {
	minimum int // of a marked prefix; 0: by model

	mu      sync.Mutex // guards what follows
	entries map[uint64]*entry
	bill    Bill
}

// An entry is a prefix that is kept.
type entry struct {
	keep  time.Duration
	until time.Time
}

const (
	lookBack     = 20
	leastAuto    = 1024
	autoStep     = 128
	autoKeep     = 10 * time.Minute
	maxRemember  = 1 << 17
	writeFactor5 = 1.25
	writeFactor1 = 2
	readFactor   = 0.1
)

// MinCache returns the least number of tokens of a prefix of model that the
// Messages API keeps.
func MinCache(model string) int {
	model = strings.ReplaceAll(strings.ToLower(model), ".", "-")
	for _, m := range []struct {
		name   string
		tokens int
	}{
		{"claude-opus-4-5", 4096},
		{"claude-opus-4-6", 4096},
		{"claude-opus-4-7", 4096},
		{"claude-haiku-4-5", 4096},
		{"claude-sonnet-4-6", 2048},
		{"claude-fable", 2048},
		{"claude-3-5-haiku", 2048},
		{"claude-haiku-3-5", 2048},
		{"claude-3-haiku", 2048},
	} {
		if strings.Contains(model, m.name) {
			return m.tokens
		}
	}
	return 1024
}

// A Bill is what answers cost, in tokens. Requests that were refused cost
// nothing.
type Bill struct {
	Answers int
	Input   int // at the plain price
	Read    int
	Write5m int
	Write1h int
	Output  int
}

// Prompt is the number of tokens of all prompts: what they would cost without a
// cache.
func (b Bill) Prompt() int { return b.Input + b.Read + b.Write5m + b.Write1h }

// Cost is what the prompts cost, in tokens at the plain price: a read is a tenth,
// a write for five minutes five quarters, one for an hour two.
func (b Bill) Cost() float64 {
	return float64(b.Input) + readFactor*float64(b.Read) + writeFactor5*float64(b.Write5m) + writeFactor1*float64(b.Write1h)
}

// count fills in the usage that rep reports for req, and bills it.
func (c *cache) count(rep *Reply, req Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var u Usage
	switch {
	case rep.Usage != nil:
		u = *rep.Usage
	default:
		if len(c.entries) > maxRemember {
			c.forget(time.Now())
		}
		switch byItself := req.Dialect == "chat" && !strings.Contains(strings.ToLower(req.Model), "claude"); {
		case byItself:
			u = c.automatic(req, time.Now())
		case req.Marks > 0:
			u = c.marked(req, time.Now())
		default:
			u.Input = req.prompt()
		}
		u.Output = tokens(rep.Text) + tokens(rep.Thinking)
		for _, call := range rep.Calls {
			u.Output += tokens(call.Args) + 8
		}
	}
	rep.counted = u
	c.bill.Answers++
	c.bill.Input += u.Input
	c.bill.Read += u.CacheRead
	c.bill.Write5m += u.CacheWrite - u.CacheWrite1h
	c.bill.Write1h += u.CacheWrite1h
	c.bill.Output += u.Output
}

func (c *cache) forget(now time.Time) {
	for k, e := range c.entries {
		if now.After(e.until) {
			delete(c.entries, k)
		}
	}
}

// alive returns the entry of a prefix, if it is still kept.
func (c *cache) alive(hash uint64, now time.Time) *entry {
	if e := c.entries[hash]; e != nil && !now.After(e.until) {
		return e
	}
	return nil
}

func (c *cache) least(model string) int {
	if c.minimum > 0 {
		return c.minimum
	}
	return MinCache(model)
}

// marked is the usage of a request with marks.
func (c *cache) marked(req Request, now time.Time) Usage {
	hit := c.hit(req, now)
	read := 0
	if hit >= 0 {
		read = req.units[hit].tokens
		e := c.entries[req.units[hit].hash]
		e.until = now.Add(e.keep)
	}
	hour, last := read, read
	for i, u := range req.units {
		switch e := c.alive(u.hash, now); {
		case u.keep == 0:
		case i <= hit && e != nil: // a part of what is read
			e.until = now.Add(e.keep)
		case i > hit && u.tokens >= c.least(req.Model):
			c.entries[u.hash] = &entry{keep: u.keep, until: now.Add(u.keep)}
			last = u.tokens
			if u.keep == oneHour {
				hour = u.tokens
			}
		}
	}
	return Usage{CacheRead: read, CacheWrite: last - read, CacheWrite1h: hour - read, Input: req.prompt() - last}
}

// hit returns the last block of the longest prefix that is kept and found from
// one of the marks; -1 for none.
func (c *cache) hit(req Request, now time.Time) int {
	for i := len(req.units) - 1; i >= 0; i-- {
		if req.units[i].keep == 0 {
			continue
		}
		for k := i; k >= 0 && k > i-lookBack; k-- {
			if c.alive(req.units[k].hash, now) != nil {
				return k
			}
		}
	}
	return -1
}

// automatic is the usage of a request whose prefix is kept by itself.
func (c *cache) automatic(req Request, now time.Time) Usage {
	known := 0
	for i, h := range req.steps {
		if c.alive(h, now) != nil {
			known = (i + 1) * autoStep
		}
		c.entries[h] = &entry{keep: autoKeep, until: now.Add(autoKeep)}
	}
	if known < leastAuto {
		known = 0
	}
	known = min(known, req.prompt()/autoStep*autoStep)
	return Usage{CacheRead: known, Input: req.prompt() - known}
}

// Billed returns what all answers together cost.
func (s *Server) Billed() Bill {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return s.cache.bill
}
