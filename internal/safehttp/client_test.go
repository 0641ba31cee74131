package safehttp_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/safehttp"
	"hermesd/internal/sim/dns"
)

// environment is the proxy in the environment of these tests. It answers with the
// requested URL.
var environment = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "by way of the environment: "+r.RequestURI)
}))

func TestMain(m *testing.M) {
	environment.Start()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	if err := os.Setenv("HTTP_PROXY", environment.URL); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }), goleak.IgnoreCurrent())
}

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

func client(t *testing.T, o safehttp.Options) *http.Client {
	t.Helper()
	c := safehttp.New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(c, req)
}

func do(c *http.Client, req *http.Request) (string, error) {
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	_, err = safehttp.Copy(&b, resp, 1<<20)
	return b.String(), err
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func to(target string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
}

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

func port(s *httptest.Server) string { return s.URL[strings.LastIndexByte(s.URL, ':')+1:] }

func TestRefusesWhatIsNotPublic(t *testing.T) {
	s, n := serve(t, hello)
	c := client(t, safehttp.Options{})
	for _, u := range []string{
		s.URL,
		"http://localhost:" + port(s),
		"http://LOCALHOST.:" + port(s),
		"http://a.localhost:" + port(s),
		"http://127.1:" + port(s),
		"http://2130706433:" + port(s),
		"http://0x7f000001:" + port(s),
		"http://0x7f.0.0.1:" + port(s),
		"http://017700000001:" + port(s),
		"http://0177.0.0.1:" + port(s),
		"http://127.0.0.1.:" + port(s),
		"http://１２７.0.0.1:" + port(s),
		"http://127。0。0。1:" + port(s),
		"http://0:" + port(s),
		"http://0.0.0.0:" + port(s),
		"http://[::1]:" + port(s),
		"http://[::]:" + port(s),
		"http://[::ffff:127.0.0.1]:" + port(s),
		"http://[::ffff:7f00:1]:" + port(s),
		"http://[64:ff9b::7f00:1]:" + port(s),
		"http://user:pass@127.0.0.1:" + port(s),
		"http://example.com@127.0.0.1:" + port(s),
		"https://127.0.0.1:" + port(s),
		"http://169.254.169.254/latest/meta-data/",
		"http://metadata.google.internal/",
		"http://router.lan/",
		"http://printer.local/",
		"http://10.0.0.1/",
		"file:///etc/passwd",
		"ftp://127.0.0.1/",
		"gopher://127.0.0.1:" + port(s),
		"http:///x",
	} {
		_, err := get(t, c, u)
		if !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", u, err)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d requests came through", n.Load())
	}
}

func TestAllowListIsExact(t *testing.T) {
	s, _ := serve(t, hello)
	other, n := serve(t, hello)
	c := client(t, safehttp.Options{Allow: []string{host(s), "LocalHost:" + port(s)}})
	for _, u := range []string{s.URL, "http://localhost:" + port(s), "http://[::ffff:127.0.0.1]:" + port(s)} {
		if got, err := get(t, c, u); err != nil || got != "hello" {
			t.Errorf("%s: got %q, %v", u, got, err)
		}
	}
	for _, u := range []string{other.URL, "http://127.0.0.1:1", "http://127.0.0.2:" + port(s), "http://a.localhost:" + port(s)} {
		if _, err := get(t, c, u); !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", u, err)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d requests came through", n.Load())
	}
}

// names is a resolver that returns the addresses of a name in turn, one per query, and
// the last one from then on.
func names(t *testing.T, addrs map[string][]string) *net.Resolver {
	t.Helper()
	s := dns.New(addrs)
	t.Cleanup(s.Close)
	return s.Resolver()
}

// A name that resolves to a public address first and to a private one when the connection
// is made is rejected.
func TestRebindingDoesNotHelp(t *testing.T) {
	s, n := serve(t, hello)
	r := names(t, map[string][]string{"rebind.test": {"93.184.216.34", "127.0.0.1"}})
	first, err := r.LookupHost(t.Context(), "rebind.test")
	if err != nil || len(first) != 1 || first[0] != "93.184.216.34" {
		t.Fatalf("first look: %v, %v", first, err)
	}
	c := client(t, safehttp.Options{Resolver: r})
	for range 3 {
		if _, err := get(t, c, "http://rebind.test:"+port(s)); !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d requests came through", n.Load())
	}
}

func TestNamesOfPrivateAddressesAreRefused(t *testing.T) {
	s, n := serve(t, hello)
	c := client(t, safehttp.Options{Resolver: names(t, map[string][]string{
		"one.test":  {"127.0.0.1"},
		"many.test": {"10.0.0.1 127.0.0.1 169.254.169.254 0.0.0.0"},
	})})
	for _, name := range []string{"one.test", "many.test"} {
		if _, err := get(t, c, "http://"+name+":"+port(s)); !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d requests came through", n.Load())
	}
}

