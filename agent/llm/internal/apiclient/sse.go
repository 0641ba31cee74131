package apiclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An Event is one server-sent event.
type Event struct {
	Name string // "" for none
	Data []byte // its data lines, joined by line feeds; valid until the next event
}

// maxEvent is the maximum size of one event, in bytes.
const maxEvent = 32 << 20

var errEventTooLong = errors.New("an event of the stream is too long")

// events reads server-sent events, with lines that end in LF or CR LF. Comments and fields
// other than event and data are skipped. An event that is truncated by the end of the
// stream is not delivered.
type events struct {
	r    *bufio.Reader
	line []byte
	data []byte
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 8<<10)} }

// next returns the next event, or the error that ended the stream; io.EOF when the stream
// ended normally.
func (s *events) next() (Event, error) {
	var e Event
	s.data = s.data[:0]
	seen := false
	for {
		line, err := s.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if !seen {
				e.Name = ""
				continue
			}
			e.Data = bytes.TrimSuffix(s.data, []byte("\n"))
			return e, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.Name = string(value)
		case "data":
			seen = true
			s.data = append(append(s.data, value...), '\n')
			if len(s.data) > maxEvent {
				return Event{}, errEventTooLong
			}
		}
	}
}

func (s *events) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		switch {
		case err == nil && len(s.line) == 0:
			return trimLine(part), nil
		case err == nil:
			return trimLine(append(s.line, part...)), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read: %w", err)
		}
		if s.line = append(s.line, part...); len(s.line) > maxEvent {
			return nil, errEventTooLong
		}
	}
}

var bom = []byte("\xef\xbb\xbf")

func trimLine(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimPrefix(bytes.TrimSuffix(b, []byte("\r")), bom)
}
