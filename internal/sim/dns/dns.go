// Package dns implements a DNS server without a network. Server answers queries
// over in-memory connections and may return another answer to each query. It
// serves A records only and runs inside a testing/synctest bubble too.
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

// A Server answers queries for a fixed set of names. Its methods may be called
// from any goroutine.
type Server struct {
	names map[string][]string
	work  sync.WaitGroup // the connections that are served

	mu    sync.Mutex // guards the fields below
	asked map[string]int
	open  map[net.Conn]struct{}
}

// New returns a server for names. Each name has a list of answers: the n-th
// query gets the n-th answer, and later queries get the last one. An answer is
// one or more IPv4 addresses separated by spaces. Other names do not exist.
func New(names map[string][]string) *Server {
	return &Server{names: names, asked: map[string]int{}, open: map[net.Conn]struct{}{}}
}

// Resolver returns a resolver that queries only this server.
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

// Asked returns how many address queries the server received for name.
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// Close closes the open connections and waits until their goroutines have
// ended.
func (s *Server) Close() {
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// answer reads one query from c and answers it in the format of DNS over TCP.
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

// next returns the next answer for a name and counts the query. ok is false for
// an unknown name. A query that is not for IPv4 addresses gets no answer and is
// not counted.
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
