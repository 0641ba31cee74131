package speech

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode"
)

const (
	speakerName  = "the speech service"
	defaultChars = 4000
	maxChars     = 4096     // as the service takes them
	maxSound     = 20 << 20 // bytes of a speech
)

// SpeakerOptions say which service speaks, and how.
type SpeakerOptions struct {
	Service
	Model string // such as tts-1 or gpt-4o-mini-tts
	Voice string // such as alloy
	// Format is "opus", which platforms show as a voice message, or "mp3"; "": opus.
	Format string
	Speed  float64 // 0.25 to 4; 0: the service's own
	// MaxChars is the longest text; what is longer is cut. 0: 4000, at most 4096.
	MaxChars int
}

// A Speaker reads texts aloud. Its methods may be called from any goroutine.
type Speaker struct{ o SpeakerOptions }

// A Recording is a spoken text.
type Recording struct {
	Path string // of a file of its own, with mode 0600, that the caller removes
	MIME string // audio/ogg, audio/mpeg or audio/wav
	// LeftOut is how many characters at the end of the text were not spoken.
	LeftOut int
}

// NewSpeaker returns a speaker. It fails on options that cannot work, and does
// nothing on the network.
func NewSpeaker(o SpeakerOptions) (*Speaker, error) {
	var err error
	if o.Service, err = o.check(); err != nil {
		return nil, err
	}
	o.Format = cmp.Or(o.Format, "opus")
	o.MaxChars = cmp.Or(o.MaxChars, defaultChars)
	switch {
	case o.Model == "" || o.Voice == "":
		return nil, errors.New("speech: there is no model or no voice to speak with")
	case o.Format != "opus" && o.Format != "mp3":
		return nil, fmt.Errorf("speech: the format %q is none of opus, mp3", o.Format)
	case o.Speed != 0 && (o.Speed < 0.25 || o.Speed > 4):
		return nil, fmt.Errorf("speech: the speed %v is not between 0.25 and 4", o.Speed)
	case o.MaxChars < 1 || o.MaxChars > maxChars:
		return nil, fmt.Errorf("speech: the longest text must have between 1 and %d characters", maxChars)
	}
	return &Speaker{o}, nil
}

// Speak writes text, which is spoken as it is, so without Markdown, into a file
// in dir. A text that is too long is cut behind a sentence. The file has its name
// only once it is complete and on disk; after an error none is left.
func (s *Speaker) Speak(ctx context.Context, text, dir string) (Recording, error) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return Recording{}, &Error{Text: "there is nothing in the text that can be spoken"}
	}
	spoken, left := shorten(text, s.o.MaxChars)
	f, err := os.CreateTemp(dir, "speech-*.part")
	if err != nil {
		return Recording{}, &Error{Text: "the speech cannot be written", Err: err}
	}
	var kind format
	c := &call{
		Service: s.o.Service, name: speakerName,
		request: func(ctx context.Context) (*http.Request, error) { return s.request(ctx, spoken) },
		read: func(body io.Reader) error {
			kind, err = save(f, body)
			return err
		},
	}
	err = c.do(ctx)
	if err == nil {
		if err = f.Sync(); err != nil {
			err = &Error{Text: "the speech cannot be written", Err: err}
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	path := strings.TrimSuffix(f.Name(), "part") + kind.extension
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that matters is the first one
		return Recording{}, err
	}
	return Recording{Path: path, MIME: kind.mime, LeftOut: left}, nil
}

func (s *Speaker) request(ctx context.Context, text string) (*http.Request, error) {
	q := map[string]any{"model": s.o.Model, "input": text, "voice": s.o.Voice, "response_format": s.o.Format}
	if s.o.Speed != 0 {
		q["speed"] = s.o.Speed
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", speakerName, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.BaseURL+"/audio/speech", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", speakerName, err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// save writes an answer to f, from its beginning, and returns its format: what
// it is, which need not be what was asked for.
func save(f *os.File, body io.Reader) (format, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return format{}, err
	}
	kind := formatOf(head[:n])
	switch kind.extension {
	case "ogg", "mp3", "wav":
	default:
		return kind, &Error{Status: http.StatusOK, Temporary: true, Text: speakerName + " answered something that is no sound; check its base URL and the format"}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return kind, &Error{Text: "the speech cannot be written", Err: err}
	}
	if err := f.Truncate(0); err != nil {
		return kind, &Error{Text: "the speech cannot be written", Err: err}
	}
	w := &disk{f: f}
	size, err := io.Copy(w, io.LimitReader(io.MultiReader(bytes.NewReader(head[:n]), body), maxSound+1))
	switch {
	case w.err != nil:
		return kind, &Error{Text: "the speech cannot be written", Err: w.err}
	case err != nil:
		return kind, err
	case size > maxSound:
		return kind, &Error{Text: fmt.Sprintf("%s answered with more than %d MB", speakerName, maxSound>>20)}
	}
	return kind, nil
}

// A disk tells errors of writing from those of reading.
type disk struct {
	f   *os.File
	err error
}

func (d *disk) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	d.err = err
	return n, err
}

// shorten returns the beginning of text that has at most limit characters, up to
// the end of a sentence or a word where there is one near, and how many
// characters were left out.
func shorten(text string, limit int) (string, int) {
	runes := []rune(text)
	if len(runes) <= limit {
		return text, 0
	}
	end := limit
	for _, ends := range []func(i int) bool{
		func(i int) bool {
			return strings.ContainsRune("。！？\n", runes[i-1]) || strings.ContainsRune(".!?…", runes[i-1]) && unicode.IsSpace(runes[i])
		},
		func(i int) bool { return unicode.IsSpace(runes[i]) },
	} {
		at := limit
		for at > limit/2 && !ends(at) {
			at--
		}
		if at > limit/2 {
			end = at
			break
		}
	}
	return strings.TrimRightFunc(string(runes[:end]), unicode.IsSpace), len(runes) - end
}
