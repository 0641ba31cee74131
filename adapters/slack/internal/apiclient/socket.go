package apiclient

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"

	"hermesd/adapters/internal/transport"
)

// A Dial opens a connection. For a wss address it includes TLS.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A SocketOptions says how sockets are opened and who hears of what comes in on them.
type SocketOptions struct {
	// Socket opens the connection of a socket; nil: the network.
	Socket Dial
	Proxy  func(*http.Request) (*url.URL, error)
	// Alive is called whenever anything at all has come in.
	Alive func()
	// OnDisconnect is called when Slack asks to leave this socket, with its reason. The
	// library does not hear of it: it would hang up before there is another one.
	OnDisconnect func(reason string)
}

// Dialer returns the library's dialer for one socket. Behind a proxy the
// library itself hears Slack's wish to leave, and hangs up.
func (l SocketOptions) Dialer() *websocket.Dialer {
	d := &websocket.Dialer{
		HandshakeTimeout: 10 * time.Second,
		WriteBufferSize:  32 << 10, // Slack does not put continued frames together
	}
	if l.Socket != nil {
		open := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := l.Socket(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("open the socket: %w", err)
			}
			return &frameReader{Conn: c, line: l}, nil
		}
		d.NetDialContext, d.NetDialTLSContext = open, open
		return d
	}
	plain, proxied := transport.NewDialer().DialContext, l.proxied()
	d.NetDialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := plain(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("open the socket: %w", err)
		}
		return &frameReader{Conn: c, line: l, blind: proxied}, nil
	}
	if proxied { // the library puts TLS over what goes through the proxy
		d.Proxy = l.Proxy
		return d
	}
	d.NetDialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&tls.Dialer{NetDialer: transport.NewDialer(), Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("open the socket: %w", err)
		}
		return &frameReader{Conn: c, line: l}, nil
	}
	return d
}

// proxied reports whether Slack's sockets are reached through a proxy.
func (l SocketOptions) proxied() bool {
	if l.Proxy == nil {
		return false
	}
	u, err := l.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "wss-primary.slack.com"}})
	return err != nil || u != nil
}

// maxHeld is the largest frame that is looked into. Slack's wish to leave is a
// few hundred bytes.
const maxHeld = 8 << 10

// A frameReader is a connection that reads along: the websocket frames that come in
// pass through it, but for Slack's wish to leave.
type frameReader struct {
	net.Conn
	line  SocketOptions
	blind bool // what passes is not ours to read

	begun bool   // the answer to the handshake has passed
	in    []byte // not yet understood
	out   []byte // to be read
	pass  uint64 // bytes of a frame that pass unread
	err   error
}

// Read implements net.Conn.
func (l *frameReader) Read(p []byte) (int, error) {
	if l.blind {
		n, err := l.Conn.Read(p)
		if n > 0 {
			l.line.Alive()
		}
		return n, err //nolint:wrapcheck // a connection's own words
	}
	for len(l.out) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		buf := make([]byte, 4<<10)
		var n int
		n, l.err = l.Conn.Read(buf)
		if n > 0 {
			l.line.Alive()
			l.in = append(l.in, buf[:n]...)
			l.sort()
		}
		if l.err != nil { // what is half said is the library's to judge
			l.out, l.in = append(l.out, l.in...), nil
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// sort moves what is understood from in to out.
func (l *frameReader) sort() {
	for len(l.in) > 0 {
		if !l.begun {
			end := headerEnd(l.in)
			if end == 0 {
				return
			}
			l.begun = true
			l.forward(end)
			continue
		}
		if l.pass > 0 {
			n := min(l.pass, uint64(len(l.in)))
			l.pass -= n
			l.forward(int(n))
			continue
		}
		head, size, ok := frame(l.in)
		switch {
		case !ok:
			return
		case l.in[0] != finalText || size > maxHeld:
			l.forward(head)
			l.pass = size
		case uint64(len(l.in)) < uint64(head)+size:
			return
		default:
			whole := head + int(size)
			if reason, ok := leaving(l.in[head:whole]); ok {
				l.in = l.in[whole:]
				l.line.OnDisconnect(reason)
			} else {
				l.forward(whole)
			}
		}
	}
}

func (l *frameReader) forward(n int) {
	l.out = append(l.out, l.in[:n]...)
	l.in = l.in[n:]
}

// headerEnd returns where an HTTP header ends, 0 if it has not.
func headerEnd(b []byte) int {
	for i := 0; i+4 <= len(b); i++ {
		if string(b[i:i+4]) == "\r\n\r\n" {
			return i + 4
		}
	}
	return 0
}

// finalText is the first byte of a text message that is one frame.
const finalText = 0x81

// frame reads the head of a websocket frame: how long it is itself, and how
// long what follows.
func frame(b []byte) (head int, size uint64, ok bool) {
	if len(b) < 2 {
		return 0, 0, false
	}
	head = 2
	switch size = uint64(b[1] & 0x7f); size {
	case 126:
		head = 4
	case 127:
		head = 10
	}
	if b[1]&0x80 != 0 {
		head += 4 // a mask; no server sends one
	}
	if len(b) < head {
		return 0, 0, false
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(b[2:4]))
	case 127:
		size = binary.BigEndian.Uint64(b[2:10])
	}
	return head, size, true
}

// leaving reports whether a message is Slack's wish to leave, and why.
func leaving(b []byte) (reason string, ok bool) {
	var m struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(b, &m) != nil || m.Type != "disconnect" {
		return "", false
	}
	return m.Reason, true
}
