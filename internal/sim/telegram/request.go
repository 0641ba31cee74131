package telegram

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

const (
	maxUpload = 50 << 20 // bytes of one file
	maxFields = 8 << 20  // bytes of all fields that are not files
	maxBody   = 10 * maxUpload
)

// An upload is a file in a request.
type upload struct {
	name string
	mime string
	data []byte
}

// A request holds the parameters of a call, from the query or the body.
type request struct {
	values map[string]string
	files  map[string]*upload
}

// parseRequest reads the parameters from the query and from a body in JSON,
// urlencoded or multipart form. A parameter in the body takes precedence. It
// reads no more than the public server accepts.
func parseRequest(r *http.Request) (*request, *apiError) {
	q := &request{values: map[string]string{}, files: map[string]*upload{}}
	q.addForm(r.URL.Query())
	if r.Body == nil || r.Body == http.NoBody {
		return q, nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		return q, q.readMultipart(r.Body, params["boundary"])
	case kind == "application/json":
		return q, q.readJSON(r.Body)
	case kind == "application/x-www-form-urlencoded":
		return q, q.readForm(r.Body)
	}
	body, tooBig := readLimited(r.Body, maxFields)
	if tooBig != nil {
		return q, tooBig
	}
	if len(body) > 0 {
		return q, badRequest("unsupported content type")
	}
	return q, nil
}

func readLimited(r io.Reader, limit int64) ([]byte, *apiError) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, badRequest("can't read the request body")
	}
	if int64(len(body)) > limit {
		return nil, tooLarge()
	}
	return body, nil
}

func (q *request) addForm(form url.Values) {
	for name, values := range form {
		if len(values) > 0 {
			q.values[name] = values[0]
		}
	}
}

func (q *request) readForm(r io.Reader) *apiError {
	body, tooBig := readLimited(r, maxFields)
	if tooBig != nil {
		return tooBig
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return badRequest("can't parse the urlencoded body")
	}
	q.addForm(form)
	return nil
}

func (q *request) readJSON(r io.Reader) *apiError {
	body, tooBig := readLimited(r, maxFields)
	if tooBig != nil {
		return tooBig
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return q.addJSON(body)
}

func (q *request) addJSON(body []byte) *apiError {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return badRequest("can't parse JSON object")
	}
	for name, raw := range fields {
		var text string
		switch {
		case bytes.Equal(raw, []byte("null")):
		case json.Unmarshal(raw, &text) == nil:
			q.values[name] = text
		default:
			q.values[name] = string(raw)
		}
	}
	return nil
}

func (q *request) readMultipart(r io.Reader, boundary string) *apiError {
	if boundary == "" {
		return badRequest("boundary is not specified")
	}
	whole := &io.LimitedReader{R: r, N: maxBody}
	parts := multipart.NewReader(whole, boundary)
	fields := int64(maxFields)
	for {
		part, err := parts.NextPart()
		empty := whole.N == maxBody // a request without parameters may have no body
		if err == io.EOF || empty && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if whole.N <= 0 {
				return tooLarge()
			}
			return badRequest("can't parse the multipart body")
		}
		refused := q.readPart(part, &fields)
		_ = part.Close()
		if refused != nil {
			return refused
		}
	}
}

func (q *request) readPart(part *multipart.Part, fields *int64) *apiError {
	name, file := part.FormName(), part.FileName()
	isFile := file != "" || part.Header.Get("Content-Type") != ""
	limit := int64(maxUpload)
	if !isFile {
		limit = *fields
	}
	data, refused := readLimited(part, limit)
	if refused != nil {
		return refused
	}
	if isFile {
		q.files[name] = &upload{name: file, mime: part.Header.Get("Content-Type"), data: data}
		return nil
	}
	*fields -= int64(len(data))
	q.values[name] = string(data)
	return nil
}
