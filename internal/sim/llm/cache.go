package llm

import (
	"hash/fnv"
	"sync"
)

// cache is a simple figure of a prompt cache: a prefix of messages that was
// sent before is read, the rest is written, or is plain input where the dialect
// has no cache marks. It knows no minimum length and no age.
type cache struct {
	mu   sync.Mutex // guards what follows
	seen map[uint64]struct{}
}

// maxSeen bounds the memory of the cache.
const maxSeen = 1 << 17

// count fills in the usage that rep reports for req.
func (c *cache) count(rep *Reply, req Request) {
	if rep.Usage != nil {
		rep.counted = *rep.Usage
		return
	}
	prompt := tokens(req.Body)
	u := Usage{Input: prompt, Output: tokens(rep.Text) + tokens(rep.Thinking)}
	for _, call := range rep.Calls {
		u.Output += tokens(call.Args) + 8
	}
	if req.Dialect == "chat" || req.Marks > 0 {
		u.CacheRead = c.read(req, prompt)
		u.Input = prompt - u.CacheRead
		if req.Marks > 0 {
			u.CacheWrite, u.Input = u.Input, min(u.Input, 3)
			u.CacheWrite -= u.Input
		}
	}
	rep.counted = u
}

func (c *cache) read(req Request, prompt int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) > maxSeen {
		clear(c.seen)
	}
	known := 0
	for i := len(req.prefixes) - 1; i >= 0 && known == 0; i-- {
		if _, ok := c.seen[req.prefixes[i]]; ok {
			known = prompt * (i + 2) / (len(req.prefixes) + 2)
		}
	}
	if _, ok := c.seen[req.head]; ok && known == 0 {
		known = prompt / (len(req.prefixes) + 2)
	}
	c.seen[req.head] = struct{}{}
	if n := len(req.prefixes); n > 0 {
		c.seen[req.prefixes[n-1]] = struct{}{}
		if n > 1 {
			c.seen[req.prefixes[n-2]] = struct{}{}
		}
	}
	return known
}

// hashPrefixes fills in the hashes by which prefixes are known again: of the
// model, tools and system prompt, and of that with each message more. Marks and
// overlays are not part of them.
func (r *Request) hashPrefixes() {
	h := fnv.New64a()
	add := func(parts ...string) {
		for _, p := range parts {
			_, _ = h.Write([]byte(p))
			_, _ = h.Write([]byte{0})
		}
	}
	add(r.Dialect, r.Model)
	for _, t := range r.Tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	add(r.System)
	r.head = h.Sum64()
	r.prefixes = make([]uint64, len(r.Messages))
	for i, m := range r.Messages {
		add(m.Role)
		for _, b := range m.Blocks {
			if b.Type == "text" && overlay.MatchString(b.Text) && i == len(r.Messages)-1 {
				continue
			}
			add(b.Type, b.Text, b.ID, b.Name, string(b.Input))
		}
		r.prefixes[i] = h.Sum64()
	}
}
