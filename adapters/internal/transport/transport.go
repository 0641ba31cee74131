// Package transport builds the HTTP transport of one account. The transport
// detects dead peers, uses the account's proxy and does not follow redirects.
package transport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hermesd/internal/secret"
)

// New returns a transport for one account. It speaks HTTP/1.1 only, so that a
// dead connection affects only one request. Idle connections are closed early: a
// connection that died unnoticed makes the outcome of a send uncertain.
func New(proxy secret.Value) (*http.Transport, error) {
	choose, err := Proxy(proxy)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		Proxy:               choose,
		DialContext:         NewDialer().DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     45 * time.Second,
		MaxIdleConns:        128,
		MaxIdleConnsPerHost: 64,
		Protocols:           new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t, nil
}

// NewDialer returns a dialer whose connections detect dead peers by TCP
// keep-alive.
func NewDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

// Proxy returns the function that selects the proxy of a request: the given
// proxy, or the one of the environment if it is empty. The error does not
// contain the proxy, which may include a password.
func Proxy(proxy secret.Value) (func(*http.Request) (*url.URL, error), error) {
	if proxy == "" {
		return http.ProxyFromEnvironment, nil
	}
	u, err := url.Parse(proxy.Reveal())
	if err != nil {
		return nil, errors.New("proxy: not a URL")
	}
	return http.ProxyURL(u), nil
}

// NoRedirect is a CheckRedirect function that prevents a request and its token
// from being sent to another address: the caller gets the redirect response
// itself.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// CheckURL returns an error, written for the operator, unless s is a URL with a
// host and one of the schemes. The error does not contain s.
func CheckURL(s string, schemes ...string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return errors.New("must be a URL with a host")
	case !slices.Contains(schemes, u.Scheme):
		return fmt.Errorf("must begin with %s://", strings.Join(schemes, ":// or "))
	}
	return nil
}

// CheckProxy returns an error, written for the operator, if New and Proxy cannot
// use proxy. An empty proxy is valid and means that of the environment.
func CheckProxy(proxy secret.Value) error {
	if proxy != "" && CheckURL(proxy.Reveal(), "http", "https", "socks5", "socks5h") != nil {
		return errors.New("proxy: must be an http, https or socks5 URL with a host")
	}
	return nil
}
