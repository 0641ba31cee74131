package speech_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/speech"
	sim "hermesd/internal/sim/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-good-key"

func service(s *sim.Server) speech.Service {
	return speech.Service{BaseURL: s.URL + "/v1/", Key: key, HTTP: s.Client()}
}

func transcriber(t testing.TB, s *sim.Server, change func(*speech.TranscriberOptions)) *speech.Transcriber {
	t.Helper()
	o := speech.TranscriberOptions{Service: service(s), Model: "whisper-1"}
	if change != nil {
		change(&o)
	}
	tr, err := speech.NewTranscriber(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func speaker(t testing.TB, s *sim.Server, change func(*speech.SpeakerOptions)) *speech.Speaker {
	t.Helper()
	o := speech.SpeakerOptions{Service: service(s), Model: "tts-1", Voice: "alloy"}
	if change != nil {
		change(&o)
	}
	sp, err := speech.NewSpeaker(o)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

// file writes a file and returns its path.
func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// bubble runs f with a server in a synctest bubble.
func bubble(t *testing.T, o sim.Options, f func(t *testing.T, s *sim.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Keys = []string{key}
		s := sim.New(o)
		defer s.Close()
		f(t, s)
	})
}

func TestTranscribeFormats(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{key}})
	defer s.Close()
	tr := transcriber(t, s, func(o *speech.TranscriberOptions) { o.Language = "de" })
	for _, format := range []string{"ogg", "mp3", "wav", "flac", "m4a", "webm"} {
		want := "Grüße aus " + format
		got, err := tr.Transcribe(t.Context(), file(t, "a secret name.bin", sim.Sound(format, want)))
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v", format, got, err)
		}
	}
	for _, e := range s.Requests() {
		if e.Model != "whisper-1" || e.Audio.Language != "de" || e.Audio.File != "recording."+e.Audio.Format || e.Header.Get("Authorization") != "<key>" {
			t.Errorf("got %+v of %s", e.Audio, e.Model)
		}
	}
}

