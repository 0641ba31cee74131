package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

// A Reason is the reason of a disconnect message.
type Reason string

// Reasons of disconnect messages.
const (
	Warning      Reason = "warning"           // the socket ends soon
	Refresh      Reason = "refresh_requested" // the server behind it is replaced
	LinkDisabled Reason = "link_disabled"     // Socket Mode was turned off
	TooMany      Reason = "too_many_websockets"
)

// maxFrame is the size in bytes from which Slack ignores a frame of an app.
const maxFrame = 20 << 10

// A socket is one connection of an app.
type socket struct {
	app  *App
	n    int
	conn *websocket.Conn
	life time.Duration
	wake chan struct{} // signals a change of out, disconnecting or cut
	rec  *Link         // the lock of the recorder guards its fields

	// s.mu guards the fields below.
	out           [][]byte
	silent        bool // a black hole: nothing is sent and received frames are ignored
	disconnecting bool // a disconnect message was sent
	ended         string
}

// serveSocket upgrades a request with a ticket and serves the socket until it
// closes.
func (s *Server) serveSocket(life context.Context, w http.ResponseWriter, r *http.Request) {
	app, full := s.useTicket(r.URL.Query())
	if app == nil {
		http.Error(w, "invalid ticket", http.StatusForbidden)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered the request
	}
	k := &socket{app: app, conn: conn, life: s.opts.ConnectionLife, wake: make(chan struct{}, 1)}
	if r.URL.Query().Get("debug_reconnects") == "true" {
		k.life = 360 * time.Second
	}
	if full {
		k.write(disconnectFrame(TooMany))
		k.bye()
		return
	}
	if !s.openSocket(k) {
		_ = conn.Close() // the connection was accepted while the server closed
		return
	}
	read := make(chan struct{})
	go func() { // this function waits for it below
		defer close(read)
		k.read()
	}()
	k.run(life, read)
	_ = conn.Close() // ends read; closing twice is harmless
	<-read
	s.closeSocket(k)
}

// useTicket consumes a ticket, which is valid for one socket; full reports that
// the app has too many sockets.
func (s *Server) useTicket(q url.Values) (app *App, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		if a.tickets[q.Get("ticket")] {
			delete(a.tickets, q.Get("ticket"))
			return a, len(a.sockets) >= a.opts.MaxSockets
		}
	}
	return nil, false
}

func (s *Server) openSocket(k *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	a := k.app
	s.nextSock++
	k.n = s.nextSock
	a.sockets = append(a.sockets, k)
	if a.holes > 0 {
		a.holes--
		k.silent = true
	}
	k.rec = &Link{N: k.n, App: a.id, Opened: time.Now()}
	s.recorder.opened(k.rec, len(a.sockets))
	k.queueLocked(encode(obj{
		"type": "hello", "num_connections": len(a.sockets),
		"debug_info": obj{
			"host": fmt.Sprintf("applink-%d", k.n), "build_number": 1,
			"approximate_connection_time": int(k.life / time.Second),
		},
		"connection_info": obj{"app_id": a.id},
	}))
	return true
}

func (s *Server) closeSocket(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range k.app.sockets {
		if other == k {
			k.app.sockets = append(k.app.sockets[:i:i], k.app.sockets[i+1:]...)
			break
		}
	}
	if k.ended == "" {
		k.ended = "closed by the app"
	}
	why := k.ended
	s.recorder.note(func(c *Counts) {
		c.Open--
		k.rec.Closed, k.rec.Why = time.Now(), why
	})
}

// queueLocked queues a frame.
func (k *socket) queueLocked(frame []byte) {
	if !k.silent {
		k.out = append(k.out, frame)
	}
	k.signal()
}

func (k *socket) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// endLocked ends the socket without a close frame.
func (k *socket) endLocked(why string) {
	if k.ended == "" {
		k.ended = why
	}
	k.signal()
}

// run writes queued frames, sends pings, and sends the disconnect message when
// it is due. It returns when the socket must be closed.
func (k *socket) run(life context.Context, read <-chan struct{}) {
	s := k.app.s
	ping := time.NewTicker(s.opts.PingEvery)
	defer ping.Stop()
	age := time.NewTimer(k.life)
	defer age.Stop()
	for {
		s.mu.Lock()
		frames, silent, ended := k.out, k.silent, k.ended
		k.out = nil
		s.mu.Unlock()
		for _, f := range frames {
			k.write(f)
		}
		if ended != "" {
			if ended == endedByServer {
				k.bye()
			}
			return
		}
		select {
		case <-k.wake:
		case <-read:
			return
		case <-life.Done():
			s.mu.Lock()
			k.endLocked("server down")
			s.mu.Unlock()
			return
		case <-age.C:
			s.mu.Lock()
			k.disconnectLocked(Warning)
			s.mu.Unlock()
		case now := <-ping.C:
			if !silent {
				_ = k.conn.WriteControl(websocket.PingMessage, []byte("Ping from applink"), now.Add(writeWithin)) // read notices an error
			}
		}
	}
}

