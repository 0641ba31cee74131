package web_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"hermesd/agent/tool"
	"hermesd/agent/tools/web"
	"hermesd/internal/dial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns it with the number of requests it got.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// open returns the tools with these options.
func open(t *testing.T, o web.Options) map[string]tool.Tool {
	t.Helper()
	w, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	all := map[string]tool.Tool{}
	for _, to := range w.Tools() {
		all[to.Spec().Name] = to
	}
	return all
}

// run calls a tool; an error is marked as one.
func run(t *testing.T, to tool.Tool, input any) string {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	out, err := to.Run(t.Context(), tool.Call{Input: raw})
	if err != nil {
		return "error: " + err.Error()
	}
	return out
}

type pages struct {
	URLs   []string `json:"urls"`
	Offset int      `json:"offset,omitempty"`
}

// read extracts one page of a server that may be reached.
func read(t *testing.T, s *httptest.Server, path string) string {
	t.Helper()
	return run(t, open(t, web.Options{Dial: dial.Options{Allow: []string{host(s)}}})["web_extract"], pages{URLs: []string{s.URL + path}})
}

// names is a resolver that gives each name its addresses in turn, one for each
// time it is asked, and the last one from then on.
func names(t *testing.T, addrs map[string][]string) *net.Resolver {
	t.Helper()
	asked := map[string]int{}
	var mu sync.Mutex
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		t.Cleanup(func() { _ = ours.Close(); <-done })
		go func() { // the cleanup waits for it
			defer close(done)
			defer func() { _ = ours.Close() }()
			mu.Lock()
			defer mu.Unlock()
			answer(ours, addrs, asked)
		}()
		return theirs, nil
	}}
}

func answer(c net.Conn, addrs map[string][]string, asked map[string]int) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	raw := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, raw); err != nil {
		return
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	q := m.Questions[0]
	list := addrs[strings.TrimSuffix(q.Name.String(), ".")]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	if q.Type == dnsmessage.TypeA && len(list) > 0 {
		i := min(asked[q.Name.String()], len(list)-1)
		asked[q.Name.String()]++
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(list[i]).As4()},
		})
	}
	if raw, err := m.Pack(); err == nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(raw))), raw...))
	}
}
