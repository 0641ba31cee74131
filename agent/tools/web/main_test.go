package web_test

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/agent/tools/web"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
	"hermesd/internal/sim/dns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns it with its request counter.
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
	o.Log, o.Secrets = cmp.Or(o.Log, zap.NewNop()), cmp.Or(o.Secrets, &secret.Masker{})
	if o.Scan == nil {
		o.Scan = func(string) []string { return nil }
	}
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

// run calls a tool; an error is marked as such.
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

// read extracts one page of a server that is allowed.
func read(t *testing.T, s *httptest.Server, path string) string {
	t.Helper()
	return run(t, open(t, web.Options{Dial: safehttp.Options{Allow: []string{host(s)}}})["web_extract"], pages{URLs: []string{s.URL + path}})
}

// names is a resolver that returns the addresses of each name in turn, one per lookup, and
// the last one from then on.
func names(t *testing.T, addrs map[string][]string) *net.Resolver {
	t.Helper()
	s := dns.New(addrs)
	t.Cleanup(s.Close)
	return s.Resolver()
}
