package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Audio holds the parameters of a transcription or speech request.
type Audio struct {
	File     string // name of the uploaded file
	Format   string // detected from the content of the file, or requested for the speech
	Bytes    int    // size of the file
	Language string
	Prompt   string
	Voice    string
	Text     string // to be spoken, or found in the file
	Answer   string // response_format
}

// Limits of the service.
const (
	mostUpload = 25 << 20 // bytes of a request
	mostSpoken = 4096     // characters
)

var (
	uploads = []string{"flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"}
	voices  = []string{"alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse"}
	iso     = regexp.MustCompile(`^[a-z]{2,3}$`)
)

// A listener serves /v1/audio/transcriptions, a speaker /v1/audio/speech.
// Errors have the format of Chat Completions.
type (
	listener struct{ chatAPI }
	speaker  struct{ chatAPI }
)

func (listener) name() string { return "transcription" }

func (speaker) name() string { return "speech" }

// An audioAPI is a listener or a speaker.
type audioAPI interface {
	api
	// say writes the answer to a valid request.
	say(o *out, r Request)
}

// serveAudio is serve for audio: no tokens are counted, and Options.Reply is
// not called. The recorded entry has an Audio instead of a Body.
func (s *Server) serveAudio(w http.ResponseWriter, r *http.Request, a audioAPI) {
	body, err := readAll(r)
	if err != nil {
		return // the client disconnected while it was still sending
	}
	req, no := a.check(r.Header, body)
	req.Dialect, req.Header = a.name(), withoutKeys(r.Header)
	if req.Audio == nil {
		req.Audio = &Audio{}
	}
	fault := s.fault(req)
	e := s.recorder.add(req, fault)
	o := &out{w: w, ctx: r.Context(), closed: s.Done(), api: a, fault: fault}
	o.flusher, _ = w.(http.Flusher)
	defer func() { s.recorder.finish(e, o.status, o.written) }()
	switch {
	case fault != nil && fault.instead(o):
	case no != nil:
		o.json(no.status, no.body)
	case o.wait(s.o.FirstByte):
		a.say(o, req)
	}
}

// sound writes an answer and applies the fault of the request, if any.
func (o *out) sound(kind string, body []byte) {
	if o.fault != nil {
		switch o.fault.Kind {
		case Empty:
			body = nil
		case BadJSON:
			body = body[:len(body)/2]
		case Stall:
			o.raw(http.StatusOK, kind, string(body[:len(body)/2]))
			o.flush()
			o.hang()
			panic(http.ErrAbortHandler)
		}
	}
	o.raw(http.StatusOK, kind, string(body))
}

func wrongAudio(param, text string) *refusal {
	return &refusal{http.StatusBadRequest, chatError("invalid_request_error", "", param, text)}
}

func (l listener) check(h http.Header, body []byte) (Request, *refusal) {
	if no := l.key(h); no != nil {
		return Request{}, no
	}
	if most := cmp.Or(l.s.o.Upload, mostUpload); len(body) > most {
		return Request{}, &refusal{http.StatusRequestEntityTooLarge, chatError("server_error", "", "",
			fmt.Sprintf("Maximum content size limit (%d) exceeded (%d bytes read)", most, len(body)))}
	}
	r := Request{Audio: &Audio{Answer: "json"}}
	seen, err := l.parts(h, body, &r)
	a := r.Audio
	switch {
	case err != nil:
		return r, wrongAudio("", err.Error())
	case !seen["file"]:
		return r, wrongAudio("file", "you must provide a file to transcribe")
	case r.Model == "":
		return r, wrongAudio("model", "you must provide a model parameter")
	case !l.s.modelOK(r.Model):
		return r, &refusal{http.StatusNotFound, chatError("invalid_request_error", "model_not_found", "",
			fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", r.Model))}
	case a.Language != "" && !iso.MatchString(a.Language):
		return r, wrongAudio("language", fmt.Sprintf("Invalid language '%s'. Language parameter must be specified in ISO-639-1 format.", a.Language))
	case !slices.Contains([]string{"json", "text", "verbose_json"}, a.Answer):
		return r, wrongAudio("response_format", fmt.Sprintf("[{'type': 'enum', 'loc': ('body', 'response_format'), 'msg': \"Input should be 'json', 'text', 'srt', 'verbose_json' or 'vtt'\", 'input': '%s'}]", a.Answer))
	case !slices.Contains(uploads, strings.TrimPrefix(path.Ext(a.File), ".")):
		return r, wrongAudio("file", "Invalid file format. Supported formats: ['"+strings.Join(uploads, "', '")+"']")
	case a.Format == "":
		return r, wrongAudio("file", "Audio file might be corrupted or unsupported")
	}
	return r, nil
}

// parts reads the fields of a form into r and returns the set of their names.
func (l listener) parts(h http.Header, body []byte, r *Request) (map[string]bool, error) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		//lint:ignore ST1005 the service's own words
		return nil, errors.New("Could not parse multipart form")
	}
	seen := map[string]bool{}
	m := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return seen, nil
		}
		if err != nil {
			//lint:ignore ST1005 the service's own words
			return nil, errors.New("Could not parse multipart form")
		}
		data, err := io.ReadAll(p)
		if err != nil {
			//lint:ignore ST1005 the service's own words
			return nil, errors.New("Could not parse multipart form")
		}
		seen[p.FormName()] = true
		if err := field(r, p, data); err != nil {
			return nil, err
		}
	}
}

