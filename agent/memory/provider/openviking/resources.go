package openviking

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
)

// maxUpload is the size of the largest file that is sent, in bytes.
const maxUpload = 20 << 20

// remote are the beginnings of what the server fetches itself.
var remote = []string{"http://", "https://", "ssh://", "git://", "git@"}

func (c *client) toolAdd(ctx context.Context, s provider.Scope, in input) (any, error) {
	switch {
	case s.Person != "":
		return nil, problem("only owners may use this tool")
	case in.URL == "":
		return nil, problem("url is required")
	case in.To != "" && in.Parent != "":
		return nil, problem("only one of to and parent is allowed")
	}
	body := map[string]any{"wait": in.Wait}
	if slices.ContainsFunc(remote, func(prefix string) bool { return strings.HasPrefix(in.URL, prefix) }) {
		body["path"] = in.URL
	} else {
		id, err := c.upload(ctx, strings.TrimPrefix(in.URL, "file://"))
		if err != nil {
			return nil, err
		}
		body["temp_file_id"], body["source_name"] = id, filepath.Base(in.URL)
	}
	for key, value := range map[string]string{"to": in.To, "parent": in.Parent, "reason": in.Reason, "instruction": in.Instruction} {
		if value != "" {
			body[key] = value
		}
	}
	if in.Timeout > 0 {
		body["timeout"] = in.Timeout
	}
	var out struct {
		Status string            `json:"status"`
		Root   string            `json:"root_uri"`
		Task   string            `json:"task_id,omitempty"`
		Errors []json.RawMessage `json:"errors,omitempty"`
	}
	return &out, c.do(ctx, "", rest.Call{Method: "POST", Path: "/api/v1/resources", Body: body, Timeout: rest.WriteTimeout}, &out)
}

// upload sends a file and returns its ID.
func (c *client) upload(ctx context.Context, name string) (id string, err error) {
	f, err := c.open(name)
	if err != nil {
		return "", problem("the file cannot be sent: " + err.Error())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxUpload+1))
	if err = errors.Join(err, f.Close()); err != nil { // a directory too
		return "", problem("the file cannot be read: " + err.Error())
	}
	if len(data) > maxUpload {
		return "", problem(fmt.Sprintf("the file is larger than %d MiB", maxUpload>>20))
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("file", path.Base(filepath.ToSlash(name)))
	if err == nil {
		_, err = part.Write(data)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return "", problem("the file cannot be sent: " + err.Error())
	}
	var out struct {
		ID string `json:"temp_file_id"`
	}
	call := rest.Call{Method: "POST", Path: "/api/v1/resources/temp_upload", Raw: b.Bytes(), ContentType: form.FormDataContentType(), Timeout: rest.WriteTimeout}
	if err := c.do(ctx, "", call, &out); err != nil {
		return "", err
	}
	if out.ID == "" {
		return "", garbage(errors.New("the file has no ID"))
	}
	return out.ID, nil
}
