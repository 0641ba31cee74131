package apiclient

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func readAll(t *testing.T, r io.Reader) []Event {
	t.Helper()
	s := newEvents(r)
	var all []Event
	for {
		e, err := s.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return all
		}
		e.Data = append([]byte(nil), e.Data...)
		all = append(all, e)
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for name, c := range map[string]struct {
		in   string
		want []Event
	}{
		"one":              {"data: a\n\n", []Event{{"", []byte("a")}}},
		"named":            {"event: x\ndata: a\n\ndata: b\n\n", []Event{{"x", []byte("a")}, {"", []byte("b")}}},
		"CR LF":            {"event: x\r\ndata: a\r\n\r\n", []Event{{"x", []byte("a")}}},
		"no space":         {"event:x\ndata:a\n\n", []Event{{"x", []byte("a")}}},
		"one space only":   {"data:  a\n\n", []Event{{"", []byte(" a")}}},
		"several lines":    {"data: a\ndata\ndata: b\n\n", []Event{{"", []byte("a\n\nb")}}},
		"comments":         {": ping\n\n: ping\ndata: a\n: more\n\n", []Event{{"", []byte("a")}}},
		"other fields":     {"id: 7\nretry: 100\nfoo: bar\ndata: a\n\n", []Event{{"", []byte("a")}}},
		"a name alone":     {"event: x\n\ndata: a\n\n", []Event{{"", []byte("a")}}},
		"a mark of order":  {"\xef\xbb\xbfdata: a\n\n", []Event{{"", []byte("a")}}},
		"cut off":          {"data: a\n\ndata: b\n", []Event{{"", []byte("a")}}},
		"a long line":      {"data: " + long + "\n\n", []Event{{"", []byte(long)}}},
		"a colon in it":    {"data: a: b\n\n", []Event{{"", []byte("a: b")}}},
		"nothing":          {"", nil},
		"only empty lines": {"\n\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, readAll(t, strings.NewReader(c.in))); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.want, readAll(t, iotest.OneByteReader(strings.NewReader(c.in)))); d != "" {
				t.Errorf("byte by byte: %s", d)
			}
		})
	}
}

func TestEventsLimitSize(t *testing.T) {
	for name, line := range map[string]string{
		"one line": strings.Repeat("x", 4000), "many lines": strings.Repeat("x", 4000) + "\ndata: ",
	} {
		s := newEvents(io.MultiReader(strings.NewReader("data: "), &endless{text: line}))
		if _, err := s.next(); !errors.Is(err, errEventTooLong) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// endless is a reader that repeats one text forever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func FuzzEvents(f *testing.F) {
	f.Add("event: a\r\ndata: b\n\n: c\n\ndata: d")
	f.Fuzz(func(t *testing.T, in string) {
		whole := readAll(t, strings.NewReader(in))
		parts := readAll(t, iotest.OneByteReader(strings.NewReader(in)))
		if d := cmp.Diff(whole, parts); d != "" {
			t.Error(d)
		}
	})
}

func TestAppendStringIsJSON(t *testing.T) {
	odd := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), odd).Draw(t, "in")
		b := AppendString([]byte("x"), in)
		var got string
		if err := json.Unmarshal(b[1:], &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		want, _ := json.Marshal(in)
		var clean string
		if err := json.Unmarshal(want, &clean); err != nil || got != clean {
			t.Fatalf("got %q, want %q", got, clean)
		}
		if !utf8.Valid(b) {
			t.Fatalf("%q is no UTF-8", b)
		}
	})
}

func TestToolNames(t *testing.T) {
	for in, want := range map[string]string{
		"read_file": "read_file", "a b.c": "a_b_c", "": "unknown", "é": "_", strings.Repeat("a", 70): strings.Repeat("a", 64),
	} {
		if got := Name(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
