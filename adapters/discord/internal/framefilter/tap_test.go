package framefilter_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/adapters/discord/internal/framefilter"
	"hermesd/internal/sim/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
	hello   = `{"op":10,"d":{"heartbeat_interval":40000},"s":null,"t":null}`
	ready   = `{"op":0,"s":1,"t":"READY","d":{"v":9,"session_id":"abc","user":{"id":"9","username":"h"},"application":{"id":"8"},"guilds":[null]}}`
	slim    = `{"op":0,"s":1,"t":"READY","d":{"v":9,"session_id":"abc","user":{"id":"9","username":"h"},"application":{"id":"8"},"guilds":[]}}`
)

// frame writes one websocket frame of a server.
func frame(first byte, data string) string {
	var b bytes.Buffer
	b.WriteByte(first)
	switch n := len(data); {
	case n < 126:
		b.WriteByte(byte(n))
	case n < 1<<16:
		b.WriteByte(126)
		b.Write(binary.BigEndian.AppendUint16(nil, uint16(n)))
	default:
		b.WriteByte(127)
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	b.WriteString(data)
	return b.String()
}

func text(data string) string { return frame(0x81, data) }

// through returns what the library gets of what a gateway sends, and the tap.
func through(t *testing.T, sends ...string) (string, *framefilter.Conn, error) {
	t.Helper()
	near, far := memnet.Conns("gateway")
	go func() {
		for _, s := range sends {
			if _, err := io.WriteString(far, s); err != nil {
				break
			}
		}
		_ = far.Close() // the reader sees it
	}()
	c := framefilter.New(near, func() {})
	got, err := io.ReadAll(c)
	_ = c.Close()
	return string(got), c, err
}

func TestWhatTheLibraryGetsToSee(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	event := func(kind, data string) string { return `{"op":0,"s":2,"t":"` + kind + `","d":` + data + `}` }
	raw := func(kind, data string) string { return `{"op":0,"s":2,"t":"RAW ` + kind + `","d":` + data + `}` }
	for _, c := range []struct {
		name string
		sent []string
		want string // behind the upgrade
		end  framefilter.End
	}{
		{"the beginning", []string{text(hello), text(ready)}, text(hello) + text(slim), framefilter.End{HelloReceived: true}},
		{"an event", []string{text(hello), text(ready), text(event("MESSAGE_CREATE", `{"a":1}`))}, text(hello) + text(slim) + text(raw("MESSAGE_CREATE", `{"a":1}`)), framefilter.End{HelloReceived: true}},
		{"a long event", []string{text(hello), text(event("GUILD_CREATE", `"`+long+`"`))}, text(hello) + text(raw("GUILD_CREATE", `"`+long+`"`)), framefilter.End{HelloReceived: true}},
		{"an event that is null", []string{text(hello), text(event("GUILD_CREATE", `null`))}, text(hello) + text(raw("GUILD_CREATE", `null`)), framefilter.End{HelloReceived: true}},
		{"an event without data", []string{text(hello), text(`{"op":0,"s":2,"t":"GUILD_CREATE"}`)}, text(hello) + text(raw("GUILD_CREATE", `null`)), framefilter.End{HelloReceived: true}},
		{"an event without a number", []string{text(hello), text(event("A", `1`)), text(`{"op":0,"t":"B","d":1}`)}, text(hello) + text(raw("A", `1`)) + text(raw("B", `1`)), framefilter.End{HelloReceived: true}},
		{"an event in pieces", []string{text(hello), frame(0x01, `{"op":0,"s":2,`), frame(0x89, "ping"), frame(0x00, `"t":"A",`), frame(0x80, `"d":1}`)}, text(hello) + frame(0x89, "ping") + text(raw("A", `1`)), framefilter.End{HelloReceived: true}},
		{"resumed", []string{text(hello), text(event("RESUMED", `null`))}, text(hello) + text(event("RESUMED", `{}`)), framefilter.End{HelloReceived: true}},
		{"nothing of sense", []string{text(hello), text(`null`), text(`[]`), text(`{`), text(`{"op":null}`), text(`{"op":0,"d":1}`), text(ready)}, text(hello) + text(slim), framefilter.End{HelloReceived: true}},
		{"an ack before the beginning", []string{text(hello), text(`{"op":11}`), text(ready), text(`{"op":11}`)}, text(hello) + text(slim) + text(`{"op":11}`), framefilter.End{HelloReceived: true}},
		{"a request for a heartbeat", []string{text(hello), text(`{"op":1,"d":null}`)}, text(hello) + text(`{"op":1,"d":null}`), framefilter.End{HelloReceived: true}},
		{"op 7 right after hello", []string{text(hello), text(`{"op":7,"d":null}`), text(ready)}, text(hello), framefilter.End{HelloReceived: true, Reconnect: true}},
		{"op 9", []string{text(hello), text(`{"op":9,"d":false}`), text(ready)}, text(hello), framefilter.End{HelloReceived: true, Invalid: true}},
		{"op 9, to be resumed", []string{text(hello), text(`{"op":9,"d":true}`)}, text(hello), framefilter.End{HelloReceived: true, Invalid: true, Resumable: true}},
		{"a close", []string{text(hello), frame(0x88, "\x0f\xa4no")}, text(hello) + frame(0x88, "\x0f\xa4no"), framefilter.End{HelloReceived: true, Code: 4004, Text: "no"}},
		{"a close without a code", []string{frame(0x88, "")}, frame(0x88, ""), framefilter.End{}},
		{"an interval of nothing", []string{text(`{"op":10,"d":{"heartbeat_interval":0}}`)}, "", framefilter.End{}},
		{"an interval of ages", []string{text(`{"op":10,"d":{"heartbeat_interval":1e15}}`)}, "", framefilter.End{}},
		{"no interval", []string{text(`{"op":10}`)}, "", framefilter.End{}},
		{"a READY of nobody", []string{text(hello), text(`{"op":0,"s":1,"t":"READY","d":{"session_id":"a"}}`)}, text(hello), framefilter.End{HelloReceived: true}},
		{"a READY with odd fields", []string{text(hello), text(strings.Replace(ready, `[null]`, `{"a":[]}`, 1))}, text(hello) + text(slim), framefilter.End{HelloReceived: true}},
		{"compressed", []string{frame(0xc1, "x"), text(hello)}, "", framefilter.End{}},
		{"masked", []string{"\x81\x81abcdx", text(hello)}, "", framefilter.End{}},
		{"endless", []string{"\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", text(hello)}, "", framefilter.End{}},
		{"half a frame", []string{text(hello), "\x81\x05ab"}, text(hello), framefilter.End{HelloReceived: true}},
	} {
		got, conn, _ := through(t, append([]string{upgrade}, c.sent...)...)
		if got != upgrade+c.want {
			t.Errorf("%s: the library gets %.300q\nwant %.300q", c.name, got, upgrade+c.want)
		}
		if conn.End() != c.end {
			t.Errorf("%s: the end is %+v, want %+v", c.name, conn.End(), c.end)
		}
	}
}

func TestAnAnswerThatIsNoUpgradeGoesOnAsItIs(t *testing.T) {
	const page = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"
	if got, _, err := through(t, page); got != page || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// The pieces in which bytes arrive make no difference.
func TestPiecesMakeNoDifference(t *testing.T) {
	whole := upgrade + text(hello) + text(ready) + text(`{"op":0,"s":2,"t":"A","d":1}`) + frame(0x88, "\x0f\xa4no")
	want, _, _ := through(t, whole)
	var pieces []string
	for _, b := range []byte(whole) {
		pieces = append(pieces, string([]byte{b}))
	}
	if got, _, _ := through(t, pieces...); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A connection on which nothing is acknowledged ends after one and a half
// intervals, however much else is said on it.
func TestASilentConnectionEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(far net.Conn)
		want time.Duration
	}{
		{"nothing at all", func(net.Conn) { <-time.After(time.Hour) }, 20 * time.Second},
		{"hello only", func(far net.Conn) { say(far, text(hello)); <-time.After(time.Hour) }, 20 * time.Second},
		{"no ack", func(far net.Conn) { say(far, text(hello), text(ready)); <-time.After(time.Hour) }, time.Minute},
		{"two acks", func(far net.Conn) {
			say(far, text(hello), text(ready))
			for range 2 {
				<-time.After(40 * time.Second)
				say(far, text(`{"op":11}`))
			}
			<-time.After(time.Hour)
		}, 80*time.Second + time.Minute},
		{"events, but no ack", func(far net.Conn) {
			say(far, text(hello), text(ready))
			for range 100 {
				<-time.After(time.Second)
				say(far, text(`{"op":0,"s":2,"t":"A","d":1}`))
			}
		}, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := memnet.Conns("gateway")
			begin := time.Now()
			played := make(chan struct{})
			go func() {
				defer close(played)
				say(far, upgrade)
				c.play(far)
				_ = far.Close()
			}()
			conn := framefilter.New(near, func() {})
			_, err := io.Copy(io.Discard, conn)
			defer func() { <-played }()
			if took := time.Since(begin); err == nil || took != c.want || !conn.End().Silent {
				t.Errorf("%s: after %v %+v (%v)", c.name, took, conn.End(), err)
			}
		})
	}
}

