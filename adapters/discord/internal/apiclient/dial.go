package apiclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// A Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Through returns a Dial that uses a proxy: the given one, or that of the
// environment if p is empty.
func Through(p secret.Value) (Dial, error) {
	choose, err := transport.Proxy(p)
	if err != nil {
		return nil, err
	}
	direct := transport.NewDialer()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		u, err := choose(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
		switch {
		case err != nil:
			return nil, errors.New("proxy of the environment is not a URL")
		case u == nil:
			return direct.DialContext(ctx, network, address)
		case u.Scheme == "socks5" || u.Scheme == "socks5h":
			return socks(ctx, direct, u, address)
		}
		return tunnel(ctx, direct, u, address)
	}, nil
}

func socks(ctx context.Context, direct *net.Dialer, u *url.URL, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if u.User != nil {
		password, _ := u.User.Password()
		auth = &proxy.Auth{User: u.User.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", withPort(u, "1080"), auth, direct)
	if err != nil {
		return nil, err
	}
	return d.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
}

// tunnel opens a tunnel to address through an HTTP proxy.
func tunnel(ctx context.Context, direct *net.Dialer, u *url.URL, address string) (c net.Conn, err error) {
	if u.Scheme == "https" {
		d := &tls.Dialer{NetDialer: direct}
		c, err = d.DialContext(ctx, "tcp", withPort(u, "443"))
	} else {
		c, err = direct.DialContext(ctx, "tcp", withPort(u, "80"))
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if u.User != nil {
		password, _ := u.User.Password()
		auth := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+auth)
	}
	if err = req.Write(c); err == nil {
		err = tunnelled(c, req)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// tunnelled reads the proxy's answer. The remote end does not send first, so no
// data of it can follow the answer.
func tunnelled(c net.Conn, req *http.Request) error {
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return fmt.Errorf("read proxy response: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy responded %s", resp.Status)
	}
	return nil
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Secure returns a Dial that adds TLS to the connections of dial.
func Secure(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		t := tls.Client(c, &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		if err := t.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, err
		}
		return t, nil
	}
}
