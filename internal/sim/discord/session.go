package discord

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// An Intent is a bit of the events that a session asks for.
type Intent int

// Intents that the server knows. GuildMembers, Presences and MessageContent are
// privileged.
const (
	IntentGuilds          Intent = 1 << 0
	IntentGuildMembers    Intent = 1 << 1
	IntentPresences       Intent = 1 << 8
	IntentGuildMessages   Intent = 1 << 9
	IntentGuildReactions  Intent = 1 << 10
	IntentGuildTyping     Intent = 1 << 11
	IntentDirectMessages  Intent = 1 << 12
	IntentDirectReactions Intent = 1 << 13
	IntentDirectTyping    Intent = 1 << 14
	IntentMessageContent  Intent = 1 << 15
	allIntents            Intent = 1<<26 - 1
	intentNone            Intent = 0 // sent regardless of the requested intents
	directShift                  = 3 // shift from an intent for guilds to the same intent for direct messages
)

// A session is created by an identify. Without a connection it exists until the
// resume window has passed.
type session struct {
	s       *Server
	id      string
	bot     *Bot
	intents Intent
	host    string

	// s.mu guards the fields below.
	conn    *conn
	left    time.Time // when the connection was lost
	seq     int
	events  []event // latest events, for a resume
	unacked []event
}

// An event is one dispatch.
type event struct {
	seq   int
	data  []byte
	offer *Offer
}

// A view identifies the reader for whom an object is encoded.
type view struct {
	bot     *Bot
	host    string
	content bool // has the message content intent
}

// beginLocked starts a session on c.
func (c *conn) beginLocked(b *Bot, intents Intent) {
	s := c.s
	ss := &session{s: s, id: fmt.Sprintf("%032x", number(s.newIDLocked())), bot: b, intents: intents, host: c.host, conn: c}
	s.sessions[ss.id] = ss
	c.session = ss
	guilds := []obj{}
	for _, g := range s.guilds {
		if g.members[b.user.ID] != nil {
			guilds = append(guilds, obj{"id": g.id, "unavailable": true})
		}
	}
	ss.pushLocked("READY", obj{
		"v": 9, "user": b.user.wire(), "guilds": guilds, "session_id": ss.id, "resume_gateway_url": gatewayURL(c.host),
		"shard": []int{0, 1}, "private_channels": []obj{}, "application": obj{"id": b.user.ID, "flags": b.flags()},
	}, nil)
	if intents&IntentGuilds == 0 {
		return
	}
	for _, g := range s.guilds {
		if g.members[b.user.ID] != nil {
			ss.pushLocked("GUILD_CREATE", g.wireCreateLocked(view{bot: b, host: c.host}), nil)
		}
	}
}

func gatewayURL(host string) string {
	if strings.HasSuffix(host, "discord.com") || strings.HasSuffix(host, "discord.gg") {
		return "wss://gateway.discord.gg"
	}
	return "ws://" + host
}

// pushLocked dispatches an event to the session.
func (ss *session) pushLocked(kind string, data any, o *Offer) {
	ss.seq++
	e := event{seq: ss.seq, data: encode(obj{"op": 0, "s": ss.seq, "t": kind, "d": data}), offer: o}
	ss.events = append(ss.events, e)
	if extra := len(ss.events) - ss.s.opts.ReplayBuffer; extra > 0 {
		ss.events = ss.events[extra:]
	}
	if o != nil {
		ss.unacked = append(ss.unacked, e)
	}
	if ss.conn != nil {
		ss.conn.queueLocked(frame{data: e.data, offer: o})
	}
}

// ackLocked records that the client has received every event up to seq.
func (ss *session) ackLocked(seq int) {
	var done []*Offer
	for len(ss.unacked) > 0 && ss.unacked[0].seq <= seq {
		done = append(done, ss.unacked[0].offer)
		ss.unacked = ss.unacked[1:]
	}
	ss.s.recorder.acked(done)
}

func (ss *session) aliveLocked() bool {
	return ss.conn != nil || time.Since(ss.left) <= ss.s.opts.ResumeWindow
}

// reachesLocked reports whether the buffer has every event after seq.
func (ss *session) reachesLocked(seq int) bool {
	return seq >= 0 && (seq >= ss.seq || len(ss.events) > 0 && ss.events[0].seq <= seq+1)
}