func say(c net.Conn, all ...string) {
	for _, s := range all {
		if _, err := io.WriteString(c, s); err != nil {
			return
		}
	}
}

func TestSignsOfLifeAreTold(t *testing.T) {
	near, far := memnet.Conns("gateway")
	n := 0
	conn := framefilter.New(near, func() { n++ })
	go func() {
		say(far, upgrade, text(hello), text(ready), text(`{"op":11}`), text(`null`))
		_ = far.Close()
	}()
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if n != 2 { // READY and the ack
		t.Errorf("%d signs", n)
	}
}

func TestGoodbyeClosesAsAClientDoes(t *testing.T) {
	near, far := memnet.Conns("gateway")
	conn := framefilter.New(near, func() {})
	conn.SendClose()
	got, err := io.ReadAll(far)
	if err != nil || len(got) != 8 || got[0] != 0x88 || got[1] != 0x82 || int(got[6]^got[2])<<8|int(got[7]^got[3]) != 1000 {
		t.Errorf("%x, %v", got, err)
	}
}

func FuzzTap(f *testing.F) {
	f.Add([]byte(text(hello) + text(ready) + text(`{"op":0,"s":2,"t":"A","d":1}`)))
	f.Add([]byte(frame(0x01, `{"op"`) + frame(0x80, `:11}`) + frame(0x88, "\x0f")))
	f.Add([]byte(text(fmt.Sprintf(`{"op":10,"d":{"heartbeat_interval":%d}}`, 1<<40))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, conn, _ := through(t, upgrade, string(raw))
		conn.End()
	})
}
