package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hermesd/adapters/internal/transport"
)

// A Refusal is the Bot API's own error response to a poll.
type Refusal struct {
	Code  int
	After time.Duration // requested delay; 0: none
	Text  string
}

func (e *Refusal) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Text) }

// Poll makes one getUpdates call with the parameters form and returns the
// undecoded updates. Its error is a *Refusal or an *Error.
func (w *Client) Poll(ctx context.Context, u *url.URL, form url.Values) ([]json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("create poll request: invalid address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := (&http.Client{Transport: w.RT, CheckRedirect: transport.NoRedirect}).Do(req)
	if err != nil {
		return nil, w.lost(true, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, w.lost(true, err)
	}
	return updates(resp.StatusCode, body)
}

// updates decodes the answer to a poll.
func updates(status int, body []byte) ([]json.RawMessage, error) {
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil || env.OK == nil {
		return nil, &Error{Status: status, text: fmt.Sprintf("answer with status %d is not from the Bot API", status)}
	}
	if !*env.OK {
		return nil, &Refusal{Code: env.ErrorCode, After: time.Duration(env.Parameters.RetryAfter) * time.Second, Text: env.Description}
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(env.Result, &raws); err != nil {
		return nil, &Error{Status: status, text: "poll result is not a list"}
	}
	return raws, nil
}

// Form parses the parameters of the library's request.
func Form(req *http.Request) (url.Values, error) {
	_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	f, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		return nil, err
	}
	return url.Values(f.Value), nil
}

// Answer returns the response that the library gets for a batch of n updates:
// only the last ID, from which it computes the next offset.
func Answer(last int64, n int) *http.Response {
	body := []byte(`{"ok":true,"result":[]}`)
	if n > 0 {
		body = fmt.Appendf(nil, `{"ok":true,"result":[{"update_id":%d}]}`, last)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
