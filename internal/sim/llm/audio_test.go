package llm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	sim "hermesd/internal/sim/llm"
)

const (
	hear  = "/v1/audio/transcriptions"
	speak = "/v1/audio/speech"
)

// upload requests a transcription of a file with these fields.
func upload(t *testing.T, s *sim.Server, name string, data []byte, fields ...string) (int, string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if err := m.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if name != "" {
		p, err := m.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+hear, &b)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", m.FormDataContentType())
	req.Header.Set("Authorization", "Bearer good")
	status, body, _ := do(t, s, req)
	return status, body
}

func TestWhatIsSpokenIsHeard(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	for format, c := range map[string]struct{ file, kind string }{
		"mp3": {"a.mp3", "audio/mpeg"}, "opus": {"a.ogg", "audio/opus"}, "wav": {"a.wav", "audio/wav"}, "flac": {"a.flac", "audio/flac"},
	} {
		text := strings.Repeat("Grüße, 山! ", 100) + format
		raw, err := json.Marshal(map[string]any{"model": "tts", "input": text, "voice": "alloy", "response_format": format})
		if err != nil {
			t.Fatal(err)
		}
		status, sound, h := post(t, s, speak, string(raw))
		if status != 200 || h.Get("Content-Type") != c.kind {
			t.Fatalf("%s: %d %.200s", format, status, sound)
		}
		status, got := upload(t, s, c.file, []byte(sound), "model", "whisper")
		if want := fmt.Sprintf(`{"text":%q}`, text); status != 200 || got != want {
			t.Errorf("%s: got %d %s, want %s", format, status, got, want)
		}
	}
	all := s.Requests()
	if n := len(all); n != 8 {
		t.Fatalf("the recorder has %d entries", n)
	}
	for i, e := range all {
		want := []string{"speech", "transcription"}[i%2]
		if e.Dialect != want || e.Status != 200 || e.Audio == nil || !strings.HasPrefix(e.Audio.Text, "Grüße") || e.Header.Get("Authorization") != "<key>" {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
}

func TestTranscriptionsAreJudged(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}, Models: []string{"m"}, Upload: 10_000})
	defer s.Close()
	ogg := sim.Sound("ogg", "hi")
	for _, c := range []struct {
		name   string
		data   []byte
		fields []string
		status int
		says   string
	}{
		{"a.ogg", ogg, []string{"model", "m", "language", "de", "prompt", "p", "temperature", "0"}, 200, `{"text":"hi"}`},
		{"a.oga", ogg, []string{"model", "m", "response_format", "text"}, 200, "hi\n"},
		{"a.m4a", sim.Sound("m4a", "yes"), []string{"model", "m", "response_format", "verbose_json"}, 200, `"text":"yes"`},
		{"a.webm", sim.Sound("webm", "yes"), []string{"model", "m"}, 200, `{"text":"yes"}`},
		{"", nil, []string{"model", "m"}, 400, "you must provide a file"},
		{"a.ogg", ogg, nil, 400, "you must provide a model parameter"},
		{"a.ogg", ogg, []string{"model", "x"}, 404, "model_not_found"},
		{"a.txt", ogg, []string{"model", "m"}, 400, "Invalid file format. Supported formats: ['flac', "},
		{"a.ogg", []byte("no sound"), []string{"model", "m"}, 400, "might be corrupted or unsupported"},
		{"a.ogg", ogg, []string{"model", "m", "language", "German"}, 400, "ISO-639-1"},
		{"a.ogg", ogg, []string{"model", "m", "response_format", "xml"}, 400, "Input should be 'json'"},
		{"a.ogg", ogg, []string{"model", "m", "temperature", "9"}, 400, "temperature"},
		{"a.ogg", ogg, []string{"model", "m", "colour", "red"}, 400, "Unknown parameter: 'colour'."},
		{"a.ogg", append(ogg, make([]byte, 10_000)...), []string{"model", "m"}, 413, "Maximum content size limit (10000) exceeded"},
	} {
		if status, got := upload(t, s, c.name, c.data, c.fields...); status != c.status || !strings.Contains(got, c.says) {
			t.Errorf("%s %q: got %d %.300s, want %d %q", c.name, c.fields, status, got, c.status, c.says)
		}
	}
	if status, got, _ := post(t, s, hear, "{}"); status != 400 || !strings.Contains(got, "Could not parse multipart form") {
		t.Errorf("got %d %s", status, got)
	}
}

func TestSpeechesAreJudged(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}, Models: []string{"m"}})
	defer s.Close()
	for body, says := range map[string]string{
		`{`: "could not parse",
		`{"model":"m","input":"a","voice":"alloy","x":1}`:                           `unknown field \"x\"`,
		`{"input":"a","voice":"alloy"}`:                                             "provide a model",
		`{"model":"x","input":"a","voice":"alloy"}`:                                 "model_not_found",
		`{"model":"m","voice":"alloy"}`:                                             "string_too_short",
		`{"model":"m","voice":"alloy","input":"` + strings.Repeat("山", 4097) + `"}`: "string_too_long",
		`{"model":"m","input":"a","voice":"bob"}`:                                   "Input should be 'alloy'",
		`{"model":"m","input":"a","voice":"alloy","speed":5}`:                       "speed",
		`{"model":"m","input":"a","voice":"alloy","response_format":"midi"}`:        "response_format",
	} {
		if status, got, _ := post(t, s, speak, body); status != 400 && status != 404 || !strings.Contains(got, says) {
			t.Errorf("%.80s: got %d %s, want %q", body, status, got, says)
		}
	}
}

func TestAudioFailsAsItIsTold(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}})
	defer s.Close()
	for _, c := range []struct {
		f      sim.Fault
		status int
		says   string
	}{
		{sim.Fault{Kind: sim.Unauthorized}, 401, "Incorrect API key"},
		{sim.Fault{Kind: sim.TooMany}, 429, "Rate limit reached"},
		{sim.Fault{Kind: sim.TooLarge}, 413, "maximum size"},
		{sim.Fault{Kind: sim.BadGateway}, 502, "<html>"},
		{sim.Fault{Kind: sim.Cut, At: 3}, 200, `{"t !`},
		{sim.Fault{Kind: sim.BadJSON}, 200, `{"text`},
		{sim.Fault{Kind: sim.Empty}, 200, `{"text":""}`},
	} {
		s.Inject(c.f)
		status, got := upload(t, s, "a.ogg", sim.Sound("ogg", "hello"), "model", "m")
		if status != c.status || !strings.Contains(got, c.says) || strings.Contains(got, "hello") {
			t.Errorf("%s: got %d %s", c.f.Kind, status, got)
		}
	}
}
