package memory

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Kind is the effect of a fault on a call.
type Kind int

// Kinds of faults. With those whose name ends in After the call has its effect.
const (
	Pass       Kind = iota // only the delays of the fault
	Refuse                 // refused with Status, or 500
	Page                   // refused with a proxy's HTML page and Status, or 502
	Cut                    // the connection is cut before the call is handled
	CutAfter               // the connection is cut instead of the answer
	HalfAfter              // the connection is cut in the middle of the answer
	ShortAfter             // a proper answer with the first half of the body
	Empty                  // 200 without a body
	Huge                   // 200 with Size bytes of JSON, or 50 MB
)

// handled reports whether a call with the fault reaches the API.
func (k Kind) handled() bool {
	return k == Pass || k == CutAfter || k == HalfAfter || k == ShortAfter
}

// hugeBytes is the size of the answer of Huge without Size.
const hugeBytes = 50 << 20

// A Fault makes calls fail, or slow.
type Fault struct {
	Kind   Kind
	Method string // "": any
	Path   string // a part of the path; "": any
	Skip   int    // number of matching calls that pass first
	Times  int    // number of calls to which it is applied; 0: one, negative: all

	Delay time.Duration // before the call is handled
	Late  time.Duration // between handling and answer

	Status     int
	RetryAfter time.Duration // value of Retry-After; 0: none
	Size       int           // of the answer of Huge
}

// Inject adds a fault. A call is matched against the faults in the order of their
// injection; the first match is applied.
func (s *Server) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns the fault of a request, or the zero Fault.
func (s *Server) fault(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times == 0 || f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return *f
	}
	return Fault{}
}

const page = "<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%s</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"

// answer answers a call that the API does not see, and returns the status.
func (f Fault) answer(w http.ResponseWriter, errorBody func(int, string) any) int {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	status := f.Status
	switch f.Kind {
	case Page:
		if status == 0 {
			status = http.StatusBadGateway
		}
		title := strconv.Itoa(status) + " " + http.StatusText(status)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(strings.ReplaceAll(page, "%s", title))) // a client that left reads no answer
		return status
	case Empty:
		w.WriteHeader(http.StatusOK)
		return http.StatusOK
	case Huge:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"results":["`))
		chunk := []byte(strings.Repeat("x", 1<<16))
		for range cmp.Or(f.Size, hugeBytes) / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				break // the client has read enough
			}
		}
		_, _ = w.Write([]byte(`"]}`))
		return http.StatusOK
	case Cut:
		panic(http.ErrAbortHandler)
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	JSON(w, status, errorBody(status, http.StatusText(status)))
	return status
}

// spoil sends the answer of a call that was handled, as far as the fault allows, and
// returns the status that the client got.
func (f Fault) spoil(w http.ResponseWriter, b *buffer) int {
	if f.Kind == CutAfter {
		panic(http.ErrAbortHandler)
	}
	for name, values := range b.header {
		w.Header()[name] = values
	}
	body := b.Bytes()
	if f.Kind == ShortAfter {
		body = body[:len(body)/2]
	}
	if f.Kind == HalfAfter {
		w.WriteHeader(b.status)
		_, _ = w.Write(body[:len(body)/2])
		if flush, ok := w.(http.Flusher); ok {
			flush.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(b.status)
	_, _ = w.Write(body) // a client that left reads no answer
	return b.status
}
