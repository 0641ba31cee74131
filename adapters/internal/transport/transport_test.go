package transport_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestATransportTakesTheGivenProxy(t *testing.T) {
	tr, err := transport.New("http://proxy.test:3128")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := tr.Proxy(&http.Request{}); err != nil || u.Host != "proxy.test:3128" {
		t.Errorf("%v %v", u, err)
	}
	if tr.Protocols.HTTP2() || !tr.Protocols.HTTP1() {
		t.Errorf("protocols %v", tr.Protocols)
	}
	if _, err = transport.New("http://me:geheim@a b"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("a proxy that is none: %v", err)
	}
}

func TestARedirectionIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request went on") }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	tr, err := transport.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("token"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr, CheckRedirect: transport.NoRedirect}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("%s, %v", resp.Status, err)
	}
}

func TestWhatIsNoURLIsSaid(t *testing.T) {
	for s, want := range map[string]string{
		"https://x.test/y": "", "http://x.test": "", "ftp://x.test": "must begin with http:// or https://",
		"x.test": "must be a URL with a host", "http://": "must be a URL with a host", "http://a b": "must be a URL with a host",
	} {
		err := transport.CheckURL(s, "http", "https")
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
	for p, ok := range map[secret.Value]bool{"": true, "socks5h://x:1080": true, "http://x": true, "x:1": false, "ftp://geheim@x": false} {
		if err := transport.CheckProxy(p); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", p.Reveal(), err)
		}
	}
}
