// Package safehttp creates HTTP clients that reach only the public internet, for requests
// on behalf of users and models (protection against SSRF). The address is checked when a
// connection is made, after name resolution, so DNS rebinding does not bypass the check,
// and again for each redirect.
//
// Addresses in Options.Allow are also reachable. A client with such a list must be used
// only for its purpose (a platform's own server); addresses chosen by users or models
// need a client without.
package safehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrRefused is wrapped by the error of a request that is not allowed. It is permanent.
var ErrRefused = errors.New("not a place to fetch from")

func refusedError(host, why string) error { return fmt.Errorf("%q is %w: %s", host, ErrRefused, why) }

// Options configures a client. The zero value means the defaults.
type Options struct {
	// Allow lists host:port pairs, in exactly the form used in requests, that are
	// reachable although they are not public. They are reached directly, not through
	// the proxy, and not by a redirect from another host.
	Allow []string
	// Proxy, if set, is used for all other requests: an http, https, socks5 or
	// socks5h URL. The proxy resolves names, so only the names are checked.
	Proxy *url.URL
	// Environment uses the proxy in HTTP_PROXY, HTTPS_PROXY and NO_PROXY, unless Proxy
	// is set. The variables are read once per process.
	Environment bool
	// Timeout limits a request including its body; 0: 5 minutes.
	Timeout time.Duration
	// Connect limits connecting and TLS handshake; 0: 15 seconds. The wait for the
	// response header has the same limit, but at least 30 seconds.
	Connect time.Duration
	// Idle is the maximum number of idle connections per host; 0: 8.
	Idle int
	// Resolver resolves names; nil: the default resolver.
	Resolver *net.Resolver
}

// Validate returns an error, for the operator, that describes the invalid option.
func (o Options) Validate() error {
	for _, a := range o.Allow {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" || strings.ContainsAny(host, "*/@ ") {
			return fmt.Errorf("allowed address %q: write host:port, such as 127.0.0.1:8081", a)
		}
	}
	if o.Proxy == nil {
		return nil
	}
	switch o.Proxy.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return fmt.Errorf("proxy %q: the scheme is none of http, https, socks5, socks5h", o.Proxy.Redacted())
	}
	if o.Proxy.Hostname() == "" {
		return fmt.Errorf("proxy %q: there is no host in it", o.Proxy.Redacted())
	}
	return nil
}

// New returns a client as described in the package comment. If the options are invalid
// each request fails with the error of Validate. The client is safe for concurrent use;
// CloseIdleConnections closes its idle connections.
func New(o Options) *http.Client {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Connect <= 0 {
		o.Connect = 15 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 8
	}
	g := &guard{invalid: o.Validate(), allow: map[string]bool{}, proxy: o.proxyFunc()}
	for _, a := range o.Allow {
		g.allow[canonical(net.SplitHostPort(a))] = true
	}
	free := &net.Dialer{Timeout: o.Connect, Resolver: o.Resolver}
	checked := &net.Dialer{Timeout: o.Connect, Resolver: o.Resolver, ControlContext: control}
	g.direct = o.transport(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if g.allow[canonical(net.SplitHostPort(addr))] {
			return free.DialContext(ctx, network, addr)
		}
		return checked.DialContext(ctx, network, addr)
	})
	g.proxied = o.transport(free.DialContext) // dials only the proxy
	g.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return g.proxy(r.URL) }
	return &http.Client{Transport: g, Timeout: o.Timeout, CheckRedirect: g.redirect}
}

func (o Options) proxyFunc() func(*url.URL) (*url.URL, error) {
	switch {
	case o.Proxy != nil:
		return func(*url.URL) (*url.URL, error) { return o.Proxy, nil }
	case o.Environment:
		return func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) }
	}
	return func(*url.URL) (*url.URL, error) { return nil, nil }
}

func (o Options) transport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    o.Connect,
		ResponseHeaderTimeout:  max(o.Connect, 30*time.Second),
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        time.Minute,
		MaxIdleConnsPerHost:    o.Idle,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// control rejects a connection if its address is not public. It is called before the
// connection is made.
func control(_ context.Context, network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return refusedError(address, "it is not an address of the public internet")
	}
	if !Public(ap.Addr()) {
		return refusedError(ap.Addr().String(), "it is not an address of the public internet")
	}
	return nil
}

// canonical returns the form in which host and port are compared, or "" if err is set.
func canonical(host, port string, err error) string {
	if err != nil {
		return ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	return net.JoinHostPort(host, port)
}

// TooLarge is the error for a file above the limit.
type TooLarge struct {
	Limit int64 // bytes
	Size  int64 // bytes; 0 if unknown
}

func (e *TooLarge) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("the file is larger than the %s that can be taken", Size(e.Limit))
	}
	return fmt.Sprintf("the file has %s and at most %s can be taken", Size(e.Size), Size(e.Limit))
}

// Size formats a number of bytes for users, rounded down.
func Size(n int64) string {
	unit, name := int64(1), "bytes"
	switch {
	case n >= 1<<30:
		unit, name = 1<<30, "GB"
	case n >= 1<<20:
		unit, name = 1<<20, "MB"
	case n >= 1<<10:
		unit, name = 1<<10, "KB"
	}
	s := strconv.FormatInt(n/unit, 10)
	if tenth := n % unit * 10 / unit; tenth > 0 && n/unit < 100 {
		s += "." + strconv.FormatInt(tenth, 10)
	}
	return s + " " + name
}

// Copy copies the body of a response to w, at most limit bytes, closes it and returns the
// number of bytes written. A response without success status and a body above the limit
// are errors with a text for users; the latter wraps a *TooLarge. After an error w may
// contain the beginning of the body.
func Copy(w io.Writer, resp *http.Response, limit int64) (n int64, err error) {
	defer func() { _ = resp.Body.Close() }() // read only; an error does not matter
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if resp.ContentLength > limit {
		return 0, &TooLarge{Limit: limit, Size: resp.ContentLength}
	}
	n, err = io.Copy(w, io.LimitReader(resp.Body, limit))
	if err != nil {
		return n, fmt.Errorf("receive the file: %w", err)
	}
	if n < limit {
		return n, nil
	}
	switch more, err := io.CopyN(io.Discard, resp.Body, 1); {
	case more > 0:
		return n, &TooLarge{Limit: limit}
	case err != io.EOF:
		return n, fmt.Errorf("receive the file: %w", err)
	}
	return n, nil
}

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
