package slack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// A File is a file of a workspace. Its fields must not change after it was
// shared.
type File struct {
	Name string
	MIME string // default: derived from the name
	Data []byte

	// s.mu guards the fields below.
	id      string
	title   string
	owner   *User
	created time.Time
	filled  bool // the content was uploaded
	size    int  // announced by the upload
	shared  []*Channel
}

// ID returns the ID of the file; "" until it is shared.
func (f *File) ID() string { return f.id }

// Title returns the title of the file; the default is its name.
func (f *File) Title() string { return f.title }

// storeLocked adds the file to the server.
func (f *File) storeLocked(s *Server, owner *User) {
	if f.id != "" {
		return
	}
	f.id, f.owner, f.created, f.filled = s.idLocked("F"), owner, time.Now(), true
	if f.title == "" {
		f.title = f.Name
	}
	if f.MIME == "" {
		f.MIME = typeOf(f.Name)
	}
	s.files[f.id] = f
}

func typeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".txt", ".md", ".log", ".go":
		return "text/plain"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".pdf":
		return "application/pdf"
	}
	return "application/octet-stream"
}

// wire returns the file as the API and the events show it.
func (f *File) wire() obj {
	base := f.owner.s.URL()
	private := base + filePath + f.owner.team.id + "-" + f.id + "/" + url.PathEscape(f.Name)
	channels := []string{}
	for _, c := range f.shared {
		channels = append(channels, c.id)
	}
	return obj{
		"id": f.id, "created": f.created.Unix(), "timestamp": f.created.Unix(), "name": f.Name, "title": f.title,
		"mimetype": f.MIME, "filetype": strings.TrimPrefix(path.Ext(f.Name), "."), "user": f.owner.ID(),
		"user_team": f.owner.team.id, "size": len(f.Data), "mode": "hosted", "is_external": false, "is_public": false,
		"file_access": "visible", "url_private": private, "url_private_download": private, "channels": channels,
		"permalink": base + "/files/" + f.id,
	}
}

func fileInfo(c *call) (obj, *apiError) {
	f := c.s.files[c.str("file")]
	if f == nil || f.owner.team != c.bot.team || !f.filled {
		return nil, refuse("file_not_found")
	}
	return obj{"file": f.wire(), "comments": []obj{}}, nil
}

// uploadURL implements files.getUploadURLExternal, the first of three steps.
func uploadURL(c *call) (obj, *apiError) {
	size, err := strconv.Atoi(c.str("length"))
	switch {
	case c.str("filename") == "":
		return nil, missingField("filename")
	case err != nil || size <= 0:
		return nil, missingField("length")
	}
	f := &File{Name: c.str("filename"), size: size}
	f.storeLocked(c.s, c.bot.user)
	f.filled = false
	ticket := fmt.Sprintf("CwABAAA%s", f.id)
	c.s.uploads[ticket] = f
	return obj{"upload_url": "http://" + c.host + uploadPath + ticket, "file_id": f.id}, nil
}

// takeUploadLocked stores the content, the second step. The URL is the
// authorization.
func (c *call) takeUploadLocked() (obj, *apiError) {
	f := c.s.uploads[c.rest]
	switch {
	case f == nil:
		return nil, &apiError{code: http.StatusText(http.StatusNotFound), status: http.StatusNotFound, html: true}
	case len(c.req.file) != f.size:
		return nil, &apiError{code: http.StatusText(http.StatusBadRequest), status: http.StatusBadRequest, html: true}
	}
	f.Data, f.filled = c.req.file, true
	c.answer = &answer{status: http.StatusOK, kind: "text/plain", body: fmt.Appendf(nil, "OK - %d", len(f.Data))}
	return nil, nil
}

// completeUpload implements files.completeUploadExternal, the third step: if a
// channel is named, the files become one message in it.
func completeUpload(c *call) (obj, *apiError) {
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(c.str("files")), &list) != nil || len(list) == 0 {
		return nil, refuse("invalid_arguments", "[ERROR] missing required field: files")
	}
	var files []*File
	for _, e := range list {
		f := c.s.files[e.ID]
		if f == nil || f.owner != c.bot.user || !f.filled {
			return nil, refuse("file_not_found")
		}
		files = append(files, f)
	}
	var ch *Channel
	thread := ""
	if id := c.str("channel_id"); id != "" {
		var refused *apiError
		if ch, refused = c.channelLocked(id); refused == nil {
			refused = c.mayPostLocked(ch)
		}
		if refused == nil {
			thread, refused = c.threadLocked(ch)
		}
		if refused != nil {
			return nil, refused
		}
	}
	out := make([]obj, len(files))
	for i, f := range files {
		if list[i].Title != "" {
			f.title = list[i].Title
		}
		if ch != nil {
			f.shared = append(f.shared, ch)
		}
		out[i] = f.wire()
	}
	if ch != nil {
		c.shareLocked(ch, thread, files)
	}
	return obj{"files": out}, nil
}

func (c *call) shareLocked(ch *Channel, thread string, files []*File) {
	m := ch.newLocked(c.bot.user)
	m.Text, m.Files, m.Subtype = c.str("initial_comment"), files, "file_share"
	m.joinLocked(thread)
	delete(ch.status, thread)
	c.made = m.TS
	c.s.recorder.note(func(n *Counts) { n.Sent++ })
	ch.announceLocked(m)
}

// downloadLocked serves url_private. A client without access gets the sign-in
// page instead of an error, as on Slack.
func (c *call) downloadLocked() (obj, *apiError) {
	name, _, _ := strings.Cut(c.rest, "/")
	_, id, _ := strings.Cut(name, "-")
	f := c.s.files[id]
	if c.bot == nil || c.bot.refused != "" || !c.bot.hasLocked("files:read") || f == nil || f.owner.team != c.bot.team || !f.filled {
		to := "/?redir=" + url.QueryEscape(c.http.URL.EscapedPath())
		c.answer = &answer{status: http.StatusFound, kind: "text/html", header: [2]string{"Location", to}}
		return nil, nil
	}
	c.answer = &answer{status: http.StatusOK, kind: f.MIME, body: f.Data}
	return nil, nil
}

// pageLocked serves all paths outside the API: the sign-in page.
func (c *call) pageLocked() (obj, *apiError) {
	c.answer = &answer{
		status: http.StatusOK, kind: "text/html; charset=utf-8",
		body: []byte("<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body><form>Sign in</form></body></html>"),
	}
	return nil, nil
}
