package apiclient

import (
	"bytes"
	"io"
)

// A Body is a request body. Encoded messages of the transcript are part of it by reference:
// a long conversation is copied only once, into the connection.
type Body struct {
	// Buf holds the bytes encoded for this request. Encoders append to it.
	Buf  []byte
	cuts []cut
	size int // bytes of the pieces in cuts
}

// A cut is a shared piece that is inserted before offset at of Buf.
type cut struct {
	offset int
	piece  []byte
}

// minShared is the minimum size of a piece that is not copied, in bytes.
const minShared = 16 << 10

// Share appends a piece, which must never change afterwards.
func (b *Body) Share(piece []byte) {
	if len(piece) < minShared {
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

// reader returns an independent reader of the body from its start.
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
		if !yield(b.Buf[from:c.offset]) || !yield(c.piece) {
			return
		}
		from = c.offset
	}
	yield(b.Buf[from:])
}
