package web

import (
	"fmt"
	"net/http"
	"strings"
)

// blocking returns c so that it makes no request to one of the blocked domains, neither
// at first nor after a redirect.
func blocking(c *http.Client, blocked []string) *http.Client {
	if len(blocked) == 0 {
		return c
	}
	limited := *c
	limited.Transport = blocker{limited.Transport, blocked}
	return &limited
}

// A blocker refuses requests to the blocked domains.
type blocker struct {
	next    http.RoundTripper
	blocked []string
}

// RoundTrip implements http.RoundTripper.
func (b blocker) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, domain := range b.blocked {
		if inDomain(r.URL.Hostname(), domain) {
			return nil, fmt.Errorf("the operator does not allow pages of %s (security.website_blocklist)", domain)
		}
	}
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(r)
}

// CloseIdleConnections closes those of the next transport.
func (b blocker) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// inDomain reports whether host is domain or below it. domain may be written with *. or
// as a URL.
func inDomain(host, domain string) bool {
	_, rest, found := strings.Cut(domain, "://")
	if !found {
		rest = domain
	}
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest, "]") {
		rest = rest[:i]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	bare, below := strings.CutPrefix(strings.Trim(strings.ToLower(rest), ". "), "*.")
	bare = strings.TrimPrefix(bare, "www.")
	return bare != "" && (host == bare && !below || strings.HasSuffix(host, "."+bare))
}
