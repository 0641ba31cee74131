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

// The codes with which the gateway closes connections.
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

// frame is something for a client: a payload, or the end.
type frame struct {
	data  []byte
	offer *Offer
	code  int
	text  string
}

// conn is one connection to the gateway.
type conn struct {
	s    *Server
	ws   *websocket.Conn
	host string
	wake chan struct{} // there is something in queue
	done chan struct{} // the reader has ended

	// s.mu guards what follows.
	queue    []frame
	session  *session
	hole     bool // carries nothing any more
	ended    bool // by a close frame that stands in the queue
	commands []time.Time
}

// payload is what travels on the gateway.
type payload struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int            `json:"s"`
	Type *string         `json:"t"`
}

const maxCommand = 4096 // bytes of a payload from the client

// serveGateway carries one connection until it ends.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	ws.SetCloseHandler(func(int, string) error { return nil }) // not answered: see linger
	c := &conn{s: s, ws: ws, host: r.Host, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.mu.Lock()
	refused := s.closed || lifeOf(r.Context(), s.ctx).Err() != nil
	if !refused {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if refused {
		_ = ws.Close() // nobody reads any more
		return
	}
	s.ledger.note(func(n *Counts) { n.Connects++ })
	written := make(chan struct{})
	go func() { // awaited below
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
	_ = ws.Close() // the other end sees it end, whatever came before
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	c.leaveLocked()
}

// leaveLocked takes the connection from its session, which waits for a resume.
func (c *conn) leaveLocked() {
	if c.session != nil && c.session.conn == c {
		c.session.conn, c.session.left = nil, time.Now()
	}
	c.session = nil
}

// write brings the queue to the client.
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

// writeOne reports whether the connection still stands.
func (c *conn) writeOne(f frame) bool {
	_ = c.ws.SetWriteDeadline(time.Now().Add(30 * time.Second)) // fails with the write
	if f.code != 0 {
		c.s.ledger.note(func(n *Counts) { n.Closes[f.code]++ })
		_ = c.ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(f.code, f.text))
		_ = c.ws.Close() // ends the reader
		return false
	}
	if f.offer != nil {
		c.s.ledger.delivered(f.offer, 1) // before the client can say that it has it
	}
	if c.ws.WriteMessage(websocket.TextMessage, f.data) == nil {
		return true
	}
	if f.offer != nil {
		c.s.ledger.delivered(f.offer, -1)
	}
	_ = c.ws.Close() // ends the reader
	return false
}

// queueLocked puts a frame behind the others; nothing comes after an end.
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

// closeLocked ends the connection. Codes after which a client must not resume
// end its session too.
func (c *conn) closeLocked(code int, text string) {
	if c.session != nil && (code == CloseInvalidSeq || code == CloseSessionTimedOut) {
		delete(c.s.sessions, c.session.id)
	}
	c.queueLocked(frame{code: code, text: text})
}

// beatLocked gives the client time until two heartbeats are missing.
func (c *conn) beatLocked() {
	deadline := time.Now().Add(2 * c.s.opts.HeartbeatInterval)
	if c.hole {
		deadline = time.Time{} // it stands for ever
	}
	_ = c.ws.SetReadDeadline(deadline) // fails with the read
}

// read handles what the client sends until the connection ends, and says why.
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

// linger leaves it to a client that has said goodbye to close the connection,
// for some time. A client that sleeps with a lock in its hand after its goodbye
// (discordgo does) would else stop the clock of a synctest bubble: its reader
// would wait for the lock.
func (c *conn) linger(err error) {
	var bye *websocket.CloseError
	if !errors.As(err, &bye) || bye.Code == websocket.CloseAbnormalClosure {
		return
	}
	_ = c.ws.SetReadDeadline(time.Now().Add(5 * time.Second)) // fails with the read
	_, _ = io.Copy(io.Discard, c.ws.NetConn())                // until the other end is closed
}

// readEnded looks at why: a client that closes with 1000 or 1001 ends its
// session, one that is silent is told so; else the session waits for a resume.
func (c *conn) readEnded(err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	defer c.leaveLocked()
	bye := websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway)
	if bye && c.session != nil && !c.ended { // else it is the answer to our own end
		delete(c.s.sessions, c.session.id)
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() && !c.ended {
		c.closeLocked(CloseSessionTimedOut, "Session timed out.")
		c.queue = nil // the writer may not come to it any more
		c.s.ledger.note(func(n *Counts) { n.Closes[CloseSessionTimedOut]++ })
		end := websocket.FormatCloseMessage(CloseSessionTimedOut, "Session timed out.")
		_ = c.ws.WriteControl(websocket.CloseMessage, end, time.Now().Add(time.Second)) // it may be gone
	}
}

// handle does what a payload asks for.
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
	case 3, 4, 8: // presence, voice state, members: taken without effect
		if c.session == nil {
			c.closeLocked(CloseNotAuthenticated, "Not authenticated.")
		}
	default:
		c.closeLocked(CloseUnknownOpcode, "Unknown opcode.")
	}
}

func (c *conn) heartbeatLocked(data json.RawMessage) {
	c.s.ledger.note(func(n *Counts) { n.Heartbeats++ })
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

// identify is what opens a session.
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
		c.s.ledger.note(func(n *Counts) { n.Identifies++ })
		c.beginLocked(bot, Intent(*id.Intents))
	}
}

// resume is what goes on with a session.
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
