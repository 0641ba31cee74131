package retaindb

import (
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"hermesd/internal/sim/memory"
)

func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	part, header, err := r.FormFile("file")
	if err != nil || !slices.Contains([]string{"USER", "PROJECT", "ORG"}, r.FormValue("scope")) {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", "file and scope are required")
		return
	}
	content, err := io.ReadAll(part)
	if err != nil {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", err.Error())
		return
	}
	f := &File{ID: memory.UUID(), Path: r.FormValue("path"), Name: header.Filename, Size: len(content), Scope: r.FormValue("scope"), Project: r.FormValue("project_id"), content: content}
	if f.Path != "" {
		f.Name = path.Base(f.Path)
	}
	s.files = append(s.files, f)
	memory.JSON(w, http.StatusCreated, map[string]any{"success": true, "file": f})
}

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		limit = 50
	}
	out := []*File{}
	for _, f := range s.files {
		if strings.HasPrefix(f.Path, q.Get("prefix")) && len(out) < limit {
			out = append(out, f)
		}
	}
	memory.JSON(w, http.StatusOK, map[string]any{"files": out})
}

// namedLocked returns the file that a request names, or refuses the request and returns nil.
func (s *Server) namedLocked(w http.ResponseWriter, r *http.Request) *File {
	i := slices.IndexFunc(s.files, func(f *File) bool { return f.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "File not found")
		return nil
	}
	return s.files[i]
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if f := s.namedLocked(w, r); f != nil {
		memory.JSON(w, http.StatusOK, map[string]any{"file": f})
	}
}

func (s *Server) fileContent(w http.ResponseWriter, r *http.Request) {
	if f := s.namedLocked(w, r); f != nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(f.content) // a buffer
	}
}

func (s *Server) ingestFile(w http.ResponseWriter, r *http.Request) {
	var in struct {
		User  string `json:"user_id"`
		Agent string `json:"agent_id"`
	}
	if err := memory.Read(r, &in); err != nil {
		refuse(w, http.StatusBadRequest, "VALIDATION_ERROR", err.Error())
		return
	}
	if f := s.namedLocked(w, r); f != nil {
		s.storeLocked(Memory{Content: string(f.content), Type: "semantic", User: in.User, Importance: 0.5, project: f.Project}, 0)
		memory.JSON(w, http.StatusOK, map[string]any{"success": true, "memories_created": 1})
	}
}

func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	if f := s.namedLocked(w, r); f != nil {
		s.files = slices.DeleteFunc(s.files, func(o *File) bool { return o == f })
		memory.JSON(w, http.StatusOK, map[string]any{"success": true})
	}
}
