package attachment_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"go.uber.org/goleak"

	"hermesd/adapters/internal/attachment"
	"hermesd/gateway/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"a.txt": "a.txt", "../../etc/passwd": "passwd", `..\..\x.exe`: "x.exe", "a\r\nX: 1": "a__X: 1", "..": "file", `q".png`: "q_.png", "/": "_", " ": "file",
	} {
		if got := attachment.Name(chat.File{Name: in}); got != want {
			t.Errorf("%q is sent as %q, want %q", in, got, want)
		}
	}
	if got := attachment.Name(chat.File{Path: "/home/x/y.pdf"}); got != "y.pdf" {
		t.Errorf("without a name %q", got)
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "../..", `"`, "\u202etxt.exe", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := attachment.Name(chat.File{Name: s})
		if got == "" || got == "." || got == ".." || strings.ContainsAny(got, "/\\\"") || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is sent as %q", s, got)
		}
	})
}

func TestWhatCannotBeSentIsRejected(t *testing.T) {
	dir := t.TempDir()
	put := func(name, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l := attachment.Limit{Platform: "Faxes", MaxBytes: 3, TooBig: "too much for a fax"}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "the file n cannot be read", dir: "the file n cannot be read",
		put("empty", ""): "the file n is empty, and Faxes takes no empty files", put("large", "1234"): "too much for a fax",
	} {
		_, _, err := l.Open(chat.File{Path: path}, "n")
		var se *chat.SendError
		if !errors.As(err, &se) || se.Outcome != chat.Permanent || !se.Refused || se.Reason != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	f, size, err := l.Open(chat.File{Path: put("fits", "123")}, "n")
	if err != nil || size != 3 {
		t.Fatalf("%d, %v", size, err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "123" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestCopyEndsAtTheLimit(t *testing.T) {
	for data, want := range map[string]bool{"": true, "12": true, "123": true, "1234": false, "123456": false} {
		var b bytes.Buffer
		whole, err := attachment.Copy(&b, iotest.OneByteReader(strings.NewReader(data)), 3)
		if err != nil || whole != want || b.String() != data[:min(3, len(data))] {
			t.Errorf("%q: %q %v %v", data, &b, whole, err)
		}
	}
	if _, err := attachment.Copy(io.Discard, iotest.ErrReader(io.ErrUnexpectedEOF), 3); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a download that breaks: %v", err)
	}
	for n, want := range map[int64]string{1: "1 KB", 1024: "1 KB", 1025: "2 KB", 20 << 20: "20 MB"} {
		if err := attachment.TooLarge(n); !strings.Contains(err.Error(), "than "+want+",") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestLate(t *testing.T) {
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	gone, cancelGone := context.WithCancel(t.Context())
	cancelGone()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		late bool
	}{
		{over, io.ErrUnexpectedEOF, true},
		{t.Context(), &url.Error{Op: "Get", URL: "/", Err: os.ErrDeadlineExceeded}, true},
		{t.Context(), io.ErrUnexpectedEOF, false},
		{gone, context.Canceled, false},
	} {
		if got := attachment.TimedOut(c.ctx, c.err); got != c.late {
			t.Errorf("%v, %v: %v", c.ctx.Err(), c.err, got)
		}
	}
}
