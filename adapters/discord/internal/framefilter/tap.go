// Package framefilter filters the frames of a connection between Discord's
// gateway and the library, and passes on what the library handles correctly. Its
// main type is Conn.
//
// The library hides information that its caller needs: the heartbeat interval,
// acknowledgments, and the gateway's close code. It also mishandles some valid
// payloads: op 7 and op 11 right after hello deadlock it, op 9 makes it identify
// at once, and an unexpected null event crashes the process. Therefore:
//
//	hello, ack     are recorded; an ack is passed on once the library can read it
//	op 7, op 9     end the connection, and End reports why
//	close          is recorded and passed on
//	READY          is passed on with the fields that the library needs
//	other events   are passed on under another name, which the library delivers raw
//	the rest       is passed on if it is a valid payload
//
// A connection on which no heartbeat is acknowledged in time is closed.
package framefilter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// Prefix is put before the names of events that are delivered raw.
const Prefix = "RAW "

const (
	// openLimit is the time limit for hello, and then for the first answer.
	openLimit = 20 * time.Second
	// writeLimit is the time limit for writing a payload.
	writeLimit = 10 * time.Second
	// goodbyeLimit is the time limit for sending a close frame.
	goodbyeLimit = 200 * time.Millisecond
	// maxPayload limits the size of one gateway message.
	maxPayload = 64 << 20
)

// patience is the time limit for the acknowledgment of a heartbeat: one and a
// half intervals, so that a dead connection is detected within two.
func patience(interval time.Duration) time.Duration { return interval * 3 / 2 }

// An End describes why a connection ended, as far as the gateway told.
type End struct {
	HelloReceived bool   // hello was received
	Code          int    // of the close frame; 0 if none was received
	Text          string // of the close frame
	Reconnect     bool   // op 7: reconnect and resume
	Invalid       bool   // op 9: the session is invalid
	Resumable     bool   // of op 9
	Silent        bool   // no acknowledgment arrived in time
}

// A Conn is one connection to the gateway. As for any net.Conn, Read and Write
// may be called concurrently.
type Conn struct {
	net.Conn
	proof func() // called for each sign of life

	in       *bufio.Reader
	out      bytes.Buffer // for the library
	state    state
	parts    bytes.Buffer // of a message in several frames
	passed   int          // number of payloads passed to the library
	seq      int64
	interval time.Duration
	deadline time.Time
	err      error // why reading ended

	wmu sync.Mutex // serializes writers

	mu  sync.Mutex // guards the fields below
	end End
}

type state int

const (
	inHeader state = iota // of the answer to the upgrade
	inFrames
	inPlain // not a websocket: everything is passed on unchanged
)

// New returns a Conn that filters c. proof is called by the reader at each sign
// of life of the gateway.
func New(c net.Conn, proof func()) *Conn {
	return &Conn{Conn: c, proof: proof, in: bufio.NewReaderSize(c, 16<<10)}
}

// End returns why the connection ended.
func (c *Conn) End() End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

func (c *Conn) note(change func(*End)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.end)
}

func (c *Conn) Write(p []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := c.Conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SendClose sends a close frame, so that the account is shown as offline at
// once, and closes the connection. It does not wait for running writes.
func (c *Conn) SendClose() {
	if c.wmu.TryLock() {
		var key [4]byte
		binary.BigEndian.PutUint32(key[:], rand.Uint32())
		frame := []byte{0x88, 0x82, key[0], key[1], key[2], key[3], 0x03 ^ key[0], 0xe8 ^ key[1]} // 1000
		if c.Conn.SetWriteDeadline(time.Now().Add(goodbyeLimit)) == nil {
			_, _ = c.Conn.Write(frame) // the connection is closed either way
		}
		c.wmu.Unlock()
	}
	_ = c.Close()
}

func (c *Conn) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		if c.err != nil {
			return 0, c.err
		}
		if c.err = c.step(); c.err != nil {
			_ = c.Conn.Close() // without the library's close frame, after which the session could not be resumed
		}
	}
	return c.out.Read(p)
}

// step reads and handles the next header or frame of the gateway.
func (c *Conn) step() error {
	switch c.state {
	case inHeader:
		return c.header()
	case inPlain:
		b, err := c.in.ReadByte()
		if err == nil {
			c.out.WriteByte(b)
		}
		return err
	}
	if c.deadline.IsZero() {
		c.deadline = time.Now().Add(openLimit)
	}
	if err := c.Conn.SetReadDeadline(c.deadline); err != nil {
		return err
	}
	f, err := c.frame()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		c.note(func(e *End) { e.Silent = true })
	}
	if err != nil {
		return err
	}
	return c.handle(f)
}

// header passes the answer to the upgrade on.
func (c *Conn) header() error {
	line, err := c.in.ReadSlice('\n')
	c.out.Write(line)
	switch {
	case err != nil && !errors.Is(err, bufio.ErrBufferFull):
		return err
	case c.passed == 0 && !bytes.Contains(line, []byte(" 101")):
		c.state = inPlain
	case len(bytes.TrimSpace(line)) == 0:
		c.state, c.passed = inFrames, 0
		return nil
	}
	c.passed++
	return nil
}

// The opcodes of websocket frames.
const (
	opText  = 1
	opClose = 8
)

type frame struct {
	op   byte
	fin  bool
	data []byte
}

