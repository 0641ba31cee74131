package systemd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hermesd/systemd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A manager simulates a service manager that receives notifications.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func listen(t *testing.T) manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("NOTIFY_SOCKET", path)
	return manager{t, conn}
}

// next returns the next datagram, "" if none comes within d.
func (m manager) next(d time.Duration) string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		m.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return string(buf[:n])
}

const soon = 2 * time.Minute // it hangs otherwise

func TestNotifier(t *testing.T) {
	m := listen(t)
	var n systemd.Notifier
	for _, c := range []struct {
		say  func() error
		want string
	}{
		{n.Ready, "READY=1"},
		{n.Stopping, "STOPPING=1"},
		{func() error { return n.Extend(90 * time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
		{func() error { return n.Status("2 accounts connected") }, "STATUS=2 accounts connected"},
		{func() error { return n.Status("a\nMAINPID=1\r\n\x00b\xff") }, "STATUS=a MAINPID=1   b\uFFFD"},
		{func() error { return n.Status(strings.Repeat("é", 500)) }, "STATUS=" + strings.Repeat("é", 299) + "…"},
	} {
		if err := c.say(); err != nil {
			t.Error(err)
		}
		if got := m.next(soon); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestReloadingSendsTimestamp(t *testing.T) {
	m := listen(t)
	var n systemd.Notifier
	if err := n.Reloading(); err != nil {
		t.Fatal(err)
	}
	state, at, _ := strings.Cut(m.next(soon), "\n")
	at, ok := strings.CutPrefix(at, "MONOTONIC_USEC=")
	usec, err := strconv.ParseInt(at, 10, 64)
	if state != "RELOADING=1" || !ok || err != nil || usec <= 0 {
		t.Errorf("got %q at %q (%v)", state, at, err)
	}
}

func TestNotifierWithoutSocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	var n systemd.Notifier
	asked := false
	err := errors.Join(n.Ready(), n.Reloading(), n.Stopping(), n.Status("x"), n.Extend(time.Second),
		n.Watchdog(t.Context(), func() error { asked = true; return nil }))
	if err != nil || asked {
		t.Errorf("got %v, asked for proof: %v", err, asked)
	}
}

func TestNotifierWithMissingSocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	var n systemd.Notifier
	if err := n.Ready(); err == nil {
		t.Error("there is no error")
	}
}

// watch runs the watchdog with a limit until the test ends or stop is called.
func watch(t *testing.T, n *systemd.Notifier, limit time.Duration, proof func() error) (stop func()) {
	t.Helper()
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(limit.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Watchdog(ctx, proof) }() // stop waits for it
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWatchdogPingsAtHalfTheLimit(t *testing.T) {
	m := listen(t)
	var n systemd.Notifier
	const limit = 200 * time.Millisecond
	start := time.Now()
	stop := watch(t, &n, limit, func() error { return nil })
	defer stop()
	for i := range 5 {
		if got := m.next(soon); got != "WATCHDOG=1" {
			t.Errorf("ping %d is %q", i, got)
		}
	}
	if took := time.Since(start); took < 4*limit/2-limit/4 {
		t.Errorf("five pings came in %v", took)
	}
}

func TestWatchdogSilentOnFailedProof(t *testing.T) {
	m := listen(t)
	var n systemd.Notifier
	if err := n.Status("all is well"); err != nil {
		t.Fatal(err)
	}
	var well atomic.Bool
	stop := watch(t, &n, 40*time.Millisecond, func() error {
		if well.Load() {
			return nil
		}
		return errors.New("the store has written nothing\nfor 90 s")
	})
	defer stop()
	if got := m.next(soon); got != "STATUS=all is well" {
		t.Errorf("got %q", got)
	}
	for range 3 {
		if got := m.next(soon); got != "STATUS=no sign of life: the store has written nothing for 90 s" {
			t.Errorf("got %q", got)
		}
	}
	if err := n.Status("3 turns"); err != nil { // not sent until proof succeeds
		t.Fatal(err)
	}
	well.Store(true)
	got := m.next(soon)
	for strings.HasPrefix(got, "STATUS=no sign of life") {
		got = m.next(soon)
	}
	if diff := cmp.Diff("WATCHDOG=1\nSTATUS=3 turns", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := m.next(soon); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
}

func TestWatchdogSilentWhileProofHangs(t *testing.T) {
	m := listen(t)
	var n systemd.Notifier
	const limit = 20 * time.Millisecond
	release, first := make(chan struct{}), true
	stop := watch(t, &n, limit, func() error {
		if !first {
			<-release
		}
		first = false
		return nil
	})
	if got := m.next(soon); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	if got := m.next(5 * limit); got != "" {
		t.Errorf("got %q while the proof hangs", got)
	}
	close(release)
	stop()
}

func TestWatchdogContinuesAfterSendError(t *testing.T) {
	m := listen(t)
	path := os.Getenv("NOTIFY_SOCKET")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	var n systemd.Notifier
	err := n.Watchdog(ctx, func() error {
		switch asked++; asked {
		case 2:
			return os.Rename(path+".away", path)
		case 3:
			cancel()
		}
		return nil
	})
	if got := m.next(soon); err == nil || got != "WATCHDOG=1" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWatchdogOfAnotherProcess(t *testing.T) {
	listen(t)
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1")
	var n systemd.Notifier
	if err := n.Watchdog(t.Context(), func() error { t.Error("was asked"); return nil }); err != nil {
		t.Error(err)
	}
}

func TestWatchdogInvalidSettings(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "soon")
	var n systemd.Notifier
	if err := n.Watchdog(t.Context(), func() error { return nil }); err == nil {
		t.Error("there is no error")
	}
}
