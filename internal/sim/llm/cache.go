package llm

import (
	"strings"
	"sync"
	"time"
)

// A cache simulates the prompt cache of a service.
//
// With breakpoints (cache_control markers) it is the cache of the Messages API.
// A breakpoint writes one entry: the prefix that ends with its block. From each
// breakpoint a request looks back over at most 20 blocks, including its own,
// for an entry that an earlier request wrote; the longest one is read, what
// follows it up to the last breakpoint is written, and the rest is plain input.
// Prefixes shorter than the minimum of the model are never cached. An entry
// expires five minutes or one hour after its last use.
//
// Chat Completions behaves the same for claude models, as OpenRouter does.
// Other models have an automatic cache that breakpoints do not change: prefixes
// of 1,024 tokens and more, in steps of 128, for ten minutes after their last
// use.
type cache struct {
	minimum int // tokens of a marked prefix; 0: depends on the model

	mu      sync.Mutex // guards the fields below
	entries map[uint64]*entry
	bill    Bill
}

// An entry is a cached prefix.
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

// MinCache returns the minimum length, in tokens, of a prefix that the Messages
// API caches for model.
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

// A Bill sums up the token usage of answers. Refused requests cost nothing.
type Bill struct {
	Answers int
	Input   int // at the base price
	Read    int
	Write5m int
	Write1h int
	Output  int
}

// Prompt returns the number of tokens of all prompts, which is what they would
// cost without a cache.
func (b Bill) Prompt() int { return b.Input + b.Read + b.Write5m + b.Write1h }

// Cost returns the cost of the prompts in tokens at the base price: a read
// costs 0.1, a five-minute write 1.25 and a one-hour write 2 per token.
func (b Bill) Cost() float64 {
	return float64(b.Input) + readFactor*float64(b.Read) + writeFactor5*float64(b.Write5m) + writeFactor1*float64(b.Write1h)
}

// count sets the usage of rep for req, unless rep has one, and adds it to the
// bill.
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

// alive returns the entry of a prefix, or nil if it is unknown or has expired.
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

// marked returns the usage of a request with breakpoints.
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
		case i <= hit && e != nil: // part of the prefix that is read
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

// hit returns the last block of the longest cached prefix that can be found
// from one of the breakpoints; -1 for none.
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

// automatic returns the usage of a request whose prefix is cached without
// breakpoints.
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

// Billed returns the sum of the costs of all answers.
func (s *Server) Billed() Bill {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return s.cache.bill
}