func TestAllowedNameMayBePrivate(t *testing.T) {
	s, _ := serve(t, hello)
	c := client(t, safehttp.Options{
		Allow:    []string{"api.test:" + port(s)},
		Resolver: names(t, map[string][]string{"api.test": {"127.0.0.1"}}),
	})
	if got, err := get(t, c, "http://api.test:"+port(s)); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRedirects(t *testing.T) {
	inside, n := serve(t, hello)
	var s *httptest.Server
	s, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/inside":
			to(inside.URL)(w, r)
		case "/name":
			to("http://localhost:"+port(inside))(w, r)
		case "/metadata":
			to("http://169.254.169.254/")(w, r)
		case "/file":
			to("file:///etc/passwd")(w, r)
		case "/loop":
			to("/loop")(w, r)
		case "/5", "/4", "/3", "/2", "/1":
			to("/"+string(r.URL.Path[1]-1))(w, r)
		case "/6":
			to("/5")(w, r)
		case "/0":
			hello(w, r)
		}
	})
	c := client(t, safehttp.Options{Allow: []string{host(s)}})
	for _, path := range []string{"/inside", "/name", "/metadata", "/file", "/loop", "/6"} {
		if _, err := get(t, c, s.URL+path); !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", path, err)
		}
	}
	if n.Load() != 0 {
		t.Errorf("%d requests came through", n.Load())
	}
	if got, err := get(t, c, s.URL+"/5"); err != nil || got != "hello" {
		t.Errorf("five redirects: got %q, %v", got, err)
	}
}

// Another host cannot redirect to an allowed address.
func TestAllowedPlaceIsNoTargetOfRedirects(t *testing.T) {
	allowed, n := serve(t, hello)
	s, _ := serve(t, to(allowed.URL))
	c := client(t, safehttp.Options{Allow: []string{host(s), host(allowed)}})
	if _, err := get(t, c, s.URL); !errors.Is(err, safehttp.ErrRefused) || n.Load() != 0 {
		t.Errorf("got %v and %d requests, want a refusal", err, n.Load())
	}
	if got, err := get(t, c, allowed.URL); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// proxy returns a proxy that passes each request to h, whatever its host.
func proxy(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s, _ := serve(t, h)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestNoCredentialCrossesHosts(t *testing.T) {
	secrets := []string{"Authorization", "Cookie", "X-Api-Key", "Referer", "Proxy-Authorization"}
	leaks := make(chan string, 20)
	p := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "http://a.example/token/start":
			to("http://a.example/second")(w, r)
		case "http://a.example/second":
			if r.Header.Get("X-Api-Key") == "" || r.Header.Get("Authorization") == "" {
				leaks <- "the own host has lost its credentials"
			}
			to("http://user:pw@sub.a.example/third")(w, r)
		case "http://sub.a.example/third":
			to("http://a.example:8080/fourth")(w, r)
		default:
			if r.Header.Get("Accept") != "image/*" {
				leaks <- "Accept was lost"
			}
			hello(w, r)
		}
		if r.URL.Path == "/third" || r.URL.Path == "/fourth" {
			for _, name := range secrets {
				if v := r.Header.Get(name); v != "" {
					leaks <- r.URL.String() + ": " + name + ": " + v
				}
			}
		}
	})
	c := client(t, safehttp.Options{Proxy: p})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/token/start", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range secrets {
		req.Header.Set(name, "secret")
	}
	req.Header.Set("Accept", "image/*")
	if got, err := do(c, req); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	close(leaks)
	for l := range leaks {
		t.Error(l)
	}
}

func TestNoBodyCrossesHosts(t *testing.T) {
	p := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "a.example" {
			http.Redirect(w, r, "http://b.example/", http.StatusTemporaryRedirect)
		}
	})
	c := client(t, safehttp.Options{Proxy: p})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.example/", strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(c, req); !errors.Is(err, safehttp.ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestProxy(t *testing.T) {
	s, n := serve(t, hello)
	p := proxy(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "by proxy: "+r.RequestURI) })
	c := client(t, safehttp.Options{Proxy: p, Allow: []string{host(s)}})
	if got, err := get(t, c, "http://name.example/x"); err != nil || got != "by proxy: http://name.example/x" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := get(t, c, s.URL); err != nil || got != "hello" {
		t.Errorf("an allowed place is not reached directly: %q, %v", got, err)
	}
	for _, u := range []string{
		p.String(), "http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "http://0x7f.1/", "http://localhost/", "http://redis:6379/",
		"http://１２７.0.0.1/", "http://169.254.169.254/", "http://metadata.google.internal/", "http://db.internal/",
	} {
		if _, err := get(t, c, u); !errors.Is(err, safehttp.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", u, err)
		}
	}
	if n.Load() != 1 {
		t.Errorf("%d requests came directly, want 1", n.Load())
	}
}

func TestEnvironmentIsAskedOnlyIfWanted(t *testing.T) {
	want := "by way of the environment: http://name.test/"
	if got, err := get(t, client(t, safehttp.Options{Environment: true}), "http://name.test/"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	r := names(t, map[string][]string{"name.test": {"127.0.0.1"}})
	if got, err := get(t, client(t, safehttp.Options{Resolver: r}), "http://name.test/"); !errors.Is(err, safehttp.ErrRefused) {
		t.Errorf("got %q, %v, want a refusal", got, err)
	}
}

func TestOptionsThatAreNotValid(t *testing.T) {
	for _, o := range []safehttp.Options{
		{Allow: []string{"127.0.0.1"}},
		{Allow: []string{"http://127.0.0.1:80"}},
		{Allow: []string{"*:80"}},
		{Allow: []string{":80"}},
		{Proxy: &url.URL{Scheme: "ftp", Host: "a"}},
		{Proxy: &url.URL{Scheme: "http"}},
	} {
		want := o.Validate()
		if want == nil {
			t.Errorf("%+v is valid", o)
			continue
		}
		if _, err := get(t, client(t, o), "http://127.0.0.1:1/"); err == nil || !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestValidateHidesThePassword(t *testing.T) {
	u, err := url.Parse("ftp://user:hunter2@proxy.example")
	if err != nil {
		t.Fatal(err)
	}
	if got := (safehttp.Options{Proxy: u}).Validate(); got == nil || strings.Contains(got.Error(), "hunter2") {
		t.Errorf("got %v", got)
	}
}
