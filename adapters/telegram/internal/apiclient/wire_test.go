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
type secondTry struct{ body []byte }

func (s *secondTry) RoundTrip(req *http.Request) (*http.Response, error) {
	lost := errors.New("connection lost")
	if req.GetBody == nil {
		return nil, lost
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	trace := httptrace.ContextClientTrace(req.Context())
	trace.GetConn("")
	trace.GotConn(httptrace.GotConnInfo{})
	s.body, _ = io.ReadAll(body)
	return nil, lost
}

func TestRepeatedBodyCountsAsSent(t *testing.T) {
	for _, size := range []int{10, 5 << 20} {
		content := bytes.Repeat([]byte("x"), size)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.test/bot1:t/sendDocument", bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		transport := &secondTry{}
		resp, err := (&apiclient.Client{RT: transport, Token: "1:t"}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		var lost *apiclient.Error
		if !bytes.Equal(transport.body, content) {
			t.Errorf("%d bytes: the second connection got %d", size, len(transport.body))
		}
		if !errors.As(err, &lost) || !lost.Sent {
			t.Errorf("%d bytes were written, but the request does not count as sent: %v", size, err)
		}
	}
}
