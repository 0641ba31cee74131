package safehttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// A guard is a RoundTripper that checks requests. It sends requests to allowed addresses
// directly, and all others through the proxy or, without one, the checked dialer.
type guard struct {
	invalid error
	allow   map[string]bool
	proxy   func(*url.URL) (*url.URL, error)
	direct  *http.Transport
	proxied *http.Transport
}

// RoundTrip sends a request, or returns an error if it is not allowed.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	through, err := g.check(r.URL)
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	return through.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (g *guard) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	g.proxied.CloseIdleConnections()
}

// check returns the transport for a URL, or an error if it is not allowed.
func (g *guard) check(u *url.URL) (*http.Transport, error) {
	if g.invalid != nil {
		return nil, g.invalid
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, refusedError(u.Scheme+":", "only http and https can be fetched")
	}
	if g.allow[hostPort(u)] {
		return g.direct, nil
	}
	proxy, err := g.proxy(u)
	if err != nil {
		return nil, fmt.Errorf("choose a proxy: %w", err)
	}
	if proxy == nil {
		return g.direct, checkHost(u.Hostname())
	}
	return g.proxied, checkProxiedHost(u.Hostname())
}

// hostPort returns host and port of a URL in canonical form.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return canonical(u.Hostname(), port, nil)
}

// safeHeaders lists the headers that are kept on a redirect to another host.
var safeHeaders = []string{"Accept", "Accept-Language", "Range", "User-Agent"}

// redirect implements http.Client.CheckRedirect. A request to another origin keeps only
// safeHeaders and must not have a body.
func (g *guard) redirect(r *http.Request, via []*http.Request) error {
	const maxRedirects = 5
	if len(via) > maxRedirects {
		return refusedError(r.URL.Hostname(), "there are too many redirects")
	}
	if _, err := g.check(r.URL); err != nil {
		return err
	}
	home, away := origin(via[0].URL), false
	for _, step := range append(via[1:len(via):len(via)], r) {
		away = away || origin(step.URL) != home
	}
	r.Header.Del("Referer") // the previous URL may contain a token
	if !away {
		return nil
	}
	if g.allow[hostPort(r.URL)] {
		return refusedError(r.URL.Hostname(), "another host redirected there")
	}
	if r.Body != nil && r.Body != http.NoBody {
		return refusedError(r.URL.Hostname(), "another host redirected what we send there")
	}
	kept := http.Header{}
	for _, name := range safeHeaders {
		if v := r.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	r.Header = kept
	r.URL.User = nil
	return nil
}

func origin(u *url.URL) string { return u.Scheme + "://" + hostPort(u) }
