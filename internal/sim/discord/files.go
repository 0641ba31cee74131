package discord

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxFiles = 10
	maxJSON  = 8 << 20
)

// A File is an attachment.
type File struct {
	ID   string
	Name string
	Type string // MIME type
	Data []byte

	path string // the server's mutex guards it
}

// An upload is a file in a request.
type upload struct {
	field, name, kind string
	data              []byte
}

// read reads the body of the request: JSON, or a form with payload_json and
// files.
func (c *call) read() *apiError {
	kind, params, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		body, err := io.ReadAll(io.LimitReader(c.r.Body, maxJSON+1))
		if err != nil {
			return refuse(http.StatusBadRequest, 0, "400: Bad Request")
		}
		c.body = body
		if len(body) > maxJSON {
			return refuse(http.StatusRequestEntityTooLarge, 40005, "Request entity too large")
		}
		if len(body) > 0 && kind != "application/json" {
			return invalid("_misc", "CONTENT_TYPE_INVALID", "Expected \"Content-Type\" header to be one of {'application/json'}.")
		}
		return nil
	}
	if params["boundary"] == "" {
		return refuse(http.StatusBadRequest, 0, "400: Bad Request")
	}
	form, err := c.r.MultipartReader()
	if err != nil {
		return refuse(http.StatusBadRequest, 0, "400: Bad Request")
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // never wrapped
			return nil
		}
		if err != nil {
			return refuse(http.StatusBadRequest, 0, "400: Bad Request")
		}
		data, err := io.ReadAll(io.LimitReader(part, int64(c.s.opts.FileLimit)+1))
		switch {
		case err != nil:
			return refuse(http.StatusBadRequest, 0, "400: Bad Request")
		case len(data) > c.s.opts.FileLimit || len(c.files) == maxFiles:
			return refuse(http.StatusRequestEntityTooLarge, 40005, "Request entity too large")
		case part.FormName() == "payload_json":
			c.body = data
		case part.FileName() != "":
			c.files = append(c.files, upload{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), data})
		}
	}
}

// storeLocked stores the files of the call as attachments of m.
func (c *call) storeLocked(m *message) {
	for _, u := range c.files {
		m.attachLocked(&File{Name: u.name, Type: u.kind, Data: u.data})
	}
}

func (m *message) attachLocked(f *File) {
	s := m.ch.s
	f.ID = s.newIDLocked()
	if f.Type == "" {
		f.Type = http.DetectContentType(f.Data)
	}
	f.path = fmt.Sprintf("/attachments/%s/%s/%s", m.Channel, f.ID, strings.ReplaceAll(f.Name, " ", "_"))
	s.files[f.path] = f
	m.Files = append(m.Files, f)
}

// wireFilesLocked returns the attachments, with URLs whose validity starts now.
func (m *message) wireFilesLocked(v view) []obj {
	out := []obj{}
	base := "https://cdn.discordapp.com"
	if !strings.HasPrefix(gatewayURL(v.host), "wss:") {
		base = "http://" + v.host
	}
	now := time.Now()
	for _, f := range m.Files {
		url := fmt.Sprintf("%s%s?ex=%x&is=%x&hm=%s", base, f.path, now.Add(m.ch.s.opts.FileLife).Unix(), now.Unix(), f.ID)
		out = append(out, obj{
			"id": f.ID, "filename": f.Name, "size": len(f.Data), "url": url, "proxy_url": url, "content_type": f.Type,
		})
	}
	return out
}

// getFile handles RouteFile: it serves a file until its URL expires.
func getFile(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	f := c.s.files[c.r.URL.Path]
	ends, err := strconv.ParseInt(c.query("ex"), 16, 64)
	if f == nil || err != nil || time.Now().Unix() > ends || c.query("hm") != f.ID {
		return nil, refuse(http.StatusNotFound, 0, "This content is no longer available.")
	}
	return rawFile{f}, nil
}
