package apiclient_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"

	"hermesd/adapters/telegram/internal/apiclient"
)

// A secondTry is a transport whose first connection turns out dead before the
// request is written, as net/http does it: it sends the body of GetBody on
// another connection, and gets no answer there.
type secondTry struct{ first, second []byte }

func (s *secondTry) RoundTrip(req *http.Request) (*http.Response, error) {
	lost := errors.New("connection lost")
	s.first = make([]byte, min(100, req.ContentLength))
	if _, err := io.ReadFull(req.Body, s.first); err != nil {
		return nil, err
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	trace := httptrace.ContextClientTrace(req.Context())
	trace.GetConn("")
	trace.GotConn(httptrace.GotConnInfo{})
	s.second, _ = io.ReadAll(body)
	if int64(len(s.second)) != req.ContentLength {
		return nil, errors.New("of another length than declared")
	}
	return nil, lost
}

func TestRepeatedBodyCountsAsSent(t *testing.T) {
	for _, size := range []int{0, 10, 5 << 20} {
		file := bytes.Repeat([]byte("x"), size)
		ctx, upload := apiclient.WithUpload(t.Context(), bytes.NewReader(file), int64(size))
		content := upload.Reader()
		if size == 0 { // no upload
			ctx, content = t.Context(), bytes.NewReader(nil)
		}
		form, _ := io.ReadAll(io.MultiReader(bytes.NewReader([]byte("before ")), content, bytes.NewReader([]byte(" after"))))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.test/bot1:t/sendDocument", bytes.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		transport := &secondTry{}
		resp, err := (&apiclient.Client{RT: transport, Token: "1:t"}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		want := "before " + string(file) + " after"
		if string(transport.second) != want {
			t.Errorf("%d bytes: the second connection got %d", size, len(transport.second))
		}
		var lost *apiclient.Error
		if !errors.As(err, &lost) || !lost.Sent {
			t.Errorf("%d bytes were written, but the request does not count as sent: %v", size, err)
		}
	}
}
