package slack

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
	maxFields = 4 << 20 // bytes of all fields that are not files
	maxUpload = 64 << 20
)

// A request holds the parameters of a call, from the query or the body.
type request struct {
	values   map[string]string
	token    string
	file     []byte // content of an upload
	warnings []string
}

// parseRequest reads the parameters from the query and from a body in JSON,
// urlencoded or multipart form, as far as the method accepts them. A parameter
// in the body takes precedence.
func parseRequest(r *http.Request, upload bool) (*request, *apiError) {
	q := &request{values: map[string]string{}}
	q.addForm(r.URL.Query())
	refused := q.readBody(r, upload)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		q.token = bearer
	}
	if q.token == "" {
		q.token = q.values["token"]
	}
	delete(q.values, "token")
	return q, refused
}

func (q *request) readBody(r *http.Request, upload bool) *apiError {
	if r.Body == nil || r.Method == http.MethodGet {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && strings.HasPrefix(kind, "multipart/"):
		return q.readMultipart(r.Body, params["boundary"])
	case upload:
		var refused *apiError
		q.file, refused = readLimited(r.Body, maxUpload)
		return refused
	}
	body, refused := readLimited(r.Body, maxFields)
	if refused != nil {
		return refused
	}
	switch {
	case kind == "application/json":
		if params["charset"] == "" {
			q.warnings = append(q.warnings, "missing_charset")
		}
		return q.addJSON(body)
	case kind == "application/x-www-form-urlencoded":
		if params["charset"] != "" {
			q.warnings = append(q.warnings, "superfluous_charset")
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return refuse("invalid_form_data")
		}
		q.addForm(form)
		return nil
	case len(body) == 0:
		return nil
	case err != nil:
		return refuse("missing_post_type")
	}
	return refuse("invalid_post_type")
}

func readLimited(r io.Reader, limit int64) ([]byte, *apiError) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, refuse("request_timeout")
	}
	if int64(len(body)) > limit {
		return nil, &apiError{code: "request_too_large", status: http.StatusRequestEntityTooLarge}
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

// addJSON adds the fields of an object; values that are not strings stay JSON.
// A token in the object is ignored.
func (q *request) addJSON(body []byte) *apiError {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		if json.Valid(body) {
			return refuse("json_not_object")
		}
		return refuse("invalid_json")
	}
	delete(fields, "token")
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
		return refuse("invalid_form_data")
	}
	parts := multipart.NewReader(r, boundary)
	fields := int64(maxFields)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse("invalid_form_data")
		}
		file := part.FileName() != ""
		limit := fields
		if file {
			limit = maxUpload
		}
		data, refused := readLimited(part, limit)
		if refused != nil {
			return refused
		}
		if file {
			q.file = data
			continue
		}
		fields -= int64(len(data))
		q.values[part.FormName()] = string(data)
	}
}
