package speech

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"unicode"
)

// ErrSilence is returned for a recording without speech.
var ErrSilence = errors.New("nothing can be heard in the recording")

const (
	transcriptionName = "the transcription service"
	// maxRecorded is the maximum size of a recording: the services accept requests of up to
	// 25 MB.
	maxRecorded = 25<<20 - 4<<10
	maxAnswer   = 1 << 20 // bytes of a transcription
)

// TranscriberOptions configure a Transcriber.
type TranscriberOptions struct {
	Service
	Model    string // such as whisper-1 or gpt-4o-mini-transcribe
	Language string // ISO 639-1, such as "de"; "": detected by the service
}

// A Transcriber transcribes recordings. Its methods may be called from any goroutine.
type Transcriber struct{ o TranscriberOptions }

// NewTranscriber returns a transcriber. It fails for invalid options, and does not use the
// network.
func NewTranscriber(o TranscriberOptions) (*Transcriber, error) {
	var err error
	if o.Service, err = o.check(); err != nil {
		return nil, err
	}
	if o.Model == "" {
		return nil, errors.New("speech: there is no model for transcriptions")
	}
	return &Transcriber{o}, nil
}

// Transcribe returns the speech in the file at path as text. The file must be Ogg
// (including Opus), MP3, M4A, WAV, FLAC or WebM, at most 25 MB. The format is detected from
// the content; the file name is not sent. For a recording without speech it returns
// ErrSilence.
func (t *Transcriber) Transcribe(ctx context.Context, path string) (string, error) {
	kind, err := examine(path)
	if err != nil {
		return "", err
	}
	var text string
	c := &call{
		Service: t.o.Service, name: transcriptionName,
		request: func(ctx context.Context) (*http.Request, error) { return t.request(ctx, path, kind) },
		read: func(body io.Reader) error {
			text, err = readText(body)
			return err
		},
	}
	if err := c.do(ctx); err != nil {
		return "", err
	}
	if text == "" {
		return "", ErrSilence
	}
	return text, nil
}

// examine returns the format of a file, or an error if it cannot be transcribed.
func examine(path string) (format, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return format{}, &Error{Text: "the recording cannot be read", Err: err}
	case !info.Mode().IsRegular():
		return format{}, &Error{Text: "the recording is not a file"}
	case info.Size() == 0:
		return format{}, &Error{Text: "the recording is empty"}
	case info.Size() > maxRecorded:
		return format{}, &Error{Text: fmt.Sprintf("the recording has %d MB and at most 25 MB can be transcribed; send a shorter one", info.Size()>>20)}
	}
	f, err := os.Open(path)
	if err != nil {
		return format{}, &Error{Text: "the recording cannot be read", Err: err}
	}
	defer func() { _ = f.Close() }() // read only, nothing can be lost
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return format{}, &Error{Text: "the recording cannot be read", Err: err}
	}
	kind := formatOf(head[:n])
	if kind == (format{}) {
		return kind, &Error{Text: "the file is no recording that can be transcribed; Ogg, MP3, M4A, WAV, FLAC and WebM can"}
	}
	return kind, nil
}

// request returns a multipart request that reads the file while it is sent.
func (t *Transcriber) request(ctx context.Context, path string, kind format) (*http.Request, error) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	fields := [][2]string{{"model", t.o.Model}, {"response_format", "json"}}
	if t.o.Language != "" {
		fields = append(fields, [2]string{"language", t.o.Language})
	}
	var err error
	for _, f := range fields {
		err = errors.Join(err, m.WriteField(f[0], f[1]))
	}
	_, partErr := m.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="recording.` + kind.extension + `"`},
		"Content-Type":        {kind.mime},
	})
	head := bytes.Clone(b.Bytes())
	b.Reset()
	if err = errors.Join(err, partErr, m.Close()); err != nil {
		return nil, fmt.Errorf("write the form: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Text: "the recording cannot be read", Err: err}
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, &Error{Text: "the recording cannot be read", Err: err}
	}
	body := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), f, &b), f}
	size := int64(len(head)) + info.Size() + int64(b.Len())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.BaseURL+"/audio/transcriptions", body)
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, fmt.Errorf("ask %s: %w", transcriptionName, err)
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", m.FormDataContentType())
	return req, nil
}

// readText decodes the response of a transcription.
func readText(body io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return "", err
	}
	var answer struct {
		Text *string `json:"text"`
	}
	if len(raw) > maxAnswer || json.Unmarshal(raw, &answer) != nil || answer.Text == nil {
		return "", &Error{Status: http.StatusOK, Temporary: true, Text: transcriptionName + " answered something that is no transcription; check its base URL"}
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(*answer.Text, "\uFFFD"))), nil
}
