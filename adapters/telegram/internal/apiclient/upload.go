package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
)

// An Upload is a file that is sent from where it is stored. The library holds the
// whole body of a request in memory, and would do so with the file; therefore it
// gets a short marker as the file's content, for which the Client sends the file.
type Upload struct {
	content io.ReaderAt
	size    int64
	marker  string
}

type uploadKey struct{}

// WithUpload returns a context for the one request that contains the upload's
// Reader as the content of a file of size bytes.
func WithUpload(ctx context.Context, content io.ReaderAt, size int64) (context.Context, *Upload) {
	u := &Upload{content: content, size: size, marker: "hermesd-upload-" + rand.Text()}
	return context.WithValue(ctx, uploadKey{}, u), u
}

// Reader returns what the library gets as the content of the file.
func (u *Upload) Reader() io.Reader { return strings.NewReader(u.marker) }

// body returns the body of a request with the file between two parts.
func (u *Upload) body(before, after []byte, p *passage) io.ReadCloser {
	file := io.NewSectionReader(u.content, 0, u.size)
	all := io.MultiReader(bytes.NewReader(before), file, bytes.NewReader(after))
	return &trackedBody{r: bufio.NewReaderSize(all, 64<<10), p: p}
}
