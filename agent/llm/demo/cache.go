package demo

import (
	"hash/fnv"
	"sync"

	"hermesd/agent/llm"
)

// cache stores the recently seen prefixes of conversations, to report the usage of a
// service with a prefix cache.
type cache struct {
	mu     sync.Mutex // guards what follows
	seen   map[uint64]struct{}
	ring   []uint64 // the same hashes; the oldest is at index at
	oldest int
}

// maxSeen is the maximum number of stored prefixes.
const maxSeen = 8192

func newCache() *cache {
	return &cache{seen: make(map[uint64]struct{}), ring: make([]uint64, maxSeen)}
}

// count returns the usage of c's prompt and stores its prefixes.
func (k *cache) count(c conversation) llm.Usage {
	h := fnv.New64a()
	total := 0
	add := func(parts ...string) {
		for _, s := range parts {
			_, _ = h.Write([]byte(s))
			_, _ = h.Write([]byte{0})
			total += tokens(s)
		}
	}
	for _, t := range c.r.Tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	add(c.r.System)
	k.mu.Lock()
	defer k.mu.Unlock()
	read := 0
	known := func() {
		if _, ok := k.seen[h.Sum64()]; ok {
			read = total
		}
	}
	known()
	k.add(h.Sum64())
	for _, m := range c.messages {
		add(string(m.Role))
		for _, b := range m.Blocks {
			add(string(b.Type), b.Text, b.Name, string(b.Input))
		}
		known()
	}
	k.add(h.Sum64())
	return llm.Usage{Input: total - read + tokens(c.r.Overlay), CacheRead: read}
}

func (k *cache) add(h uint64) {
	if _, ok := k.seen[h]; ok {
		return
	}
	delete(k.seen, k.ring[k.oldest])
	k.seen[h] = struct{}{}
	k.ring[k.oldest] = h
	k.oldest = (k.oldest + 1) % maxSeen
}
