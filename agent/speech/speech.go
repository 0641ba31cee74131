// Package speech turns recordings into text and text into recordings, through
// services that speak OpenAI's /audio/transcriptions and /audio/speech: OpenAI
// itself, Groq, and servers at home such as speaches or LocalAI.
//
// A failure is an *Error, whose words a person can be shown. What may pass is
// tried again a few times within the time that the whole call may take; a wait
// that the service asks for is kept.
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

// A Service says how to reach a service.
type Service struct {
	BaseURL string       // up to and with /v1
	Key     secret.Value // "": none is sent, for servers at home
	HTTP    *http.Client // required; it decides what can be reached
	// Timeout bounds a whole call with its retries; 0: 2 minutes.
	Timeout    time.Duration
	Retries    int           // after the first try; 0: 2, negative: none
	RetryDelay time.Duration // wait before the first retry, doubled each time; 0: 1 second
}

const (
	defaultTimeout = 2 * time.Minute
	defaultRetries = 2
	defaultFirst   = time.Second
)

// check returns s with its defaults, or what is wrong in the operator's words.
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

// An Error is a call that failed. Its text says what happened and what helps, and
// holds no secret.
type Error struct {
	Status    int           // HTTP status; 0 if there was none
	After     time.Duration // how long the service wants to be left alone; 0 if it does not say
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

// A format of sound, as its first bytes tell.
type format struct{ extension, mime string }

// formatOf returns the format of a file that begins with head; the zero format
// if it is none that the services take.
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

const headSize = 16 // bytes that tell a format

// oneLine returns foreign words on one line, at most limit characters of them.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// seconds writes a wait as people do.
func seconds(d time.Duration) string {
	return fmt.Sprint(max(d, time.Second).Round(time.Second))
}
