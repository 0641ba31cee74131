package openviking

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"hermesd/internal/sim/memory"
)

// fileLocked returns the file that the query of a request names, or refuses the request and
// returns nil.
func (s *Server) fileLocked(tenant string, w http.ResponseWriter, r *http.Request) *File {
	uri := r.URL.Query().Get("uri")
	if !strings.HasPrefix(uri, "viking://") {
		refuse(w, "INVALID_URI", "uri must begin with viking://")
		return nil
	}
	f := s.filesLocked(tenant)[uri]
	if f == nil {
		refuse(w, "NOT_FOUND", "File not found: "+uri)
	}
	return f
}

func (s *Server) read(tenant string, w http.ResponseWriter, r *http.Request) {
	if f := s.fileLocked(tenant, w, r); f != nil {
		answer(w, f.Content)
	}
}

// underLocked returns the files below a directory, in the order of their URIs.
func (s *Server) underLocked(tenant, directory string) []*File {
	var out []*File
	for uri, f := range s.filesLocked(tenant) {
		if strings.HasPrefix(uri, strings.TrimSuffix(directory, "/")+"/") {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *File) int { return strings.Compare(a.URI, b.URI) })
	return out
}

// summary answers for directories only.
func (s *Server) summary(tenant string, w http.ResponseWriter, r *http.Request) {
	uri := r.URL.Query().Get("uri")
	if s.filesLocked(tenant)[uri] != nil {
		refuse(w, "FAILED_PRECONDITION", uri+" is not a directory")
		return
	}
	below := s.underLocked(tenant, uri)
	if len(below) == 0 {
		refuse(w, "NOT_FOUND", "Directory not found: "+uri)
		return
	}
	var names []string
	for _, f := range below {
		names = append(names, path.Base(f.URI))
	}
	answer(w, "Contains "+strings.Join(names, ", "))
}

func (s *Server) write(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		URI     string   `json:"uri"`
		Content string   `json:"content"`
		Mode    string   `json:"mode"`
		Wait    bool     `json:"wait"`
		Timeout *float64 `json:"timeout"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	if !strings.HasPrefix(in.URI, "viking://") {
		refuse(w, "INVALID_URI", "uri must begin with viking://")
		return
	}
	files := s.filesLocked(tenant)
	old := files[in.URI]
	content := in.Content
	switch {
	case in.Mode == "create" && old != nil:
		refuse(w, "ALREADY_EXISTS", in.URI+" exists")
		return
	case in.Mode == "append" && old != nil:
		content = old.Content + content
	case in.Mode != "create" && in.Mode != "replace" && in.Mode != "append":
		refuse(w, "INVALID_ARGUMENT", "mode must be create, replace or append")
		return
	}
	files[in.URI] = &File{URI: in.URI, Content: content, Changed: time.Now()}
	answer(w, map[string]any{"uri": in.URI, "context_type": "memory", "mode": in.Mode, "written_bytes": len(in.Content), "content_updated": true, "semantic_status": "queued", "vector_status": "queued"})
}

func (s *Server) list(tenant string, w http.ResponseWriter, r *http.Request) {
	out := []map[string]any{}
	for _, f := range s.underLocked(tenant, r.URL.Query().Get("uri")) {
		out = append(out, map[string]any{"name": path.Base(f.URI), "size": len(f.Content), "mode": 420, "modTime": f.Changed, "isDir": false, "uri": f.URI})
	}
	answer(w, out)
}

func (s *Server) stat(tenant string, w http.ResponseWriter, r *http.Request) {
	uri := r.URL.Query().Get("uri")
	if n := len(s.underLocked(tenant, uri)); n > 0 {
		answer(w, map[string]any{"name": path.Base(uri), "isDir": true, "uri": uri, "count": n})
		return
	}
	if f := s.fileLocked(tenant, w, r); f != nil {
		answer(w, map[string]any{"name": path.Base(uri), "size": len(f.Content), "modTime": f.Changed, "isDir": false, "isLocked": false, "uri": uri})
	}
}

func (s *Server) remove(tenant string, w http.ResponseWriter, r *http.Request) {
	uri := r.URL.Query().Get("uri")
	if r.URL.Query().Get("recursive") == "true" {
		for _, f := range s.underLocked(tenant, uri) {
			delete(s.filesLocked(tenant), f.URI)
		}
	} else if s.fileLocked(tenant, w, r) == nil {
		return
	}
	delete(s.filesLocked(tenant), uri)
	answer(w, map[string]any{"uri": uri, "estimated_deleted_count": 1})
}

// upload keeps a file until it is added as a resource.
func (s *Server) upload(_ string, w http.ResponseWriter, r *http.Request) {
	f, header, err := r.FormFile("file")
	if err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	content, err := io.ReadAll(f)
	if err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	id := memory.UUID()
	s.uploads[id] = [2]string{header.Filename, string(content)}
	answer(w, map[string]any{"temp_file_id": id})
}

// addResource stores a file that was uploaded, or the address as if it were what is found
// there.
func (s *Server) addResource(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Path        string   `json:"path"`
		File        string   `json:"temp_file_id"`
		To          string   `json:"to"`
		Parent      string   `json:"parent"`
		Reason      string   `json:"reason"`
		Instruction string   `json:"instruction"`
		Wait        bool     `json:"wait"`
		Timeout     *float64 `json:"timeout"`
		Source      string   `json:"source_name"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	name, content := in.Path, in.Path
	if up, ok := s.uploads[in.File]; ok {
		name, content = up[0], up[1]
	}
	if (in.Path == "") == (in.File == "") || name == "" || in.To != "" && in.Parent != "" {
		refuse(w, "INVALID_ARGUMENT", "one of path and temp_file_id is required, and only one of to and parent is allowed")
		return
	}
	root := in.To
	if root == "" {
		root = "viking://resources/" + path.Base(name)
	}
	uri := root + "/content.md"
	s.filesLocked(tenant)[uri] = &File{URI: uri, Content: content, Changed: time.Now()}
	answer(w, map[string]any{"status": "success", "root_uri": root, "task_id": memory.UUID(), "errors": []string{}})
}

