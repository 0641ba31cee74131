package apiclient

import (
	"bytes"
	"io"
)

// A Body is that of a request. What the transcript holds encoded already stands
// in it by reference: a long conversation is copied once, into the connection.
type Body struct {
	// Buf is what was written for this request. Encoders append to it.
	Buf  []byte
	cuts []cut
	size int // bytes of the pieces in cuts
}

// A cut is where a piece stands that is not in Buf: before offset at of it.
type cut struct {
	at    int
	piece []byte
}

// shared is the least size of a piece that is not copied.
const shared = 16 << 10

// Share appends a piece, which must never change.
func (b *Body) Share(piece []byte) {
	if len(piece) < shared {
		b.Buf = append(b.Buf, piece...)
		return
	}
	b.cuts = append(b.cuts, cut{len(b.Buf), piece})
	b.size += len(piece)
}

// Len returns the size of the body in bytes.
func (b *Body) Len() int { return len(b.Buf) + b.size }

// Bytes returns the whole body.
func (b *Body) Bytes() []byte {
	if len(b.cuts) == 0 {
		return b.Buf
	}
	whole := make([]byte, 0, b.Len())
	for piece := range b.pieces {
		whole = append(whole, piece...)
	}
	return whole
}

// reader returns what reads the body from its start. It may be used beside
// others.
func (b *Body) reader() io.ReadCloser {
	readers := make([]io.Reader, 0, 2*len(b.cuts)+1)
	for piece := range b.pieces {
		readers = append(readers, bytes.NewReader(piece))
	}
	return io.NopCloser(io.MultiReader(readers...))
}

func (b *Body) pieces(yield func([]byte) bool) {
	from := 0
	for _, c := range b.cuts {
		if !yield(b.Buf[from:c.at]) || !yield(c.piece) {
			return
		}
		from = c.at
	}
	yield(b.Buf[from:])
}
