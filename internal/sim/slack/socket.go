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

// A Reason is why an app is told to leave a socket.
type Reason string

// The reasons of disconnect messages.
const (
	Warning      Reason = "warning"           // the socket ends soon
	Refresh      Reason = "refresh_requested" // the server behind it is replaced
	LinkDisabled Reason = "link_disabled"     // Socket Mode is turned off
	TooMany      Reason = "too_many_websockets"
)

// maxFrame is the size from which Slack does not look at what an app sends.
const maxFrame = 20 << 10

// socket is one connection of an app.
type socket struct {
	app  *App
	n    int
	conn *websocket.Conn
	life time.Duration
	wake chan struct{} // out, leaving or cut changed
	rec  *Link         // guarded by the ledger

	// s.mu guards what follows.
	out     [][]byte
	silent  bool // a black hole: nothing goes out, nothing is heard
	leaving bool // was told to disconnect
	ended   string
}

// serveSocket upgrades a request with a ticket and serves the socket until it
// ends.
func (s *Server) serveSocket(life context.Context, w http.ResponseWriter, r *http.Request) {
	app, full := s.useTicket(r.URL.Query())
	if app == nil {
		http.Error(w, "invalid ticket", http.StatusForbidden)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // it has been answered
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
		_ = conn.Close() // the app has been served: the server is closed
		return
	}
	read := make(chan struct{})
	go func() { // awaited below
		defer close(read)
		k.read()
	}()
	k.run(life, read)
	_ = conn.Close() // ends read; closing twice is harmless
	<-read
	s.closeSocket(k)
}

// useTicket takes a ticket, which is good for one socket; full says that the
// app has too many.
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
	s.ledger.opened(k.rec, len(a.sockets))
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
	s.ledger.note(func(c *Counts) {
		c.Open--
		k.rec.Closed, k.rec.Why = time.Now(), why
	})
}

// queueLocked sends a frame when the ones before it are gone.
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

// endLocked ends the socket without a word.
func (k *socket) endLocked(why string) {
	if k.ended == "" {
		k.ended = why
	}
	k.signal()
}

// run writes what is queued, pings, and tells the app to leave when the time
// has come. It returns when the socket is to be closed.
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
			k.leaveLocked(Warning)
			s.mu.Unlock()
		case now := <-ping.C:
			if !silent {
				_ = k.conn.WriteControl(websocket.PingMessage, []byte("Ping from applink"), now.Add(writeWithin)) // read finds out
			}
		}
	}
}

const (
	writeWithin   = 10 * time.Second
	endedByServer = "disconnected by the server"
)

// write sends a frame; a socket that is broken is found by its reader.
func (k *socket) write(frame []byte) {
	_ = k.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if err := k.conn.WriteMessage(websocket.TextMessage, frame); err != nil {
		_ = k.conn.Close() // ends the reader, and with it the socket
	}
}

// bye closes the socket as a server does that has said so.
func (k *socket) bye() {
	_ = k.conn.WriteControl(websocket.CloseMessage,
		websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(writeWithin))
	_ = k.conn.Close()
}

// read takes what the app sends until the socket ends.
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

// expectLocked sets the time by which the app must be heard of. A black hole
// waits for ever.
func (k *socket) expectLocked() {
	until := time.Time{}
	if !k.silent {
		until = time.Now().Add(3 * k.app.s.opts.PingEvery)
	}
	_ = k.conn.SetReadDeadline(until) // fails only if it is closed, and then reading does
}

// leaveLocked tells the app to disconnect and closes the socket after the
// grace.
func (k *socket) leaveLocked(why Reason) {
	if k.leaving {
		return
	}
	k.leaving = true
	k.queueLocked(disconnectFrame(why))
	k.app.s.afterLocked(k.app.s.opts.Grace, func() { k.endLocked(endedByServer) })
}

func disconnectFrame(why Reason) []byte {
	return encode(obj{"type": "disconnect", "reason": why, "debug_info": obj{"host": "applink"}})
}

// Disconnect tells every open socket of the app to leave, as Slack does many
// times a day. They are closed after Options.Grace; until then they are used
// only while there is no other.
func (a *App) Disconnect(why Reason) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.leaveLocked(why)
	}
}

// Cut ends every open socket of the app without a word and returns how many
// there were.
func (a *App) Cut() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.endLocked("cut")
	}
	return len(a.sockets)
}

// Swallow makes black holes of all open sockets: they stay connected, but no
// ping and no envelope leaves them, and nothing that the app says is heard.
// Events still go there, and are lost there. Sockets opened later are sound.
func (a *App) Swallow() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.silent, k.out = true, nil
		k.expectLocked()
	}
	return len(a.sockets)
}

// SwallowNext makes black holes of the next n sockets: they open, and not even
// the hello comes.
func (a *App) SwallowNext(n int) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.holes = n
}

// Open is how many sockets of the app are open.
func (a *App) Open() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return len(a.sockets)
}

// SendRaw puts a frame of any content into every open socket of the app.
func (a *App) SendRaw(frame string) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, k := range a.sockets {
		k.queueLocked([]byte(frame))
	}
}

// pickLocked chooses the socket for an envelope: any that was not told to
// leave, else any.
func (a *App) pickLocked() *socket {
	var open []*socket
	for _, k := range a.sockets {
		if k.ended == "" && !k.leaving {
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

// encode writes JSON that cannot fail.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("slack: encode: %v", err))
	}
	return raw
}

// obj is a JSON object under construction.
type obj map[string]any

// connectionsOpen is apps.connections.open.
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

// ticketLife is how long the URL of a socket can be used. Slack says only that
// it is temporary.
const ticketLife = time.Minute
