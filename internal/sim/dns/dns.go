// Package dns is a name server without a network. A resolver asks it over pipes,
// and it may change its answers from one question to the next.
package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// A Server knows some names. Its methods may be called from any goroutine.
type Server struct {
	names map[string][]string
	work  sync.WaitGroup // the conversations

	mu    sync.Mutex // guards what follows
	asked map[string]int
	open  map[net.Conn]struct{}
}

// New returns a server of names. Each has a list of answers, one for each time that
// it is asked for, the last one from then on; an answer is one or more IPv4
// addresses with spaces between them. Other names are not there.
func New(names map[string][]string) *Server {
	return &Server{names: names, asked: map[string]int{}, open: map[net.Conn]struct{}{}}
}

// Resolver asks the server, and nobody else.
func (s *Server) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		s.mu.Lock()
		s.open[ours] = struct{}{}
		s.mu.Unlock()
		s.work.Go(func() { // Close waits for it
			s.answer(ours)
			_ = ours.Close()
			s.mu.Lock()
			delete(s.open, ours)
			s.mu.Unlock()
		})
		return theirs, nil
	}}
}

// Asked returns how often the addresses of a name were asked for.
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// Close ends what goes on.
func (s *Server) Close() {
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// answer answers one question, as over TCP.
func (s *Server) answer(c net.Conn) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	raw := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, raw); err != nil {
		return
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil || len(m.Questions) != 1 {
		return
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	q := m.Questions[0]
	addresses, ok := s.next(strings.TrimSuffix(q.Name.String(), "."), q.Type == dnsmessage.TypeA)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for a := range strings.FieldsSeq(addresses) {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
		})
	}
	if raw, err := m.Pack(); err == nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(raw))), raw...))
	}
}

// next returns the next answer for a name, if it is asked for addresses that it
// may have.
func (s *Server) next(name string, v4 bool) (addresses string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.names[name]
	if len(list) == 0 || !v4 {
		return "", len(list) > 0
	}
	i := min(s.asked[name], len(list)-1)
	s.asked[name]++
	return list[i], true
}
