package dns_test

import (
	"errors"
	"net"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/sim/dns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestANameChangesItsAnswer(t *testing.T) {
	s := dns.New(map[string][]string{"turns.test": {"192.0.2.1", "192.0.2.2 192.0.2.3"}})
	defer s.Close()
	r := s.Resolver()
	for i, want := range [][]string{{"192.0.2.1"}, {"192.0.2.2", "192.0.2.3"}, {"192.0.2.2", "192.0.2.3"}} {
		got, err := r.LookupHost(t.Context(), "turns.test")
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("answer %d: %v, %v", i, got, err)
		}
	}
	if n := s.Asked("turns.test"); n != 3 {
		t.Errorf("asked %d times", n)
	}
	var none *net.DNSError
	if _, err := r.LookupHost(t.Context(), "none.test"); !errors.As(err, &none) || !none.IsNotFound {
		t.Errorf("a name that is not there: %v", err)
	}
}

func TestCloseEndsWhoDoesNotAsk(t *testing.T) {
	s := dns.New(nil)
	c, err := s.Resolver().Dial(t.Context(), "udp", "")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
