package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/proxy"

	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// maxAnswer limits how many bytes of one answer are read.
const maxAnswer = 32 << 20

// A note records what is known about one call. Only joined may be read before
// the call has ended.
type note struct {
	bucket string
	file   *Upload
	json   []byte // the JSON part of an upload

	joined atomic.Bool // the request was given a connection
	local  *Error      // why the call was not made
	status int
	header http.Header
	body   []byte
	whole  bool // the body was read to its end
	err    error
}

type noteKey struct{}

// A carrier is the transport of all calls of an account, including the library's
// own.
type carrier struct {
	base   *url.URL
	rt     http.RoundTripper
	limits *limits
}

func (t *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := r.Context().Value(noteKey{}).(*note)
	if n == nil {
		n = &note{}
	}
	if e := t.limits.closed(n.bucket, time.Now()); e != nil {
		n.local = e
		return nil, e
	}
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { n.joined.Store(true) },
	}))
	t.direct(r)
	if n.file != nil {
		if err := n.file.into(r, n.json); err != nil {
			n.err = err
			return nil, err
		}
	}
	resp, err := t.rt.RoundTrip(r)
	if err != nil {
		n.err = err
		return nil, err
	}
	defer resp.Body.Close()
	n.status, n.header = resp.StatusCode, resp.Header
	n.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if n.whole = err == nil; !n.whole {
		n.err = err
		return nil, err
	}
	t.limits.learn(n, time.Now())
	// The library handles rate limits by sleeping, so their headers are removed.
	header := http.Header{"Content-Type": resp.Header.Values("Content-Type")}
	return &http.Response{
		Status: resp.Status, StatusCode: resp.StatusCode, Proto: resp.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(n.body)), ContentLength: int64(len(n.body)), Request: r,
	}, nil
}

// direct redirects a request of the library, which knows only one server, to the
// account's server.
func (t *carrier) direct(r *http.Request) {
	if r.Host == "discord.com" || r.URL.Host == "discord.com" {
		r.URL.Scheme, r.URL.Host, r.Host = t.base.Scheme, t.base.Host, t.base.Host
		r.URL.Path = strings.TrimRight(t.base.Path, "/") + r.URL.Path
	}
}

// An Upload is a file that is sent with a call.
type Upload struct {
	Name string
	Data io.Reader
	Size int64
}

// border separates the parts of an upload. A file may contain it: only a line
// that equals it would be a problem, which is practically impossible.
const border = "hermesd-7f3c1d0a95b84e62b1a6c2f09d3e57a4"

// into makes the file and its JSON part the body of r.
func (u *Upload) into(r *http.Request, json []byte) error {
	head := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"payload_json\"\r\nContent-Type: application/json\r\n\r\n%s\r\n"+
		"--%s\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"%s\"\r\nContent-Type: application/octet-stream\r\n\r\n",
		border, json, border, u.Name)
	tail := "\r\n--" + border + "--\r\n"
	if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return err
		}
	}
	r.ContentLength = int64(len(head)) + u.Size + int64(len(tail))
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(head), io.LimitReader(u.Data, u.Size), strings.NewReader(tail)))
	r.GetBody = nil // the file can be read only once
	return nil
}

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