const (
	writeWithin   = 10 * time.Second
	endedByServer = "disconnected by the server"
)

// write sends a frame. The reader notices a broken connection.
func (k *socket) write(frame []byte) {
	_ = k.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if err := k.conn.WriteMessage(websocket.TextMessage, frame); err != nil {
		_ = k.conn.Close() // ends the reader, and with it the socket
	}
}

// bye closes the socket with a close frame.
func (k *socket) bye() {
	_ = k.conn.WriteControl(websocket.CloseMessage,
		websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(writeWithin))
	_ = k.conn.Close()
}

// read handles the frames of the app until the socket closes.
func (k *socket) read() {
	s := k.app.s
	heard := func(string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.expectLocked()
		return nil
	}
	_ = heard("")
	k.conn.SetPongHandler(heard)
	for {
		_, frame, err := k.conn.ReadMessage()
		if err != nil {
			return
		}
		_ = heard("")
		s.mu.Lock()
		if !k.silent {
			k.app.heardLocked(k, frame)
		}
		s.mu.Unlock()
	}
}

// expectLocked sets the read deadline for the next sign of life of the app. A
// black hole has none.
func (k *socket) expectLocked() {
	until := time.Time{}
	if !k.silent {
		until = time.Now().Add(3 * k.app.s.opts.PingEvery)
	}
	_ = k.conn.SetReadDeadline(until) // fails only on a closed connection, where reads fail too
}

// disconnectLocked sends a disconnect message and closes the socket after the grace
// period.
func (k *socket) disconnectLocked(why Reason) {
	if k.disconnecting {
		return
	}
	k.disconnecting = true
	k.queueLocked(disconnectFrame(why))
	k.app.s.afterLocked(k.app.s.opts.Grace, func() { k.endLocked(endedByServer) })
}

func disconnectFrame(why Reason) []byte {
	return encode(obj{"type": "disconnect", "reason": why, "debug_info": obj{"host": "applink"}})
}

// Disconnect sends a disconnect message to every open socket of the app, as
// Slack does many times a day. The sockets are closed after Options.Grace;
// until then they get envelopes only if there is no other socket.
func (a *App) Disconnect(why Reason) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.disconnectLocked(why)
	}
}

// Cut closes every open socket of the app without a close frame and returns how
// many there were.
func (a *App) Cut() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.endLocked("cut")
	}
	return len(a.sockets)
}

// Swallow turns all open sockets into black holes and returns how many there
// were: they stay connected, but no ping and no envelope is sent and frames of
// the app are ignored. Events are still assigned to them and get lost. Sockets
// that are opened later work normally.
func (a *App) Swallow() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.silent, k.out = true, nil
		k.expectLocked()
	}
	return len(a.sockets)
}

// SwallowNext turns the next n sockets into black holes: they open, but do not
// even send the hello.
func (a *App) SwallowNext(n int) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.holes = n
}

// Open returns the number of open sockets of the app.
func (a *App) Open() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return len(a.sockets)
}

// SendRaw sends a frame with any content on every open socket of the app.
func (a *App) SendRaw(frame string) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.queueLocked([]byte(frame))
	}
}

// pickLocked chooses the socket for an envelope: one without a disconnect
// message if there is one, else any.
func (a *App) pickLocked() *socket {
	var open []*socket
	for _, k := range a.sockets {
		if k.ended == "" && !k.disconnecting {
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		for _, k := range a.sockets {
			if k.ended == "" {
				open = append(open, k)
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	a.next++
	if a.s.opts.RandomSocket {
		return open[a.s.rand.IntN(len(open))]
	}
	return open[a.next%len(open)]
}

// encode encodes v as JSON, which cannot fail for the values of this package.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("slack: encode: %v", err))
	}
	return raw
}

// An obj is a JSON object.
type obj map[string]any

// connectionsOpen implements apps.connections.open.
func connectionsOpen(c *call) (obj, *apiError) {
	a := c.app
	if a.off {
		return nil, refuse("not_allowed")
	}
	c.s.nextID++
	ticket := fmt.Sprintf("%08x-%04x-4000-8000-%012x", int64(c.s.nextID)*2654435761%(1<<32), c.s.nextID%(1<<16), time.Now().UnixMicro()%(1<<48))
	a.tickets[ticket] = true
	c.s.afterLocked(ticketLife, func() { delete(a.tickets, ticket) })
	return obj{"url": "ws://" + c.host + linkPath + "?ticket=" + ticket + "&app_id=" + a.id}, nil
}

// ticketLife is how long the URL of a socket can be used. Slack documents only
// that it is temporary.
const ticketLife = time.Minute