// attachLocked resumes the session on c with the events after seq.
func (ss *session) attachLocked(c *conn, seq int) {
	if ss.conn != nil {
		ss.conn.closeLocked(CloseUnknownError, "Session resumed elsewhere.")
		ss.conn.session = nil
	}
	ss.conn, c.session, ss.host = c, ss, c.host
	ss.ackLocked(seq)
	for _, e := range ss.events {
		if e.seq > seq {
			c.queueLocked(frame{data: e.data, offer: e.offer})
		}
	}
	ss.s.recorder.note(func(n *Counts) { n.Resumes++ })
	ss.pushLocked("RESUMED", obj{"_trace": []string{}}, nil)
}

// dispatchLocked offers an event to each session of a bot that asked for it. A
// bot without a session misses the event.
func (b *Bot) dispatchLocked(kind string, intent Intent, o Offer, render func(view) obj) {
	all, wanting := 0, []*session{}
	for id, ss := range b.s.sessions {
		switch {
		case ss.bot != b:
		case !ss.aliveLocked():
			delete(b.s.sessions, id)
		default:
			all++
			if intent == intentNone || ss.intents&intent != 0 {
				wanting = append(wanting, ss)
			}
		}
	}
	if all > 0 && len(wanting) == 0 {
		return
	}
	o.Bot, o.Kind, o.At, o.Sessions = b.user.ID, kind, time.Now(), len(wanting)
	b.s.recorder.offered(&o)
	for _, ss := range wanting {
		v := view{bot: b, host: ss.host, content: ss.intents&IntentMessageContent != 0}
		ss.pushLocked(kind, render(v), &o)
	}
}

// Dispatch offers an event with any data to the sessions of the bot.
func (b *Bot) Dispatch(kind string, data json.RawMessage) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.dispatchLocked(kind, intentNone, Offer{}, func(view) obj {
		var d obj
		_ = json.Unmarshal(data, &d)
		return d
	})
}

// each calls do for every gateway connection of the given bots, or of all bots
// if none is given.
func (s *Server) each(bots []*Bot, do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		hit := len(bots) == 0
		for _, b := range bots {
			hit = hit || c.session != nil && c.session.bot == b
		}
		if hit {
			do(c)
		}
	}
}

// CutAll cuts the gateway connections of the given bots, or of all bots if none
// is given, without a close frame; data in transit may be lost. Sessions can be
// resumed.
func (s *Server) CutAll(bots ...*Bot) {
	s.each(bots, func(c *conn) {
		s.recorder.note(func(n *Counts) { n.Closes[0]++ })
		_ = c.ws.NetConn().Close() // the reader notices it
		c.detachLocked()
	})
}

// Swallow turns the gateway connections into black holes: they stay open, but
// nothing arrives on either side, not even heartbeats. New connections work
// normally.
func (s *Server) Swallow(bots ...*Bot) {
	s.each(bots, func(c *conn) {
		c.hole = true
		c.beatLocked()
		c.detachLocked()
	})
}

// Reconnect asks the clients to reconnect and resume (opcode 7).
func (s *Server) Reconnect(bots ...*Bot) {
	s.each(bots, func(c *conn) { c.sendLocked(7, nil) })
}

// Invalidate sends the clients an invalid session (opcode 9). A session that is
// not resumable is deleted.
func (s *Server) Invalidate(resumable bool, bots ...*Bot) {
	s.each(bots, func(c *conn) {
		c.sendLocked(9, resumable)
		if c.session != nil && !resumable {
			delete(s.sessions, c.session.id)
		}
		c.detachLocked()
	})
}

// CloseAll closes the gateway connections with a code.
func (s *Server) CloseAll(code int, bots ...*Bot) {
	s.each(bots, func(c *conn) { c.closeLocked(code, "") })
}

// RequestHeartbeat asks the clients for an immediate heartbeat (opcode 1).
func (s *Server) RequestHeartbeat(bots ...*Bot) {
	s.each(bots, func(c *conn) { c.sendLocked(1, nil) })
}

// ForgetSessions deletes all sessions silently: the next resume results in an
// invalid session. Connections stay open but receive no more events.
func (s *Server) ForgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}
