package safehttp

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// TooLarge is the error for a file above the limit.
type TooLarge struct {
	Limit int64 // bytes
	Size  int64 // bytes; 0 if unknown
}

func (e *TooLarge) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("the file is larger than the %s that can be taken", Size(e.Limit))
	}
	return fmt.Sprintf("the file has %s and at most %s can be taken", Size(e.Size), Size(e.Limit))
}

// Size formats a number of bytes for users, rounded down.
func Size(n int64) string {
	unit, name := int64(1), "bytes"
	switch {
	case n >= 1<<30:
		unit, name = 1<<30, "GB"
	case n >= 1<<20:
		unit, name = 1<<20, "MB"
	case n >= 1<<10:
		unit, name = 1<<10, "KB"
	}
	s := strconv.FormatInt(n/unit, 10)
	if tenth := n % unit * 10 / unit; tenth > 0 && n/unit < 100 {
		s += "." + strconv.FormatInt(tenth, 10)
	}
	return s + " " + name
}

// Copy copies the body of a response to w, at most limit bytes, closes it and returns the
// number of bytes written. A response without success status and a body above the limit
// are errors with a text for users; the latter wraps a *TooLarge. After an error w may
// contain the beginning of the body.
func Copy(w io.Writer, resp *http.Response, limit int64) (n int64, err error) {
	defer func() { _ = resp.Body.Close() }() // read only; an error does not matter
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if resp.ContentLength > limit {
		return 0, &TooLarge{Limit: limit, Size: resp.ContentLength}
	}
	n, err = io.Copy(w, io.LimitReader(resp.Body, limit))
	if err != nil {
		return n, fmt.Errorf("receive the file: %w", err)
	}
	if n < limit {
		return n, nil
	}
	switch more, err := io.CopyN(io.Discard, resp.Body, 1); {
	case more > 0:
		return n, &TooLarge{Limit: limit}
	case err != io.EOF:
		return n, fmt.Errorf("receive the file: %w", err)
	}
	return n, nil
}
