package retaindb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/shorten"
)

const (
	maxUpload = 32 << 20 // bytes
	maxText   = 32_000   // characters of a file that are read
)

// textTypes are the endings of files that are read as text.
var textTypes = strings.Fields(".txt .md .json .csv .yaml .yml .xml .html")

func filePath(id string) string { return "/v1/files/" + url.PathEscape(id) }

func listTool(c *client, ctx context.Context, in call) (any, error) {
	query := url.Values{"limit": {strconv.Itoa(int(in.in.Number("limit", 50, 1, 1000)))}}
	if prefix := in.in.Text("prefix"); prefix != "" {
		query.Set("prefix", prefix)
	}
	return c.file(ctx, true, rest.Call{Method: http.MethodGet, Path: "/v1/files", Query: query})
}

func readTool(c *client, ctx context.Context, in call) (any, error) {
	var about struct {
		File struct {
			URI  *string `json:"rdb_uri"`
			Name string  `json:"name"`
			Type string  `json:"mime_type"`
		} `json:"file"`
	}
	if err := c.call(ctx, true, rest.Call{Method: http.MethodGet, Path: filePath(in.value)}, &about); err != nil {
		return nil, err
	}
	out := map[string]any{"file_id": in.value, "rdb_uri": about.File.URI, "name": about.File.Name}
	if !strings.HasPrefix(strings.ToLower(about.File.Type), "text/") && !slices.Contains(textTypes, path.Ext(about.File.Name)) {
		out["content"], out["note"] = nil, "This is not a text file: retaindb_ingest_file extracts memories from it."
		return out, nil
	}
	var content []byte
	err := c.call(ctx, true, rest.Call{Method: http.MethodGet, Path: filePath(in.value) + "/content"}, &content)
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Status >= 300 && e.Status < 400 {
		return refusal("the content is on another server, which is not asked"), nil
	}
	text := strings.ToValidUTF8(string(content), "\uFFFD")
	n := shorten.Offset(text, maxText)
	out["content"], out["truncated"] = text[:n], n < len(text)
	return out, err
}

func uploadTool(c *client, ctx context.Context, in call) (any, error) {
	f, err := c.open(in.value)
	if err != nil {
		return refusal(fmt.Sprintf("%s: %v", in.value, err)), nil
	}
	defer func() { _ = f.Close() }() // read only
	content, err := io.ReadAll(io.LimitReader(f, maxUpload+1))
	switch {
	case err != nil:
		return refusal(fmt.Sprintf("%s: %v", in.value, err)), nil
	case len(content) > maxUpload:
		return refusal(fmt.Sprintf("%s is larger than %d MiB", in.value, maxUpload>>20)), nil
	}
	request, err := upload(content, filepath.Base(in.value), in)
	if err != nil {
		return refusal(err.Error()), nil
	}
	var out map[string]any
	if err := c.call(ctx, false, request, &out); err != nil {
		return nil, err
	}
	stored, _ := out["file"].(map[string]any)
	if id, _ := stored["id"].(string); id != "" && in.in.Bool("ingest", false) {
		in.value = id
		done, err := ingestTool(c, ctx, in)
		if err != nil {
			return nil, err
		}
		out["ingest"] = done
	}
	return out, nil
}

// upload returns the call that uploads a file.
func upload(content []byte, name string, in call) (rest.Call, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": name})},
		"Content-Type":        {cmp.Or(mime.TypeByExtension(filepath.Ext(name)), "application/octet-stream")},
	})
	if err == nil {
		_, err = part.Write(content)
	}
	for _, field := range [][2]string{{"path", cmp.Or(in.in.Text("remote_path"), "/"+name)}, {"scope", cmp.Or(strings.ToUpper(in.in.Text("scope")), "PROJECT")}} {
		err = errors.Join(err, form.WriteField(field[0], field[1]))
	}
	err = errors.Join(err, form.Close())
	return rest.Call{Method: http.MethodPost, Path: "/v1/files", Raw: b.Bytes(), ContentType: form.FormDataContentType()}, err
}