// The request works over a real connection too, and has a known length.
func TestTranscribeOverConnection(t *testing.T) {
	s, err := sim.Start(sim.Options{Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	tr := transcriber(t, s, func(o *speech.TranscriberOptions) { o.HTTP = c })
	sp := speaker(t, s, func(o *speech.SpeakerOptions) { o.HTTP = c })
	r, err := sp.Speak(t.Context(), "There and back.", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := tr.Transcribe(t.Context(), r.Path)
	if err != nil || got != "There and back." {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTranscribeRejectsInvalidFiles(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	large := file(t, "large.ogg", sim.Sound("ogg", "x"))
	if err := os.Truncate(large, 26<<20); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file(t, "empty", nil):                           "the recording is empty",
		file(t, "text", []byte("hello")):                "no recording that can be transcribed; Ogg, MP3",
		file(t, "picture", []byte("\x89PNG\r\n\x1a\n")): "no recording that can be transcribed",
		t.TempDir():                        "the recording is not a file",
		filepath.Join(t.TempDir(), "none"): "the recording cannot be read",
		large:                              "has 26 MB and at most 25 MB can be transcribed",
	} {
		if _, err := transcriber(t, s, nil).Transcribe(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if s.Count() != 0 {
		t.Errorf("%d requests came", s.Count())
	}
}

func TestTranscribeSilence(t *testing.T) {
	s := sim.New(sim.Options{Hear: func(sim.Request) string { return " \n" }})
	defer s.Close()
	if _, err := transcriber(t, s, nil).Transcribe(t.Context(), file(t, "a", sim.Sound("ogg", "x"))); !errors.Is(err, speech.ErrSilence) {
		t.Errorf("got %v", err)
	}
}

// TestFailures simulates permanent and temporary failures, and checks the number of
// attempts and the time they take.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fault sim.Fault
		want  string // "" if the call succeeds
		asked int
		least time.Duration
		most  time.Duration
	}{
		"key":           {sim.Fault{Kind: sim.Unauthorized, Times: -1}, "refuses the key (401); set another one", 1, 0, 0},
		"forbidden":     {sim.Fault{Kind: sim.Forbidden, Times: -1}, "refuses the key (403)", 1, 0, 0},
		"unpaid":        {sim.Fault{Kind: sim.Unpaid, Times: -1}, "has no credit left (402); add some", 1, 0, 0},
		"quota":         {sim.Fault{Kind: sim.Custom, Status: 429, Text: `{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}`, Times: -1}, "has no credit left (429)", 1, 0, 0},
		"missing":       {sim.Fault{Kind: sim.Missing, Times: -1}, "check the base URL and the model. It says: The model", 1, 0, 0},
		"too large":     {sim.Fault{Kind: sim.TooLarge, Times: -1}, "too large for", 1, 0, 0},
		"refused":       {sim.Fault{Kind: sim.Custom, Status: 400, Text: `{"error":{"message":"bad ` + key + `\n thing"}}`, Times: -1}, "refuses the request (400). It says: bad <secret> thing", 1, 0, 0},
		"once":          {sim.Fault{Kind: sim.ServerError}, "", 2, time.Second, 1500 * time.Millisecond},
		"twice":         {sim.Fault{Kind: sim.BadGateway, Times: 2}, "", 3, 3 * time.Second, 4500 * time.Millisecond},
		"for good":      {sim.Fault{Kind: sim.Overloaded, Times: -1}, "has a fault (529); try again later", 3, 3 * time.Second, 4500 * time.Millisecond},
		"hint":          {sim.Fault{Kind: sim.TooMany, After: 20 * time.Second}, "", 2, 20 * time.Second, 20 * time.Second},
		"hint too long": {sim.Fault{Kind: sim.TooMany, After: 10 * time.Minute}, "asked too often (429); try again in 10m0s", 1, 0, 0},
		"cut":           {sim.Fault{Kind: sim.Cut, At: 4}, "", 2, time.Second, 1500 * time.Millisecond},
		"cut for good":  {sim.Fault{Kind: sim.Cut, At: 40, Times: -1}, "broke off in its answer", 3, 3 * time.Second, 4500 * time.Millisecond},
		"garbage":       {sim.Fault{Kind: sim.Garbage}, "", 2, time.Second, 1500 * time.Millisecond},
		"no answer":     {sim.Fault{Kind: sim.NoAnswer, Times: -1}, "did not answer within 2m0s; try again later", 1, 2 * time.Minute, 2 * time.Minute},
		"stalls":        {sim.Fault{Kind: sim.Stall, Times: -1}, "did not answer within 2m0s", 1, 2 * time.Minute, 2 * time.Minute},
	} {
		for side, do := range map[string]func(t *testing.T, s *sim.Server) error{
			"transcribe": func(t *testing.T, s *sim.Server) error {
				got, err := transcriber(t, s, nil).Transcribe(t.Context(), file(t, "a", sim.Sound("ogg", strings.Repeat("hello", 20))))
				if err == nil && got != strings.Repeat("hello", 20) {
					t.Errorf("got %q", got)
				}
				return err
			},
			"speak": func(t *testing.T, s *sim.Server) error {
				dir := t.TempDir()
				r, err := speaker(t, s, nil).Speak(t.Context(), "hello", dir)
				if err == nil {
					if data, readErr := os.ReadFile(r.Path); readErr != nil || !bytes.Equal(data, sim.Sound("ogg", "hello")) {
						t.Errorf("%d bytes in the file, %v", len(data), readErr)
					}
				} else if left, readErr := os.ReadDir(dir); readErr != nil || len(left) != 0 {
					t.Errorf("left behind: %v, %v", left, readErr)
				}
				return err
			},
		} {
			t.Run(name+"/"+side, func(t *testing.T) {
				bubble(t, sim.Options{}, func(t *testing.T, s *sim.Server) {
					s.Inject(c.fault)
					began := time.Now()
					err := do(t, s)
					took := time.Since(began)
					if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key)) {
						t.Errorf("got %v, want %q", err, c.want)
					}
					if _, ok := errors.AsType[*speech.Error](err); err != nil && !ok {
						t.Errorf("%T is not an *Error", err)
					}
					if s.Count() != c.asked || took < c.least || took > c.most {
						t.Errorf("asked %d times in %s, want %d in %s to %s", s.Count(), took, c.asked, c.least, c.most)
					}
				})
			})
		}
	}
}

func TestCanceledCallReturnsCause(t *testing.T) {
	stop := errors.New("the person said stop")
	for name, f := range map[string]sim.Fault{"while it waits for an answer": {Kind: sim.NoAnswer}, "while it waits to try again": {Kind: sim.TooMany, After: time.Minute, Times: -1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, sim.Options{}, func(t *testing.T, s *sim.Server) {
				s.Inject(f)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(stop) })
				dir := t.TempDir()
				began := time.Now()
				_, err := speaker(t, s, nil).Speak(ctx, "hello", dir)
				if left, _ := os.ReadDir(dir); !errors.Is(err, stop) || time.Since(began) != time.Second || len(left) != 0 {
					t.Errorf("got %v after %s, left %v", err, time.Since(began), left)
				}
			})
		})
	}
}