func (c *Conn) frame() (frame, error) {
	var h [8]byte
	if _, err := io.ReadFull(c.in, h[:2]); err != nil {
		return frame{}, err
	}
	f := frame{op: h[0] & 0x0f, fin: h[0]&0x80 != 0}
	n := uint64(h[1] & 0x7f)
	if h[0]&0x70 != 0 || h[1]&0x80 != 0 {
		return f, errors.New("gateway frame uses an extension that was not negotiated")
	}
	size := 0
	switch n {
	case 126:
		size = 2
	case 127:
		size = 8
	}
	if size > 0 {
		if _, err := io.ReadFull(c.in, h[8-size:]); err != nil {
			return f, err
		}
		clear(h[:8-size])
		n = binary.BigEndian.Uint64(h[:])
	}
	if n > maxPayload || uint64(c.parts.Len())+n > maxPayload {
		return f, fmt.Errorf("gateway message is larger than %d MB", maxPayload>>20)
	}
	var b bytes.Buffer // grows with the received data
	if _, err := io.CopyN(&b, c.in, int64(n)); err != nil {
		return f, err
	}
	f.data = b.Bytes()
	return f, nil
}

// handle passes a frame on, or the part of it that the library can handle.
func (c *Conn) handle(f frame) error {
	switch {
	case f.op == opClose:
		c.note(func(e *End) {
			if len(f.data) >= 2 {
				e.Code, e.Text = int(binary.BigEndian.Uint16(f.data)), strings.ToValidUTF8(string(f.data[2:]), "")
			}
		})
	case f.op > opClose: // ping, pong
	case !f.fin || f.op == 0:
		c.parts.Write(f.data)
		if !f.fin {
			return nil
		}
		all := bytes.Clone(c.parts.Bytes())
		c.parts.Reset()
		return c.payload(all)
	default:
		return c.payload(f.data)
	}
	c.write(f.op, f.data)
	return nil
}

// write appends one frame to the library's input.
func (c *Conn) write(op byte, data []byte) {
	c.out.WriteByte(0x80 | op)
	switch n := len(data); {
	case n < 126:
		c.out.WriteByte(byte(n))
	case n < 1<<16:
		c.out.WriteByte(126)
		c.out.Write(binary.BigEndian.AppendUint16(nil, uint16(n)))
	default:
		c.out.WriteByte(127)
		c.out.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	c.out.Write(data)
}

// pass passes one payload to the library.
func (c *Conn) pass(data []byte) error {
	c.passed++
	c.write(opText, data)
	return nil
}

// An envelope is the outer object of every gateway payload.
type envelope struct {
	Op   *int            `json:"op"`
	Seq  *int64          `json:"s"`
	Type string          `json:"t"`
	Data json.RawMessage `json:"d"`
}

// errEnd is returned when the gateway ended the connection; End has the reason.
var errEnd = errors.New("gateway ended the connection")

func (c *Conn) payload(data []byte) error {
	var e envelope
	if json.Unmarshal(data, &e) != nil || e.Op == nil {
		return nil // not valid for any reader
	}
	switch *e.Op {
	case 0:
		c.proof()
		return c.dispatch(e)
	case 7:
		c.note(func(e *End) { e.Reconnect = true })
		return errEnd
	case 9:
		resumable := string(e.Data) == "true"
		c.note(func(e *End) { e.Invalid, e.Resumable = true, resumable })
		return errEnd
	case 10:
		return c.hello(e, data)
	case 11:
		c.proof()
		if c.interval > 0 {
			c.deadline = time.Now().Add(patience(c.interval))
		}
		if c.passed < 2 { // the library is still in Open, where an ack would deadlock it
			return nil
		}
	}
	return c.pass(data)
}

// hello records the heartbeat interval, which the library does not validate.
func (c *Conn) hello(e envelope, data []byte) error {
	var h struct {
		Interval int64 `json:"heartbeat_interval"`
	}
	if json.Unmarshal(e.Data, &h) != nil || h.Interval < 100 || h.Interval > 3_600_000 {
		return errors.New("gateway hello has no heartbeat interval")
	}
	c.interval = time.Duration(h.Interval) * time.Millisecond
	c.note(func(e *End) { e.HelloReceived = true })
	c.deadline = time.Now().Add(openLimit)
	return c.pass(data)
}

// dispatch passes an event on.
func (c *Conn) dispatch(e envelope) error {
	if e.Type == "" {
		return nil
	}
	if e.Seq != nil {
		c.seq = *e.Seq
	}
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("null")
	}
	if c.passed < 2 && c.interval > 0 { // the library starts its heartbeats
		c.deadline = time.Now().Add(patience(c.interval))
	}
	name := Prefix + e.Type
	switch e.Type {
	case "READY":
		var err error
		if e.Data, err = ready(e.Data); err != nil {
			return err
		}
		name = e.Type
	case "RESUMED":
		name, e.Data = e.Type, json.RawMessage("{}")
	}
	head, err := json.Marshal(name)
	if err != nil {
		return err
	}
	out := fmt.Appendf(nil, `{"op":0,"s":%d,"t":%s,"d":`, c.seq, head)
	return c.pass(append(append(out, e.Data...), '}'))
}

// ready reduces READY to the fields in use, so that nothing else in it can do
// harm.
func ready(raw json.RawMessage) (json.RawMessage, error) {
	var r struct {
		Version int    `json:"v"`
		Session string `json:"session_id"`
		User    struct {
			ID         string `json:"id"`
			Username   string `json:"username"`
			GlobalName string `json:"global_name,omitempty"`
		} `json:"user"`
		Application struct {
			ID string `json:"id"`
		} `json:"application"`
		Guilds []struct{} `json:"guilds"`
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &r); err != nil && !errors.As(err, &wrong) || r.Session == "" || r.User.ID == "" {
		return nil, errors.New("gateway READY has no session")
	}
	r.Guilds = []struct{}{}
	return json.Marshal(r)
}
