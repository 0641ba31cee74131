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

// A SocketOptions defines how sockets are opened and which callbacks observe
// them.
type SocketOptions struct {
	// Socket opens the connection of a socket; nil means the network.
	Socket Dial
	Proxy  func(*http.Request) (*url.URL, error)
	// Alive is called whenever data was received.
	Alive func()
	// OnDisconnect is called with the reason when Slack asks to disconnect this
	// socket. The library does not receive the request: it would close the socket
	// before there is another one.
	OnDisconnect func(reason string)
}

// Dialer returns the library's dialer for one socket. Behind a proxy the frames
// cannot be read, so the library receives Slack's disconnect requests and closes
// the socket.
func (l SocketOptions) Dialer() *websocket.Dialer {
	d := &websocket.Dialer{
		HandshakeTimeout: 10 * time.Second,
		WriteBufferSize:  32 << 10, // Slack does not support fragmented messages
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
	if proxied { // the library adds TLS inside the proxy tunnel
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

// maxHeld is the size of the largest frame that is inspected. Slack's disconnect
// requests have a few hundred bytes.
const maxHeld = 8 << 10

// A frameReader is a connection whose received websocket frames are inspected.
// It passes all frames on except Slack's disconnect requests.
type frameReader struct {
	net.Conn
	line  SocketOptions
	blind bool // the data is not a websocket stream that can be inspected

	begun bool   // the answer to the handshake has passed
	in    []byte // not yet parsed
	out   []byte // ready to be read
	pass  uint64 // remaining bytes of a frame that is not inspected
	err   error
}

func (l *frameReader) Read(p []byte) (int, error) {
	if l.blind {
		n, err := l.Conn.Read(p)
		if n > 0 {
			l.line.Alive()
		}
		return n, err //nolint:wrapcheck // the connection's own error
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
		if l.err != nil { // the library handles incomplete data
			l.out, l.in = append(l.out, l.in...), nil
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// sort moves parsed data from in to out.
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

// finalText is the first byte of an unfragmented text message.
const finalText = 0x81

// frame parses the header of a websocket frame: its own length and the length of
// the payload.
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
		head += 4 // a mask; servers do not send one
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

// leaving reports whether a message is a disconnect request of Slack, and its
// reason.
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