// find searches the files; fields that the API does not know are refused.
func (s *Server) find(tenant string, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string          `json:"query"`
		Target    string          `json:"target_uri"`
		Limit     int             `json:"limit"`
		Threshold float64         `json:"score_threshold"`
		Context   json.RawMessage `json:"context_type"`
		Filter    json.RawMessage `json:"filter"`
		Level     string          `json:"level"`
		Since     string          `json:"since"`
		Until     string          `json:"until"`
		TimeField string          `json:"time_field"`
		Tags      []string        `json:"tags"`
		Session   string          `json:"session_id"`
		Mode      string          `json:"mode"`
		MaxTokens int             `json:"max_tokens"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, "INVALID_ARGUMENT", err.Error())
		return
	}
	if strings.HasSuffix(r.URL.Path, "/find") && (in.Session != "" || in.Mode != "") {
		refuse(w, "INVALID_ARGUMENT", "session_id and mode are not allowed here")
		return
	}
	if in.Limit == 0 {
		in.Limit = 10
	}
	if in.Target == "" {
		in.Target = "viking:/"
	}
	among := s.underLocked(tenant, in.Target)
	var texts []string
	for _, f := range among {
		texts = append(texts, f.Content)
	}
	memories := []map[string]any{}
	for _, h := range memory.Search(in.Query, texts, in.Limit) {
		if h.Score < in.Threshold {
			continue
		}
		f := among[h.Index]
		memories = append(memories, map[string]any{
			"context_type": "memory", "uri": f.URI, "level": 2, "score": h.Score, "category": path.Base(path.Dir(f.URI)), "match_reason": "", "abstract": cut(f.Content, 200), "overview": nil,
		})
	}
	answer(w, map[string]any{"memories": memories, "resources": []any{}, "skills": []any{}, "total": len(memories)})
}

// cut returns at most n characters of a text.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n])
	}
	return text
}
