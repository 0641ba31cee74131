package spawn_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/internal/spawn"
)

// adopt calls AdoptOrphans for the test. No test of this package may start processes in
// another way meanwhile, so it does not run in parallel.
func adopt(t *testing.T) {
	t.Helper()
	stop, err := spawn.AdoptOrphans()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// zombies returns the ended children of this process that are not reaped.
func zombies(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// The exit codes of commands are kept while their orphans are reaped.
func TestAdoptOrphansKeepsExitCodes(t *testing.T) {
	adopt(t)
	var work sync.WaitGroup
	for worker := range 4 {
		work.Go(func() {
			for i := range 60 {
				want := (worker*60 + i) % 200
				r, err := spawn.Run(t.Context(), spawn.Command{Shell: "(setsid true &) ; (true &) ; exit " + strconv.Itoa(want), Timeout: patience})
				if err != nil || r.Code != want {
					t.Errorf("got code %d, %v, want %d", r.Code, err, want)
				}
			}
		})
	}
	work.Wait()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); zombies(t) > 0; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d orphans are not reaped", zombies(t))
		}
	}
}

// A connection whose peer has ended is refused, because nobody can say what it was.
func TestCheckPeerRefusesEndedPeer(t *testing.T) {
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		t.Skip("perl connects in this test")
	}
	adopt(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	const connects = `use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un($ARGV[0])) or exit 1`
	other, err := spawn.Start(t.Context(), spawn.Command{Argv: []string{"sleep", "1000"}}) // otherwise there is no child to descend from
	if err != nil {
		t.Fatal(err)
	}
	defer other.Kill(nil)
	if r := run(t, spawn.Command{Argv: []string{"perl", "-e", connects, path}}); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Head)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := spawn.CheckPeer(c.(*net.UnixConn)); err == nil {
		t.Error("an ended process is not refused")
	}
}

// The connections of this process are not refused.
func TestCheckPeerAcceptsThisProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ours, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ours.Close() }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := spawn.CheckPeer(c.(*net.UnixConn)); err != nil {
		t.Error(err)
	}
}
