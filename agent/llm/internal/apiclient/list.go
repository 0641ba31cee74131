package apiclient

import (
	"errors"
	"slices"

	"hermesd/agent/llm"
)

// A List is the concatenation of the prefill and the transcript of a request.
type List struct {
	r   *llm.Request
	len int
}

// ListOf returns the messages of r, or an error if they do not form a valid request.
func ListOf(r *llm.Request) (List, error) {
	l := List{r: r, len: len(r.Prefill)}
	if r.Transcript != nil {
		l.len += r.Transcript.Len()
	}
	switch {
	case l.len == 0:
		return l, errors.New("request without messages")
	case l.At(l.len-1).Role != llm.User:
		return l, errors.New("the last message of a request must be the user's")
	case r.CacheTTL != "" && !llm.ValidTTL(r.CacheTTL):
		return l, errors.New("the cache's time to live must be 5m or 1h, not " + r.CacheTTL)
	}
	return l, nil
}

// At returns message i.
func (l List) At(i int) llm.Message {
	if i < len(l.r.Prefill) {
		return l.r.Prefill[i]
	}
	return l.r.Transcript.At(i - len(l.r.Prefill))
}

// turn returns the index of the message that began the turn; 0 if the request does not name
// it.
func (l List) turn() int {
	if l.r.Turn == nil {
		return 0
	}
	return min(max(len(l.r.Prefill)+l.r.Turn.At, 0), l.len)
}

// DropThinking reports whether message i is sent without its thinking.
func (l List) DropThinking(i int) bool { return l.r.DropThinking || i < l.turn() }

// Overlays returns the texts that follow message i in this call.
func (l List) Overlays(i int) []string {
	var texts []string
	if l.r.Turn != nil && i == l.turn() && !Blank(l.r.Turn.Text) {
		texts = append(texts, l.r.Turn.Text)
	}
	if i == l.len-1 && !Blank(l.r.Overlay) {
		texts = append(texts, l.r.Overlay)
	}
	return texts
}

// maxMarks is the maximum number of cache breakpoints in a request.
const maxMarks = 4

// Marked returns the indices of the messages with a cache breakpoint: the last three for
// which can returns true, or the last four if there is no cached prompt to mark.
func (l List) Marked(can func(llm.Message) bool) []int {
	left := maxMarks
	if !Blank(l.r.System) {
		left--
	}
	var marked []int
	for i := l.len - 1; i >= 0 && len(marked) < left; i-- {
		if can(l.At(i)) {
			marked = append(marked, i)
		}
	}
	slices.Reverse(marked)
	return marked
}

// A Form encodes messages that have neither a cache breakpoint nor an overlay.
type Form struct {
	// Key identifies the form in the transcript's cache, Bare the same form without
	// thinking.
	Key, Bare string
	Encode    func(dst []byte, m llm.Message, bare bool) []byte
}

// Append appends the messages: those in apart, and those with an overlay, one by one with
// special, the others from the transcript's cached wire form. apart is in ascending order.
// The first message is always in the body's Buf.
func (l List) Append(b *Body, f Form, apart []int, special func(dst []byte, i int) []byte) {
	for i := 0; i < l.len; {
		next := l.nextApart(i, apart)
		l.appendPlain(b, f, i, next)
		if next < l.len {
			b.Buf = special(b.Buf, next)
		}
		i = next + 1
	}
}

// nextApart returns the first message from i on that is encoded separately.
func (l List) nextApart(i int, apart []int) int {
	next := l.len - 1 // the last message is always new, and the overlay follows it
	if t := l.turn(); l.r.Turn != nil && t >= i {
		next = min(next, t)
	}
	for _, a := range apart {
		if a >= i {
			return min(next, a)
		}
	}
	return next
}

// appendPlain appends messages i up to, but not including, j.
func (l List) appendPlain(b *Body, f Form, i, j int) {
	for ; i < j && i < len(l.r.Prefill); i++ {
		b.Buf = f.Encode(b.Buf, l.At(i), l.DropThinking(i))
	}
	if i < j {
		l.appendCached(b, f, i, j)
	}
}

// appendCached appends messages i up to, but not including, j of the transcript. Either all or
// none of them are sent with their thinking, because the message between the two groups is
// encoded separately.
func (l List) appendCached(b *Body, f Form, i, j int) {
	bare, key := l.DropThinking(i), f.Key
	if bare {
		key = f.Bare
	}
	encode := func(dst []byte, m llm.Message) []byte { return f.Encode(dst, m, bare) }
	p := len(l.r.Prefill)
	from := len(l.r.Transcript.Wire(key, i-p, encode))
	known := l.r.Transcript.Wire(key, j-p, encode)[from:]
	if i == 0 {
		first := len(l.r.Transcript.Wire(key, 1, encode))
		b.Buf, known = append(b.Buf, known[:first]...), known[first:]
	}
	b.Share(known)
}
