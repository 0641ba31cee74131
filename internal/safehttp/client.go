// Package safehttp makes the HTTP clients with which the daemon fetches things on
// behalf of people and models. They reach the public internet and nothing else:
// the address is checked on the connection that is being made, after the name
// was resolved, so a name that changes its mind does not help; and again on each
// redirect.
//
// What the operator lists in Options.Allow is reachable besides. A client with
// such a list belongs to the one purpose it was made for (a platform's own
// server); addresses that people and models choose go through one without.
package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// ErrRefused is wrapped by the error of a request that may not be made. Trying
// it again is of no use.
var ErrRefused = errors.New("not a place to fetch from")

func refuse(host, why string) error { return fmt.Errorf("%q is %w: %s", host, ErrRefused, why) }

// Options say how a client behaves. The zero value is a good choice.
type Options struct {
	// Allow lists places as host:port, in exactly the form in which requests
	// name them, that are reachable although they are not public. They are
	// reached directly, and only by a request, not by a redirect from elsewhere.
	Allow []string
	// Proxy, if set, carries all other requests: an http, https, socks5 or
	// socks5h URL. The proxy resolves the names, so these are checked by
	// themselves only.
	Proxy *url.URL
	// Environment takes the proxy from HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as
	// they were when the process first asked, unless Proxy is set.
	Environment bool
	// Timeout bounds a whole request with its body; 0 is 5 minutes.
	Timeout time.Duration
	// Connect bounds the connecting, and the wait for the first line of an
	// answer; 0 is 15 seconds.
	Connect time.Duration
	// Idle is how many idle connections are kept for each host; 0 is 8.
	Idle int
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
}

// Validate says what is wrong with the options, in the operator's words.
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

// New returns a client that behaves as the package says. If the options are not
// valid each request fails with what Validate says. The client is safe for use
// from any goroutine; its CloseIdleConnections ends what it keeps open.
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
	g := &guard{invalid: o.Validate(), allow: map[string]bool{}, proxy: o.choice()}
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
	g.proxied = o.transport(free.DialContext) // dials nothing but the proxy
	g.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return g.proxy(r.URL) }
	return &http.Client{Transport: g, Timeout: o.Timeout, CheckRedirect: g.redirect}
}

// choice returns the function that says which proxy a URL goes through.
func (o Options) choice() func(*url.URL) (*url.URL, error) {
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

// control refuses a connection by the address to which it is about to be made.
func control(_ context.Context, network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return refuse(address, "it is not an address of the public internet")
	}
	if !Public(ap.Addr()) {
		return refuse(ap.Addr().String(), "it is not an address of the public internet")
	}
	return nil
}

// canonical returns the one form in which a place is compared, or "".
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
