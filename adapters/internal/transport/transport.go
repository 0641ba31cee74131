// Package transport makes what carries the HTTP calls of one account: it notices
// dead peers, takes the account's proxy and follows nobody elsewhere.
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

// New returns a transport for one account: HTTP/1.1 only, so that a dead
// connection takes no other request with it. Idle connections are given up
// early: one that died unseen makes of a send an uncertain one.
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

// NewDialer returns a dialer that notices dead peers.
func NewDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

// Proxy returns which proxy a request goes through: the given one, else that of
// the environment. Its error does not show the proxy, which may hold a password.
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

// NoRedirect is a CheckRedirect that keeps a request and its token from being
// sent again to somewhere else: the answer is the redirection itself.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// CheckURL reports, in words for the operator, what keeps s from being a URL
// with a host and one of the schemes. The error does not show s.
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

// CheckProxy reports, in words for the operator, what keeps New and Proxy from
// working with a proxy. An empty one is that of the environment.
func CheckProxy(proxy secret.Value) error {
	if proxy != "" && CheckURL(proxy.Reveal(), "http", "https", "socks5", "socks5h") != nil {
		return errors.New("proxy: must be an http, https or socks5 URL with a host")
	}
	return nil
}
