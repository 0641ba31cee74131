package safehttp_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"hermesd/internal/safehttp"
)

func TestCopy(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		size    int
		declare bool // send Content-Length
		limit   int64
		want    string // error, "" for none
		got     int64  // bytes
	}{
		{name: "small", size: 10, limit: 20, got: 10},
		{name: "exact", size: 20, limit: 20, got: 20},
		{name: "exact and declared", size: 20, declare: true, limit: 20, got: 20},
		{name: "empty", size: 0, limit: 0, got: 0},
		{name: "too large", size: 21, limit: 20, got: 20, want: "the file is larger than the 20 bytes that can be taken"},
		{name: "declared too large", size: 3 << 20, declare: true, limit: 1 << 20, got: 0, want: "the file has 3 MB and at most 1 MB can be taken"},
		{name: "not found", status: 404, size: 5, limit: 20, got: 0, want: "the server answered 404 Not Found"},
		{name: "not changed", status: 304, limit: 20, got: 0, want: "the server answered 304 Not Modified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.declare {
					w.Header().Set("Content-Length", strconv.Itoa(c.size))
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				if !c.declare {
					_ = http.NewResponseController(w).Flush() // prevents Content-Length
				}
				_, _ = io.WriteString(w, strings.Repeat("x", c.size))
			})
			resp := fetch(t, s.URL)
			var b strings.Builder
			n, err := safehttp.Copy(&b, resp, c.limit)
			if n != c.got || int64(b.Len()) != c.got {
				t.Errorf("copied %d, wrote %d, want %d", n, b.Len(), c.got)
			}
			if got := text(err); got != c.want {
				t.Errorf("got error %q, want %q", got, c.want)
			}
			var large *safehttp.TooLarge
			if errors.As(err, &large) != strings.Contains(c.want, "file") {
				t.Errorf("%v is of type %T", err, err)
			}
		})
	}
}

// A truncated response is an error, also at the limit.
func TestCopyOfAnAnswerThatBreaksOff(t *testing.T) {
	s, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		_, _ = io.WriteString(w, strings.Repeat("x", 10))
	})
	for _, limit := range []int64{20, 100} {
		n, err := safehttp.Copy(io.Discard, fetch(t, s.URL), limit)
		if n != 10 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %d, %v", n, err)
		}
	}
}

// A compressed body does not bypass the limit.
func TestCopyOfACompressedBody(t *testing.T) {
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zeros(t, 10<<20))
		}
	})
	n, err := safehttp.Copy(io.Discard, fetch(t, s.URL), 1000)
	var large *safehttp.TooLarge
	if n != 1000 || !errors.As(err, &large) {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KB", 1536: "1.5 KB", 20 << 20: "20 MB", 20<<20 + 600<<10: "20.5 MB",
		150<<20 + 600<<10: "150 MB", 3 << 30: "3 GB",
	} {
		if got := safehttp.Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
