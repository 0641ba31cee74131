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
	speechName   = "the speech service"
	defaultChars = 4000
	maxChars     = 4096     // limit of the services
	maxSound     = 20 << 20 // bytes of a recording
)

// SpeakerOptions configure a Speaker.
type SpeakerOptions struct {
	Service
	Model string // such as tts-1 or gpt-4o-mini-tts
	Voice string // such as alloy
	// Format is "opus", which platforms show as a voice message, or "mp3"; "": opus.
	Format string
	// MaxChars is the maximum length of a text; longer texts are truncated. 0: 4000, at
	// most 4096.
	MaxChars int
}

// A Speaker synthesizes speech. Its methods may be called from any goroutine.
type Speaker struct{ o SpeakerOptions }

// A Recording is the synthesized speech of a text.
type Recording struct {
	Path string // new file with mode 0600, to be removed by the caller
	MIME string // audio/ogg, audio/mpeg or audio/wav
	// LeftOut is the number of characters at the end of the text that were not spoken.
	LeftOut int
}

// NewSpeaker returns a speaker. It fails for invalid options, and does not use the network.
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
	case o.MaxChars < 1 || o.MaxChars > maxChars:
		return nil, fmt.Errorf("speech: the longest text must have between 1 and %d characters", maxChars)
	}
	return &Speaker{o}, nil
}

// Speak synthesizes text, which is spoken literally and so must not be Markdown, into a
// file in dir. A text that is too long is truncated after a sentence. The file gets its
// final name only once it is complete and on disk; after an error no file is left. The
// error is an *Error, or the cause of the end of ctx.
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
		Service: s.o.Service, name: speechName,
		request: func(ctx context.Context) (*http.Request, error) { return s.request(ctx, spoken) },
		read: func(body io.Reader) error {
			kind, err = save(f, body)
			return err
		},
	}
	err = c.do(ctx)
	path := strings.TrimSuffix(f.Name(), "part") + kind.extension
	if err != nil {
		_ = f.Close() // the first error is returned
	} else if wrong := finish(f, path); wrong != nil {
		err = &Error{Text: "the speech cannot be written", Err: wrong}
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return Recording{}, err
	}
	return Recording{Path: path, MIME: kind.mime, LeftOut: left}, nil
}

// finish closes f and gives it its final name once it is on disk.
func finish(f *os.File, path string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (s *Speaker) request(ctx context.Context, text string) (*http.Request, error) {
	body, err := json.Marshal(map[string]string{"model": s.o.Model, "input": text, "voice": s.o.Voice, "response_format": s.o.Format})
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", speechName, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.BaseURL+"/audio/speech", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", speechName, err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// save writes a response to f, from its beginning, and returns its actual format, which may
// differ from the requested one.
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
		return kind, &Error{Status: http.StatusOK, Temporary: true, Text: speechName + " answered something that is no sound; check its base URL and the format"}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return kind, &Error{Text: "the speech cannot be written", Err: err}
	}
	if err := f.Truncate(0); err != nil {
		return kind, &Error{Text: "the speech cannot be written", Err: err}
	}
	w := &fileWriter{f: f}
	size, err := io.Copy(w, io.LimitReader(io.MultiReader(bytes.NewReader(head[:n]), body), maxSound+1))
	switch {
	case w.err != nil:
		return kind, &Error{Text: "the speech cannot be written", Err: w.err}
	case err != nil:
		return kind, err
	case size > maxSound:
		return kind, &Error{Text: fmt.Sprintf("%s answered with more than %d MB", speechName, maxSound>>20)}
	}
	return kind, nil
}

// A fileWriter records write errors, so that they can be distinguished from read errors.
type fileWriter struct {
	f   *os.File
	err error
}

func (d *fileWriter) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	d.err = err
	return n, err
}

// shorten returns the beginning of text with at most limit characters, cut after a sentence
// or a word if one ends nearby, and the number of characters left out.
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