func TestSpeakCreatesFile(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{key}})
	defer s.Close()
	for format, want := range map[string]struct{ extension, mime, asked string }{
		"": {".ogg", "audio/ogg", "opus"}, "mp3": {".mp3", "audio/mpeg", "mp3"},
	} {
		dir := t.TempDir()
		sp := speaker(t, s, func(o *speech.SpeakerOptions) { o.Format = format })
		r, err := sp.Speak(t.Context(), "  hello  ", dir)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(r.Path)
		if err != nil || filepath.Ext(r.Path) != want.extension || r.MIME != want.mime || filepath.Dir(r.Path) != dir || r.LeftOut != 0 || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("got %+v, %v, %v", r, info.Mode(), err)
		}
		all := s.Requests()
		if last := all[len(all)-1]; last.Audio.Text != "hello" || last.Audio.Format != want.asked || last.Audio.Voice != "alloy" {
			t.Errorf("asked %+v", last.Audio)
		}
	}
}

func TestSpeakErrors(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	for _, c := range []struct{ text, dir, want string }{
		{" \n", t.TempDir(), "nothing in the text that can be spoken"},
		{"… 🙂 !", t.TempDir(), "nothing in the text that can be spoken"},
		{"hello", filepath.Join(t.TempDir(), "none"), "the speech cannot be written"},
		{"hello", file(t, "a file", nil), "the speech cannot be written"},
	} {
		if _, err := speaker(t, s, nil).Speak(t.Context(), c.text, c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
	if s.Count() != 0 {
		t.Errorf("%d requests came", s.Count())
	}
}

func TestSpeakRejectsEndlessAudio(t *testing.T) {
	c := &http.Client{Transport: endless{}}
	sp, err := speech.NewSpeaker(speech.SpeakerOptions{Service: speech.Service{BaseURL: "http://x.test", HTTP: c}, Model: "m", Voice: "v"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = sp.Speak(t.Context(), "hello", dir)
	if left, _ := os.ReadDir(dir); err == nil || !strings.Contains(err.Error(), "answered with more than 20 MB") || len(left) != 0 {
		t.Errorf("got %v, left %v", err, left)
	}
}

// An error of the file system is an *Error, also where the file gets its final name.
func TestSpeakCannotRename(t *testing.T) {
	dir := t.TempDir()
	c := &http.Client{Transport: occupant{dir}}
	sp, err := speech.NewSpeaker(speech.SpeakerOptions{Service: speech.Service{BaseURL: "http://x.test", HTTP: c}, Model: "m", Voice: "v"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sp.Speak(t.Context(), "hello", dir)
	if e, ok := errors.AsType[*speech.Error](err); !ok || e.Temporary || !strings.HasPrefix(e.Text, "the speech cannot be written") {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.part")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// An occupant answers with audio, and makes a directory with the name that the file in
// dir is to have.
type occupant struct{ dir string }

func (o occupant) RoundTrip(r *http.Request) (*http.Response, error) {
	parts, err := filepath.Glob(filepath.Join(o.dir, "*.part"))
	if err != nil || len(parts) != 1 {
		return nil, fmt.Errorf("files: %v, %v", parts, err)
	}
	if err := os.Mkdir(strings.TrimSuffix(parts[0], "part")+"ogg", 0o700); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("OggS and more")), Request: r}, nil
}

// endless responds with infinite audio data.
type endless struct{}

func (endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: endless{}, Request: r}, nil
}

func (endless) Read(p []byte) (int, error) { copy(p, "OggS"); return len(p), nil }

func (endless) Close() error { return nil }

// A long text is truncated, after a sentence if possible.
func TestSpeakTruncatesLongTexts(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	for text, want := range map[string]string{
		"One. Two two. Three three three": "One. Two two.",
		"一。二二二二二二二二二二。三三三三三三三三三":          "一。二二二二二二二二二二。",
		"words without any sentence here": "words without any",
		strings.Repeat("x", 30):           strings.Repeat("x", 18),
		"version 1.2.3.4.5.6.7.8.9":       "version",
		"exactly eighteen !":              "exactly eighteen !",
	} {
		r, err := speaker(t, s, func(o *speech.SpeakerOptions) { o.MaxChars = 18 }).Speak(t.Context(), text, t.TempDir())
		all := s.Requests()
		got := all[len(all)-1].Audio.Text
		if err != nil || (got != want && text[0] != 'v') || r.LeftOut+utf8.RuneCountInString(got) > utf8.RuneCountInString(text) {
			t.Errorf("%q: got %q (%d left out), %v", text, got, r.LeftOut, err)
		}
	}
}

func TestSpeakTruncatesAtBeginning(t *testing.T) {
	s := sim.New(sim.Options{NoBodies: true})
	defer s.Close()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		text := "a" + rapid.String().Draw(rt, "text")
		limit := rapid.IntRange(1, 30).Draw(rt, "limit")
		r, err := speaker(t, s, func(o *speech.SpeakerOptions) { o.MaxChars = limit }).Speak(t.Context(), text, dir)
		if err != nil {
			rt.Fatal(err)
		}
		all := s.Requests()
		got := all[len(all)-1].Audio.Text
		if !strings.HasPrefix(strings.TrimSpace(text), got) || utf8.RuneCountInString(got) > limit || got == "" {
			rt.Fatalf("%q with %d became %q", text, limit, got)
		}
		if whole := utf8.RuneCountInString(strings.TrimSpace(text)); whole <= limit && (r.LeftOut != 0 || utf8.RuneCountInString(got) != whole) {
			rt.Fatalf("%q fits, but became %q", text, got)
		}
	})
}

func TestOptionsValidate(t *testing.T) {
	good := speech.Service{BaseURL: "https://a.test/v1", HTTP: http.DefaultClient}
	for want, s := range map[string]speech.Service{
		"there is no HTTP client": {BaseURL: "https://a.test/v1"},
		"write the base URL as":   {BaseURL: "a.test/v1", HTTP: http.DefaultClient},
		"without a name":          {BaseURL: "https://me:pw@a.test/v1", HTTP: http.DefaultClient},
	} {
		if _, err := speech.NewTranscriber(speech.TranscriberOptions{Service: s, Model: "m"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := speech.NewTranscriber(speech.TranscriberOptions{Service: good}); err == nil {
		t.Error("a transcriber without a model")
	}
	for _, o := range []speech.SpeakerOptions{
		{Service: good, Voice: "v"},
		{Service: good, Model: "m"},
		{Service: good, Model: "m", Voice: "v", Format: "midi"},
		{Service: good, Model: "m", Voice: "v", MaxChars: 5000},
	} {
		if _, err := speech.NewSpeaker(o); err == nil {
			t.Errorf("%+v is valid", o)
		}
	}
	if got := fmt.Sprintf("%+v", speech.Service{Key: key}); strings.Contains(got, key) {
		t.Errorf("the key is printed: %s", got)
	}
}

func FuzzTranscriptions(f *testing.F) {
	f.Add([]byte(`{"text":"hello"}`))
	f.Add([]byte(`{"text":null}`))
	f.Add([]byte(`{"text":"a\u0000\u001b[2J\ud800"}`))
	path := file(f, "a", sim.Sound("wav", "x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o := speech.TranscriberOptions{Service: speech.Service{BaseURL: "http://x.test", HTTP: &http.Client{Transport: fixed(raw)}, Retries: -1}, Model: "m"}
		tr, err := speech.NewTranscriber(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tr.Transcribe(t.Context(), path)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b\r") || (got == "") != (err != nil) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// fixed responds to everything with the same bytes.
type fixed []byte

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: http.NoBody}
	if len(f) > 0 {
		w.Body = body{bytes.NewReader(f)}
	}
	return w, r.Body.Close()
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }
