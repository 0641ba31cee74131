package discord

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Codes with which the gateway closes connections.
const (
	CloseUnknownError      = 4000
	CloseUnknownOpcode     = 4001
	CloseDecodeError       = 4002
	CloseNotAuthenticated  = 4003
	CloseBadToken          = 4004
	CloseAlreadyIdentified = 4005
	CloseInvalidSeq        = 4007
	CloseRateLimited       = 4008
	CloseSessionTimedOut   = 4009
	CloseInvalidShard      = 4010
	CloseShardingRequired  = 4011
	CloseInvalidVersion    = 4012
	CloseInvalidIntents    = 4013
	CloseDisallowedIntents = 4014
)

// A frame is a payload for a client, or a close frame.
type frame struct {
	data  []byte
	offer *Offer
	code  int
	text  string
}

// A conn is one connection to the gateway.
type conn struct {
	s    *Server
	ws   *websocket.Conn
	host string
	wake chan struct{} // signals that queue is not empty
	done chan struct{} // the reader has ended

	// s.mu guards the fields below.
	queue    []frame
	session  *session
	hole     bool // black hole: nothing is sent or received
	ended    bool // a close frame is in queue
	commands []time.Time
}

// A payload is a gateway payload.
type payload struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int            `json:"s"`
	Type *string         `json:"t"`
}

const maxCommand = 4096 // maximum size of a client's payload in bytes

// serveGateway serves one connection until it closes.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	ws.SetCloseHandler(func(int, string) error { return nil }) // close frames are not answered, see linger
	c := &conn{s: s, ws: ws, host: r.Host, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.mu.Lock()
	refused := s.closed || lifeOf(r.Context(), s.ctx).Err() != nil
	if !refused {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if refused {
		_ = ws.Close() // no writer or reader uses it
		return
	}
	s.recorder.note(func(n *Counts) { n.Connects++ })
	written := make(chan struct{})
	go func() { // this function waits for it below
		defer close(written)
		c.write()
	}()
	if v := r.URL.Query().Get("v"); v != "9" && v != "10" {
		c.close(CloseInvalidVersion, "Invalid API version.")
	} else {
		c.send(10, obj{"heartbeat_interval": s.opts.HeartbeatInterval.Milliseconds(), "_trace": []string{}})
	}
	c.linger(c.read())
	close(c.done)
	<-written
	_ = ws.Close() // the client notices the end of the connection in any case
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	c.detachLocked()
}

// detachLocked detaches the connection from its session, which can then be
// resumed.
func (c *conn) detachLocked() {
	if c.session != nil && c.session.conn == c {
		c.session.conn, c.session.left = nil, time.Now()
	}
	c.session = nil
}

// write sends queued frames to the client.
func (c *conn) write() {
	for {
		c.s.mu.Lock()
		queue, hole := c.queue, c.hole
		c.queue = nil
		c.s.mu.Unlock()
		for _, f := range queue {
			if hole || !c.writeOne(f) {
				break
			}
		}
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
	}
}

// writeOne writes a frame and reports whether the connection is still open.
func (c *conn) writeOne(f frame) bool {
	_ = c.ws.SetWriteDeadline(time.Now().Add(30 * time.Second)) // an error shows at the next write
	if f.code != 0 {
		c.s.recorder.note(func(n *Counts) { n.Closes[f.code]++ })
		_ = c.ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(f.code, f.text))
		_ = c.ws.Close() // ends the reader
		return false
	}
	if f.offer != nil {
		c.s.recorder.delivered(f.offer, 1) // recorded before the client can acknowledge the event
	}
	if c.ws.WriteMessage(websocket.TextMessage, f.data) == nil {
		return true
	}
	if f.offer != nil {
		c.s.recorder.delivered(f.offer, -1)
	}
	_ = c.ws.Close() // ends the reader
	return false
}

// queueLocked queues a frame, unless the connection has already ended.
func (c *conn) queueLocked(f frame) {
	if c.ended {
		return
	}
	c.ended = f.code != 0
	c.queue = append(c.queue, f)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) send(op int, data any) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.sendLocked(op, data)
}

func (c *conn) sendLocked(op int, data any) {
	c.queueLocked(frame{data: encode(obj{"op": op, "d": data, "s": nil, "t": nil})})
}

func (c *conn) close(code int, text string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.closeLocked(code, text)
}

// closeLocked closes the connection. A code after which a client must not
// resume ends its session too.
func (c *conn) closeLocked(code int, text string) {
	if c.session != nil && (code == CloseInvalidSeq || code == CloseSessionTimedOut) {
		delete(c.s.sessions, c.session.id)
	}
	c.queueLocked(frame{code: code, text: text})
}

// beatLocked extends the read deadline to two heartbeat intervals.
func (c *conn) beatLocked() {
	deadline := time.Now().Add(2 * c.s.opts.HeartbeatInterval)
	if c.hole {
		deadline = time.Time{} // a black hole stays open
	}
	_ = c.ws.SetReadDeadline(deadline) // an error shows at the next read
}

// read handles the payloads of the client until the connection closes, and
// returns the reason.
func (c *conn) read() error {
	c.s.mu.Lock()
	c.beatLocked()
	c.s.mu.Unlock()
	for {
		_, raw, err := c.ws.ReadMessage()
		if err != nil {
			c.readEnded(err)
			return err
		}
		c.s.mu.Lock()
		hole := c.hole
		c.s.mu.Unlock()
		if hole {
			continue
		}
		var p payload
		switch err := json.Unmarshal(raw, &p); {
		case len(raw) > maxCommand, err != nil:
			c.close(CloseDecodeError, "Error while decoding payload.")
		default:
			c.handle(p)
		}
	}
}

// linger gives a client that has sent a close frame some time to close the
// connection itself. Otherwise a client that sleeps while it holds a lock after
// its close frame (discordgo does) would stop the clock of a synctest bubble:
// its reader would wait for the lock.
func (c *conn) linger(err error) {
	var bye *websocket.CloseError
	if !errors.As(err, &bye) || bye.Code == websocket.CloseAbnormalClosure {
		return
	}
	_ = c.ws.SetReadDeadline(time.Now().Add(5 * time.Second)) // an error shows at the next read
	_, _ = io.Copy(io.Discard, c.ws.NetConn())                // until the client closes the connection
}

// readEnded handles the end of the reader: a close by the client with 1000 or
// 1001 ends the session, and a client without heartbeats gets a close frame;
// otherwise the session can be resumed.
func (c *conn) readEnded(err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	defer c.detachLocked()
	bye := websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway)
	if bye && c.session != nil && !c.ended { // otherwise it answers the server's own close frame
		delete(c.s.sessions, c.session.id)
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() && !c.ended {
		c.closeLocked(CloseSessionTimedOut, "Session timed out.")
		c.queue = nil // the writer may not get to it
		c.s.recorder.note(func(n *Counts) { n.Closes[CloseSessionTimedOut]++ })
		end := websocket.FormatCloseMessage(CloseSessionTimedOut, "Session timed out.")
		_ = c.ws.WriteControl(websocket.CloseMessage, end, time.Now().Add(time.Second)) // the connection may be broken
	}
}

// handle executes a payload of the client.
func (c *conn) handle(p payload) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	now := time.Now()
	for len(c.commands) > 0 && now.Sub(c.commands[0]) > time.Minute {
		c.commands = c.commands[1:]
	}
	if c.commands = append(c.commands, now); len(c.commands) > 120 {
		c.closeLocked(CloseRateLimited, "Rate limited.")
		return
	}
	switch p.Op {
	case 1:
		c.heartbeatLocked(p.Data)
	case 2:
		c.identifyLocked(p.Data)
	case 6:
		c.resumeLocked(p.Data)
	case 3, 4, 8: // presence, voice state and members are accepted without effect
		if c.session == nil {
			c.closeLocked(CloseNotAuthenticated, "Not authenticated.")
		}
	default:
		c.closeLocked(CloseUnknownOpcode, "Unknown opcode.")
	}
}

func (c *conn) heartbeatLocked(data json.RawMessage) {
	c.s.recorder.note(func(n *Counts) { n.Heartbeats++ })
	c.beatLocked()
	var seq int
	if json.Unmarshal(data, &seq) == nil && c.session != nil {
		if seq > c.session.seq {
			c.closeLocked(CloseInvalidSeq, "Invalid seq.")
			return
		}
		c.session.ackLocked(seq)
	}
	c.sendLocked(11, nil)
}

// An identify is the payload that starts a session.
type identify struct {
	Token   string  `json:"token"`
	Intents *int    `json:"intents"`
	Shard   *[2]int `json:"shard"`
}

func (c *conn) identifyLocked(data json.RawMessage) {
	var id identify
	if json.Unmarshal(data, &id) != nil {
		c.closeLocked(CloseDecodeError, "Error while decoding payload.")
		return
	}
	bot := c.s.bots[strings.TrimPrefix(id.Token, "Bot ")]
	switch {
	case c.session != nil:
		c.closeLocked(CloseAlreadyIdentified, "Already authenticated.")
	case bot == nil:
		c.closeLocked(CloseBadToken, "Authentication failed.")
	case id.Intents == nil, *id.Intents < 0, Intent(*id.Intents)&^allIntents != 0:
		c.closeLocked(CloseInvalidIntents, "Invalid intent(s).")
	case Intent(*id.Intents)&bot.denied != 0:
		c.closeLocked(CloseDisallowedIntents, "Disallowed intent(s).")
	case id.Shard != nil && (id.Shard[0] < 0 || id.Shard[0] >= id.Shard[1]):
		c.closeLocked(CloseInvalidShard, "Invalid shard.")
	case !bot.startLocked():
		c.s.resetTokenLocked(bot)
		c.closeLocked(CloseBadToken, "Authentication failed.")
	case c.s.opts.IdentifyEvery > 0 && time.Since(bot.identified) < c.s.opts.IdentifyEvery:
		c.sendLocked(9, false)
	default:
		bot.identified = time.Now()
		c.s.recorder.note(func(n *Counts) { n.Identifies++ })
		c.beginLocked(bot, Intent(*id.Intents))
	}
}

// A resume is the payload that continues a session.
type resume struct {
	Token   string `json:"token"`
	Session string `json:"session_id"`
	Seq     int    `json:"seq"`
}

func (c *conn) resumeLocked(data json.RawMessage) {
	var r resume
	if json.Unmarshal(data, &r) != nil {
		c.closeLocked(CloseDecodeError, "Error while decoding payload.")
		return
	}
	bot := c.s.bots[strings.TrimPrefix(r.Token, "Bot ")]
	ss := c.s.sessions[r.Session]
	switch {
	case c.session != nil:
		c.closeLocked(CloseAlreadyIdentified, "Already authenticated.")
	case bot == nil:
		c.closeLocked(CloseBadToken, "Authentication failed.")
	case ss == nil || ss.bot != bot || !ss.aliveLocked() || !ss.reachesLocked(r.Seq):
		c.sendLocked(9, false)
	case r.Seq > ss.seq:
		c.closeLocked(CloseInvalidSeq, "Invalid seq.")
	default:
		ss.attachLocked(c, r.Seq)
	}
}
