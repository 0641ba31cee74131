package llm

import (
	"fmt"
	"hash"
	"hash/fnv"
	"time"
)

// A unit is one block of a request, in the order in which services process it:
// tools, system, messages.
type unit struct {
	hash   uint64        // of all blocks up to and including this one
	tokens int           // of all blocks up to and including this one
	keep   time.Duration // lifetime that its cache_control marker requests; 0: no marker
}

// Lifetimes that a cache_control marker can request.
const (
	fiveMinutes = 5 * time.Minute
	oneHour     = time.Hour
)

// perImage is the assumed number of tokens of an image.
const perImage = 1500

// A reader hashes a request block by block.
type reader struct {
	r        *Request
	all      hash.Hash64 // includes the parameters that decide about the cache of the messages
	bound    hash.Hash64 // excludes them; thinking blocks are bound to it
	total    int
	shortest time.Duration // lifetime of the markers so far
	chunk    []byte        // bytes that do not fill a step yet
	chunked  hash.Hash64
}

// step is the granularity of automatic caches in bytes: 128 tokens.
const step = 4 * 128

// prefixes fills in the hashes that the cache and the check of thinking blocks
// use. It returns what is wrong with the order of the markers, or "".
func (r *Request) prefixes() string {
	p := &reader{r: r, all: fnv.New64a(), bound: fnv.New64a(), chunked: fnv.New64a()}
	p.write(r.Dialect, r.Model)
	for i, t := range r.Tools {
		if wrong := p.block(fmt.Sprintf("tools.%d", i), r.toolKeep[i], "tool", t.Name, t.Description, string(t.Schema)); wrong != "" {
			return wrong
		}
	}
	for i, b := range r.system {
		if wrong := p.block(fmt.Sprintf("system.%d", i), b.keep, "system", b.Text); wrong != "" {
			return wrong
		}
	}
	r.head = p.bound.Sum64()
	_, _ = fmt.Fprintf(p.all, "\x00%t\x00%s", r.ToolsOff, r.thinkingAs)
	for i, m := range r.Messages {
		p.write(m.Role)
		for j, b := range m.Blocks {
			if wrong := p.block(fmt.Sprintf("messages.%d.content.%d", i, j), b.keep, b.Type, b.Text, b.ID, b.Name, string(b.Input), b.image); wrong != "" {
				return wrong
			}
		}
		r.bounds = append(r.bounds, p.bound.Sum64())
	}
	return ""
}

func (p *reader) write(parts ...string) int {
	n := 0
	for _, s := range parts {
		for _, h := range []hash.Hash64{p.all, p.bound} {
			_, _ = h.Write([]byte(s))
			_, _ = h.Write([]byte{0})
		}
		n += len(s)
		if p.r.Dialect == "chat" {
			p.fill(s)
		}
	}
	return n
}

// fill adds s to the bytes that identify a prefix in an automatic cache.
func (p *reader) fill(s string) {
	p.chunk = append(append(p.chunk, s...), 0)
	for len(p.chunk) >= step {
		_, _ = p.chunked.Write(p.chunk[:step])
		p.chunk = p.chunk[step:]
		p.r.steps = append(p.r.steps, p.chunked.Sum64())
	}
}

func (p *reader) block(where string, keep time.Duration, parts ...string) string {
	n := p.write(parts...)
	if parts[0] == "image" {
		n = 4*perImage + 4
	}
	p.total += (n + 3) / 4
	p.r.units = append(p.r.units, unit{hash: p.all.Sum64(), tokens: p.total, keep: keep})
	if keep == oneHour && p.shortest == fiveMinutes {
		return where + ".cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. " +
			"Note that blocks are processed in the following order: `tools`, `system`, `messages`."
	}
	if keep != 0 {
		p.shortest = keep
	}
	return ""
}

// prompt returns the number of tokens of the request.
func (r *Request) prompt() int {
	if len(r.units) == 0 {
		return 0
	}
	return r.units[len(r.units)-1].tokens
}