// field reads one field of a form into r.
func field(r *Request, p *multipart.Part, data []byte) error {
	a := r.Audio
	switch name := p.FormName(); name {
	case "file":
		a.File, a.Bytes = p.FileName(), len(data)
		a.Format, a.Text = soundOf(data)
	case "model":
		r.Model = string(data)
	case "language":
		a.Language = string(data)
	case "prompt":
		a.Prompt = string(data)
	case "response_format":
		a.Answer = string(data)
	case "temperature":
		if f, err := strconv.ParseFloat(string(data), 64); err != nil || f < 0 || f > 1 {
			return fmt.Errorf("temperature: %q is not between 0 and 1", data)
		}
	default:
		//lint:ignore ST1005 the service's own words
		return fmt.Errorf("Unknown parameter: '%s'.", name)
	}
	return nil
}

func (l listener) say(o *out, r Request) {
	text := r.Audio.Text
	if hear := l.s.o.Hear; hear != nil {
		text = hear(r)
	}
	if o.fault != nil && o.fault.Kind == Empty {
		text, o.fault = "", nil
	}
	switch r.Audio.Answer {
	case "text":
		o.sound("text/plain; charset=utf-8", []byte(text+"\n"))
	case "verbose_json":
		o.sound("application/json", encode(ordered{{"task", "transcribe"}, {"language", "english"}, {"duration", 1.0}, {"text", text}, {"segments", []any{}}}))
	default:
		o.sound("application/json", encode(ordered{{"text", text}}))
	}
}

func (sp speaker) check(h http.Header, body []byte) (Request, *refusal) {
	if no := sp.key(h); no != nil {
		return Request{}, no
	}
	var b struct {
		Model, Input, Voice, Instructions string
		Format                            string `json:"response_format"`
		Speed                             *float64
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Request{}, wrongAudio("", "We could not parse the JSON body of your request: "+err.Error())
	}
	r := Request{Model: b.Model, Body: body, Audio: &Audio{Text: b.Input, Voice: b.Voice, Format: b.Format}}
	if b.Format == "" {
		r.Audio.Format = "mp3"
	}
	switch {
	case b.Model == "":
		return r, wrongAudio("model", "you must provide a model parameter")
	case !sp.s.modelOK(b.Model):
		return r, &refusal{http.StatusNotFound, chatError("invalid_request_error", "model_not_found", "",
			fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", b.Model))}
	case b.Input == "":
		return r, wrongAudio("input", "[{'type': 'string_too_short', 'loc': ('body', 'input'), 'msg': 'String should have at least 1 character', 'input': ''}]")
	case len([]rune(b.Input)) > mostSpoken:
		return r, wrongAudio("input", fmt.Sprintf("[{'type': 'string_too_long', 'loc': ('body', 'input'), 'msg': 'String should have at most %d characters'}]", mostSpoken))
	case !slices.Contains(voices, b.Voice):
		return r, wrongAudio("voice", fmt.Sprintf("[{'type': 'enum', 'loc': ('body', 'voice'), 'msg': \"Input should be '%s'\", 'input': '%s'}]", strings.Join(voices, "', '"), b.Voice))
	case b.Speed != nil && (*b.Speed < 0.25 || *b.Speed > 4):
		return r, wrongAudio("speed", "speed: Input should be between 0.25 and 4.0")
	case speechKinds[r.Audio.Format].format == "":
		return r, wrongAudio("response_format", fmt.Sprintf("response_format: Input should be 'mp3', 'opus', 'flac' or 'wav', not '%s'", b.Format))
	}
	return r, nil
}

// speechKinds maps each supported speech format to its audio format and content
// type.
var speechKinds = map[string]struct{ format, kind string }{
	"mp3": {"mp3", "audio/mpeg"}, "opus": {"ogg", "audio/opus"}, "flac": {"flac", "audio/flac"}, "wav": {"wav", "audio/wav"},
}

func (speaker) say(o *out, r Request) {
	k := speechKinds[r.Audio.Format]
	o.sound(k.kind, Sound(k.format, r.Audio.Text))
}
