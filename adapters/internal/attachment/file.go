// Package attachment implements what all adapters share for the files of
// messages: choosing a safe file name, opening a file that is to be sent, and
// copying a download up to a size limit.
package attachment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// Name returns the name under which a file is sent: one path element of
// printable characters. It can be long.
func Name(f chat.File) string {
	name := filepath.Base(strings.ReplaceAll(cmp.Or(f.Name, f.Path), `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '"' || r == '/' {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, ". ") == "" {
		return "file"
	}
	return name
}

// A Limit is the size limit of a platform for files that are sent.
type Limit struct {
	Platform string // display name of the platform
	MaxBytes int64
	TooBig   string // reason of the rejection of a larger file
}

// Open opens a file that is to be sent, and returns its size in bytes. name
// identifies the file in the reason that users read. The error is a
// *chat.SendError with outcome Permanent if the file does not exist, is not a
// regular file, is empty or is larger than the limit.
func (l Limit) Open(f chat.File, name string) (*os.File, int64, error) {
	r, err := os.Open(f.Path)
	if err != nil {
		return nil, 0, rejected("the file "+name+" cannot be read", err)
	}
	st, err := r.Stat()
	switch {
	case err != nil || !st.Mode().IsRegular():
		err = rejected("the file "+name+" cannot be read", err)
	case st.Size() == 0:
		err = rejected("the file "+name+" is empty, and "+l.Platform+" takes no empty files", nil)
	case st.Size() > l.MaxBytes:
		err = rejected(l.TooBig, nil)
	}
	if err != nil {
		_ = r.Close() // nothing was written
		return nil, 0, err
	}
	return r, st.Size(), nil
}

func rejected(reason string, err error) error {
	return &chat.SendError{Outcome: chat.Permanent, Refused: true, Reason: reason, Err: err}
}

// TooLarge returns the error of a file with more than limit bytes. It is
// translatable.
func TooLarge(limit int64) error {
	size := fmt.Sprintf("%d MB", limit>>20)
	if limit < 1<<20 {
		size = fmt.Sprintf("%d KB", (limit+1023)>>10)
	}
	return i18n.Errorf("the file is larger than %s, the most that is taken", size)
}

// Copy copies at most limit bytes from r to w. whole is false if r has more.
func Copy(w io.Writer, r io.Reader, limit int64) (whole bool, err error) {
	n, err := io.Copy(w, io.LimitReader(r, limit))
	if err != nil {
		return false, err //nolint:wrapcheck // the caller adds the operation
	}
	if n == limit { // exactly as large, or larger
		extra, _ := io.ReadFull(r, make([]byte, 1))
		return extra == 0, nil
	}
	return true, nil
}

// ErrTimeout is the error of a download that took too long. Users read it.
var ErrTimeout = i18n.Errorf("it did not come in time")

// TimedOut reports whether a download with ctx failed with err because of a
// timeout.
func TimedOut(ctx context.Context, err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || ok && slow.Timeout()
}

// A Download is a file that is downloaded.
type Download struct {
	Limit  int64               // in bytes
	TooBig error               // the error of a larger file
	Mask   func(string) string // removes secrets from the texts of errors; nil: there are none
}

// Save copies the file that resp contains to w. ctx is that of the request.
func (d Download) Save(ctx context.Context, resp *http.Response, w io.Writer) error {
	switch {
	case resp.StatusCode != http.StatusOK:
		return i18n.Errorf("the server answers %d instead of the file", resp.StatusCode)
	case resp.ContentLength > d.Limit:
		return d.TooBig
	}
	whole, err := Copy(w, resp.Body, d.Limit)
	switch {
	case err != nil:
		return d.Failure(ctx, err)
	case !whole:
		return d.TooBig
	}
	return nil
}

// Failure returns the error that users read if a request or reading its answer failed
// with err. It does not contain the address, which may be signed or include a token.
func (d Download) Failure(ctx context.Context, err error) error {
	if TimedOut(ctx, err) {
		return ErrTimeout
	}
	if ctx.Err() != nil {
		return i18n.Errorf("download the file: %v", ctx.Err())
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	text := err.Error()
	if d.Mask != nil {
		text = d.Mask(text)
	}
	return i18n.Errorf("download the file: %s", text)
}
