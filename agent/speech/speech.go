// Package speech implements transcription and speech synthesis with services that implement
// OpenAI's /audio/transcriptions and /audio/speech: OpenAI, Groq, and local servers such as
// speaches or LocalAI. The main types are Transcriber and Speaker.
//
// A failure is an *Error, whose text can be shown to users. Temporary failures are retried
// a few times within the time limit of the whole call; a delay that the service asks for is
// observed.
package speech

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

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
