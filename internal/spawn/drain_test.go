//go:build unix

package spawn

import (
	"bytes"
	"os"
	"testing"
)

// A slowWriter blocks its first Write.
type slowWriter struct {
	began, goOn chan struct{}
	read        []byte
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.read == nil {
		close(w.began)
		<-w.goOn
	}
	w.read = append(w.read, p...)
	return len(p), nil
}

// What a process has written is complete even if nobody has read it when the time for
// reading is over.
func TestSlowReaderLosesNoOutput(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"the writer has ended": false, "another process has the pipe open": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			var o outputs
			sink := &slowWriter{began: make(chan struct{}), goOn: make(chan struct{})}
			o.copies.Go(func() { o.copy(sink, r) })
			rest := bytes.Repeat([]byte("x"), 48<<10)
			for i, p := range [][]byte{[]byte("first"), rest} {
				if _, err := w.Write(p); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					<-sink.began
				}
			}
			if !open {
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			interruptRead(r)
			close(sink.goOn)
			o.copies.Wait()
			if want := "first" + string(rest); string(sink.read) != want {
				t.Errorf("%d of %d bytes were read", len(sink.read), len(want))
			}
			if o.held.Load() != open {
				t.Errorf("held open: %t, want %t", o.held.Load(), open)
			}
		})
	}
}
