package safehttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// A guard sends requests that may be made: to allowed places and through the
// checked dialer directly, all others through the proxy.
type guard struct {
	invalid error
	allow   map[string]bool
	proxy   func(*url.URL) (*url.URL, error)
	direct  *http.Transport
	proxied *http.Transport
}

// RoundTrip sends one request, or refuses it.
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

// CloseIdleConnections is called by the client's method of that name.
func (g *guard) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	g.proxied.CloseIdleConnections()
}

// check returns the transport for a URL, or why it may not be fetched.
func (g *guard) check(u *url.URL) (*http.Transport, error) {
	if g.invalid != nil {
		return nil, g.invalid
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, refuse(u.Scheme+":", "only http and https can be fetched")
	}
	if g.allow[place(u)] {
		return g.direct, nil
	}
	proxy, err := g.proxy(u)
	if err != nil {
		return nil, fmt.Errorf("choose a proxy: %w", err)
	}
	if proxy == nil {
		return g.direct, checkHost(u.Hostname())
	}
	return g.proxied, checkForeign(u.Hostname())
}

// place returns where a URL leads, in canonical form.
func place(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return canonical(u.Hostname(), port, nil)
}

// innocent are the headers that may go to another host than the one they were
// made for.
var innocent = []string{"Accept", "Accept-Language", "Range", "User-Agent"}

// redirect decides whether a redirect is followed. A request that leaves its
// host keeps no header that could be a credential, and takes no body along.
func (g *guard) redirect(r *http.Request, via []*http.Request) error {
	const most = 5
	if len(via) > most {
		return refuse(r.URL.Hostname(), "there are too many redirects")
	}
	if _, err := g.check(r.URL); err != nil {
		return err
	}
	home, away := origin(via[0].URL), false
	for _, step := range append(via[1:len(via):len(via)], r) {
		away = away || origin(step.URL) != home
	}
	r.Header.Del("Referer") // it may hold a token of the path before
	if !away {
		return nil
	}
	if g.allow[place(r.URL)] {
		return refuse(r.URL.Hostname(), "another host redirected there")
	}
	if r.Body != nil && r.Body != http.NoBody {
		return refuse(r.URL.Hostname(), "another host redirected what we send there")
	}
	kept := http.Header{}
	for _, name := range innocent {
		if v := r.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	r.Header = kept
	r.URL.User = nil
	return nil
}

func origin(u *url.URL) string { return u.Scheme + "://" + place(u) }
