package ledger

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A prefix is the part of a request before its overlay.
type prefix struct {
	layers [4]llm.Digest // cumulative, in the order of layerNames
	form   form
	raw    []llm.Digest // of the messages as stored; nil if unknown
	chain  []llm.Digest // of the messages as sent
	// isExtended reports whether a later prefix uses the capacity behind chain.
	isExtended bool

	bytes, tokens int
	head          [4]int // tokens up to and including each layer; zero if unknown
	reported      int    // tokens as reported by the provider
	usesCache     bool   // the provider has used its cache for this target
	calledAt      time.Time
}

var layerNames = [4]string{LayerTools, LayerPrompt, LayerOverlay, LayerPrefill}

// A form describes how messages are sent, compared to how they are stored.
type form struct {
	drop         int // messages before this one are sent without their thinking
	overlayIndex int // index of the message with the overlay of its turn; -1 for none
	overlay      string
}

func formOf(r *llm.Request, n int) form {
	f := form{overlayIndex: -1}
	if r.Turn != nil {
		f.drop = min(r.Turn.At, n)
		if r.Turn.Text != "" {
			f.overlayIndex, f.overlay = r.Turn.At, r.Turn.Text
		}
	}
	if r.DropThinking {
		f.drop = n
	}
	return f
}

func (f form) isPlain() bool { return f.drop == 0 && f.overlayIndex < 0 }

// commonLen returns the number of leading messages, at most n, that f and g send alike.
func (f form) commonLen(g form, n int) int {
	if f.drop != g.drop {
		n = min(n, f.drop, g.drop)
	}
	if f.overlayIndex != g.overlayIndex || f.overlay != g.overlay {
		for _, at := range []int{f.overlayIndex, g.overlayIndex} {
			if at >= 0 {
				n = min(n, at)
			}
		}
	}
	return n
}

// add returns d followed by message i as sent by f.
func (f form) add(d llm.Digest, i int, m llm.Message) llm.Digest {
	if i < f.drop && hasThinking(m) {
		d = d.Add("without thinking")
	}
	d = d.Message(m)
	if i == f.overlayIndex {
		d = d.Add("overlay", f.overlay)
	}
	return d
}

func hasThinking(m llm.Message) bool {
	return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type == llm.Thinking }) ||
		bytes.Contains(m.Raw, []byte(`"redacted_thinking"`))
}

// newPrefix computes the prefix of r. Digests that are known from before, an earlier prefix of
// the session or nil, are reused.
func (l *Ledger) newPrefix(r *llm.Request, before *prefix) *prefix {
	p := &prefix{}
	p.layers[0] = l.tools.digest(r.Tools)
	p.layers[1] = l.prompt.digest(p.layers[0], r.System)
	p.layers[2] = l.overlay.digest(p.layers[1], r.SystemOverlay)
	p.layers[3] = p.layers[2]
	prefill := 0
	for _, m := range r.Prefill {
		p.layers[3] = p.layers[3].Message(m)
		p.bytes += size(m)
		prefill += tokens.Message(m)
	}
	p.head[0] = l.tools.tokens
	p.head[1] = p.head[0] + l.prompt.tokens
	p.head[2] = p.head[1] + l.overlay.tokens
	p.head[3] = p.head[2] + prefill
	p.bytes += l.tools.bytes + len(r.System) + len(r.SystemOverlay)
	p.tokens = p.head[3]
	if t := r.Transcript; t != nil {
		p.messages(t, formOf(r, t.Len()), before)
		p.bytes += t.Sum("bytes", t.Len(), size)
		p.tokens += tokens.Transcript(t, t.Len())
	}
	if p.form.overlayIndex >= 0 {
		p.bytes += len(p.form.overlay)
		p.tokens += tokens.Text(p.form.overlay)
	}
	return p
}

func (p *prefix) messages(t *llm.Transcript, f form, before *prefix) {
	p.form, p.raw = f, t.Digests(t.Len())
	if f.isPlain() {
		p.chain = p.raw
		return
	}
	known := 0
	if before != nil && before.raw != nil {
		known = f.commonLen(before.form, common(before.raw, p.raw))
		p.chain = slices.Clip(before.chain[:known])
		if known == len(before.chain) && !before.isExtended {
			p.chain, before.isExtended = before.chain, true
		}
	}
	var last llm.Digest
	if known > 0 {
		last = p.chain[known-1]
	}
	for i := known; i < t.Len(); i++ {
		last = f.add(last, i, t.At(i))
		p.chain = append(p.chain, last)
	}
}

// firstDifference returns the first layer or message at which p is not an extension of before; ""
// if it is one.
func (p *prefix) firstDifference(before *prefix) string {
	for i, name := range layerNames {
		if p.layers[i] != before.layers[i] {
			return name
		}
	}
	if n := common(p.chain, before.chain); n < len(before.chain) {
		return LayerMessage + " " + strconv.Itoa(n)
	}
	return ""
}

// commonWith estimates the number of tokens that p and before share.
func (p *prefix) commonWith(before *prefix, r *llm.Request) int {
	if before == nil {
		return 0
	}
	known := 0
	for i := range layerNames {
		if p.layers[i] != before.layers[i] {
			return known
		}
		known = p.head[i]
	}
	n := common(p.chain, before.chain)
	if n == len(before.chain) {
		return max(known, before.tokens)
	}
	return known + tokens.Transcript(r.Transcript, n)
}

// size returns the number of bytes of m that are sent, without the overhead of the wire
// format.
func size(m llm.Message) int {
	n := len(m.Role)
	for _, b := range m.Blocks {
		n += len(b.Text) + len(b.ID) + len(b.Name) + len(b.Input)
	}
	return n
}

// A toolsMemo caches the digest of the tools of the last call. Tools are frozen with the
// prompt, so they rarely change.
type toolsMemo struct {
	known  []llm.Tool
	hash   llm.Digest
	bytes  int
	tokens int
}

func (k *toolsMemo) digest(tools []llm.Tool) llm.Digest {
	if slices.EqualFunc(k.known, tools, llm.Tool.Equal) && k.hash != (llm.Digest{}) {
		return k.hash
	}
	k.known, k.bytes, k.tokens = slices.Clone(tools), 0, tokens.Tools(tools)
	k.hash = llm.Digest{}.Add("tools")
	for _, t := range tools {
		k.hash = k.hash.Add(t.Name, t.Description, string(t.Schema))
		k.bytes += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return k.hash
}

// A textMemo caches the digest of a text of the last call.
type textMemo struct {
	before llm.Digest
	text   string
	hash   llm.Digest
	tokens int
}

func (k *textMemo) digest(behind llm.Digest, text string) llm.Digest {
	if k.before != behind || k.text != text || k.hash == (llm.Digest{}) {
		*k = textMemo{before: behind, text: text, hash: behind.Add(text), tokens: tokens.Text(text)}
	}
	return k.hash
}
