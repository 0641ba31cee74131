// Package speech implements transcription and speech synthesis with services that implement
// OpenAI's /audio/transcriptions and /audio/speech: OpenAI, Groq, and local servers such as
// speaches or LocalAI. The main types are Transcriber and Speaker.
//
// A failure is an *Error, whose text can be shown to users. Temporary failures are retried
// a few times within the time limit of the whole call; a delay that the service asks for is
// observed.
package speech

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hermesd/internal/backoff"
	"hermesd/internal/secret"
)

// A Service configures the access to a service.
type Service struct {
	BaseURL string       // including /v1
	Key     secret.Value // "": none is sent, for local servers
	HTTP    *http.Client // required; determines which hosts can be reached
	// Timeout limits a whole call including retries; 0: 2 minutes.
	Timeout    time.Duration
	Retries    int           // after the first attempt; 0: 2, negative: none
	RetryDelay time.Duration // wait before the first retry, doubled each time; 0: 1 second
}

const (
	defaultTimeout = 2 * time.Minute
	defaultRetries = 2
	defaultFirst   = time.Second
)

// check returns s with its defaults, or an error for the operator.
func (s Service) check() (Service, error) {
	u, err := url.Parse(s.BaseURL)
	switch {
	case s.HTTP == nil:
		return s, errors.New("speech: there is no HTTP client")
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "":
		return s, errors.New("speech: write the base URL as https://host/v1, without a name, password or query")
	}
	s.BaseURL = strings.TrimRight(s.BaseURL, "/")
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	switch {
	case s.Retries == 0:
		s.Retries = defaultRetries
	case s.Retries < 0:
		s.Retries = 0
	}
	if s.RetryDelay <= 0 {
		s.RetryDelay = defaultFirst
	}
	return s, nil
}

// An Error is a failed call. Its text says what happened and what to do, and contains no
// secret.
type Error struct {
	Status    int           // HTTP status; 0 if there was none
	After     time.Duration // delay that the service asked for; 0 if none
	Temporary bool          // the same call may succeed later
	Text      string
	Err       error // nil, or the cause
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Text + ": " + e.Err.Error()
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.Err }

type format struct{ extension, mime string }

// formatOf returns the format of a file that begins with head; the zero format if the
// services do not support it.
func formatOf(head []byte) format {
	is := func(at int, magic string) bool {
		return len(head) >= at+len(magic) && string(head[at:at+len(magic)]) == magic
	}
	switch {
	case is(0, "OggS"):
		return format{"ogg", "audio/ogg"}
	case is(0, "ID3"), len(head) > 2 && head[0] == 0xFF && head[1]&0xE6 == 0xE2: // with a tag, or a frame of layer III
		return format{"mp3", "audio/mpeg"}
	case is(0, "RIFF") && is(8, "WAVE"):
		return format{"wav", "audio/wav"}
	case is(0, "fLaC"):
		return format{"flac", "audio/flac"}
	case is(4, "ftyp"):
		return format{"m4a", "audio/mp4"}
	case is(0, "\x1A\x45\xDF\xA3"):
		return format{"webm", "audio/webm"}
	}
	return format{}
}

const headSize = 16 // bytes that determine a format

// oneLine returns untrusted text on one line, at most limit characters.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// formatSeconds formats a delay for users, in whole seconds, at least one.
func formatSeconds(d time.Duration) string {
	return fmt.Sprint(max(d, time.Second).Round(time.Second))
}

// A call is one use of a service, including retries.
type call struct {
	Service
	name string // of the service, for error texts
	// request creates the request of one attempt, without the key.
	request func(ctx context.Context) (*http.Request, error)
	// read processes a successful response. Its error is final if it is an *Error that is
	// not temporary; any other error is a broken connection.
	read func(body io.Reader) error
}

// do runs c. If ctx ends, its cause is returned.
func (c *call) do(ctx context.Context) error {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for try := 0; ; try++ {
		err := c.try(ctx)
		switch {
		case err == nil:
			return nil
		case outer.Err() != nil:
			return context.Cause(outer)
		case ctx.Err() != nil:
			return &Error{Temporary: true, Text: fmt.Sprintf("%s did not answer within %s; try again later", c.name, c.Timeout)}
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Temporary || try == c.Retries {
			return err
		}
		wait := e.After
		if wait <= 0 {
			wait = c.RetryDelay << min(try, 10)
			wait += time.Duration(rand.Float64() * float64(wait) / 2)
		}
		if end, _ := ctx.Deadline(); time.Now().Add(wait).After(end) {
			return err
		}
		if backoff.Sleep(outer, wait) != nil {
			return context.Cause(outer)
		}
	}
}

func (c *call) try(ctx context.Context) error {
	req, err := c.request(ctx)
	if err != nil {
		return err
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key.Reveal())
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return &Error{Temporary: true, Text: c.name + " cannot be reached", Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read only, nothing can be lost
	if resp.StatusCode != http.StatusOK {
		return c.statusError(resp)
	}
	err = c.read(resp.Body)
	if _, ours := errors.AsType[*Error](err); err == nil || ours {
		return err
	}
	return &Error{Temporary: true, Text: c.name + " broke off in its answer", Err: err}
}

const maxErrorBody = 64 << 10 // bytes of an error response that are read

func (c *call) statusError(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a partial body is sufficient
	var body struct {
		Error struct {
			Message string `json:"message"`
			Code    any    `json:"code"`
		} `json:"error"`
	}
	said := ""
	if json.Unmarshal(raw, &body) == nil && body.Error.Message != "" {
		var m secret.Masker
		m.Add(c.Key)
		said = " It says: " + oneLine(m.Mask(body.Error.Message), 300)
	}
	e := &Error{Status: resp.StatusCode, After: retryDelay(resp.Header)}
	switch code := e.Status; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.Text = fmt.Sprintf("%s refuses the key (%d); set another one.", c.name, code)
		return e // the message may contain a part of the key
	case code == http.StatusPaymentRequired || code == http.StatusTooManyRequests && body.Error.Code == "insufficient_quota":
		e.Text = fmt.Sprintf("the account at %s has no credit left (%d); add some, or use another service.", c.name, code)
	case code == http.StatusTooManyRequests:
		e.Temporary = true
		e.Text = fmt.Sprintf("%s was asked too often (429); try again later.", c.name)
		if e.After > 0 {
			e.Text = fmt.Sprintf("%s was asked too often (429); try again in %s.", c.name, formatSeconds(e.After))
		}
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		e.Text = fmt.Sprintf("%s does not know the address or the model (%d); check the base URL and the model.", c.name, code)
	case code == http.StatusRequestEntityTooLarge:
		e.Text = fmt.Sprintf("this is too large for %s (413); send a shorter one.", c.name)
	case code >= 500 || code == http.StatusRequestTimeout:
		e.Temporary = true
		e.Text = fmt.Sprintf("%s has a fault (%d); try again later.", c.name, code)
	default:
		e.Text = fmt.Sprintf("%s refuses the request (%d).", c.name, code)
	}
	e.Text += said
	return e
}

// maxHint is the longest delay that a service may ask for.
const maxHint = time.Hour

// retryDelay returns the delay that the service asked for; 0 if none.
func retryDelay(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s >= 0 {
		return time.Duration(min(s, maxHint.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, time.Until(at)), maxHint)
	}
	return 0
}
