package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
)

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := admin.Serve(home, newRig(t).handler)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(home, admin.SocketName))
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := admin.Dial(t.Context(), home); !errors.Is(err, admin.ErrNoDaemon) {
		t.Errorf("got %v, want ErrNoDaemon", err)
	}
}

func TestALongHomeHasItsSocketElsewhere(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	home := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"fresh", "after a crash"} {
		if how == "after a crash" { // leftovers of a dead process
			dir, err := os.MkdirTemp(run, "hermesd-")
			if err != nil {
				t.Fatal(err)
			}
			dead(t, filepath.Join(dir, admin.SocketName))
			if err := os.WriteFile(filepath.Join(home, admin.PathName), []byte(filepath.Join(dir, admin.SocketName)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := admin.Serve(home, newRig(t).handler)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.Path(), run) {
			t.Errorf("the socket is at %s", s.Path())
		}
		info, err := os.Stat(filepath.Dir(s.Path()))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("its directory: %v, %v", info.Mode(), err)
		}
		c, err := admin.Dial(t.Context(), home)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Status(t.Context()); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.Close(t.Context()), s.Close(t.Context())); err != nil {
			t.Error(err)
		}
		for _, dir := range []string{home, run} {
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("%s: left behind in %s: %v, %v", how, dir, left, err)
			}
		}
	}
}

// dead creates a socket on which no process listens.
func dead(t *testing.T, path string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	home := t.TempDir()
	dead(t, filepath.Join(home, admin.SocketName))
	if _, err := admin.Dial(t.Context(), home); !errors.Is(err, admin.ErrNoDaemon) {
		t.Errorf("got %v, want ErrNoDaemon", err)
	}
	s, err := admin.Serve(home, newRig(t).handler)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, s.Close)
	c, err := admin.Dial(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, c.Close)
}

func TestWhatIsNotASocketIsLeftAlone(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, admin.SocketName)
	other := filepath.Join(home, "precious")
	if err := os.WriteFile(other, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"file":    func() error { return os.WriteFile(path, []byte("x"), 0o600) },
		"symlink": func() error { return os.Symlink(other, path) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Serve(home, newRig(t).handler); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: got %v", name, err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "x" {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADaemonThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(home, admin.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, err = admin.Dial(t.Context(), home)
	var silent *admin.SilentError
	if !errors.As(err, &silent) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v, want a SilentError", err)
	}
}

func TestNoSocketMeansNoDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{t.TempDir(), file, "/does/not/exist", "/" + strings.Repeat("x", 200)} {
		if _, err := admin.Dial(t.Context(), home); !errors.Is(err, admin.ErrNoDaemon) {
			t.Errorf("%.20s: got %v", home, err)
		}
	}
}

// raw sends a request over the socket without the client.
func raw(t *testing.T, home string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, admin.SocketName))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func TestForeignRequestsAreAnsweredInWords(t *testing.T) {
	home := t.TempDir()
	s, err := admin.Serve(home, newRig(t).handler)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, s.Close)
	c := raw(t, home)
	for _, tc := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/", "", 404},
		{"DELETE", "/status", "", 404},
		{"POST", "/attach", "", 426},
		{"GET", "/sessions?limit=many", "", 400},
		{"POST", "/why", "id=m1", 404},
		{"POST", "/outbox/o1/retry", strings.Repeat("x", 1<<20), 409},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://x"+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tc.code || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %d %s, want %d", tc.method, tc.path, resp.StatusCode, resp.Header.Get("Content-Type"), tc.code)
		}
		_ = resp.Body.Close()
	}
}
