package files

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"hermesd/agent/tool"
	"hermesd/internal/shorten"
)

const (
	defaultLines = 500
	maxLines     = 2000
	maxLine      = 2000     // characters of a line that are shown
	maxText      = 95_000   // characters of a result, without its note
	maxRead      = 64 << 20 // bytes of a file that are read
)

type readInput struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

func (w *Workspace) read(ctx context.Context, c tool.Call, in readInput) (string, error) {
	if in.Path == "" {
		return "", fmt.Errorf("a path is needed")
	}
	p, err := w.relative(in.Path)
	if err != nil {
		return "", err
	}
	f, info, err := w.open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	kind, err := sniff(f)
	switch {
	case err != nil:
		return "", readError(p, err)
	case strings.HasPrefix(kind, "image/"):
		return "", fmt.Errorf("%s is an image (%s, %d bytes); this tool reads text only", p, kind, info.Size())
	case kind != "":
		return "", fmt.Errorf("%s is a binary file (%d bytes); this tool reads text only", p, info.Size())
	}
	w.seen.record(c.Session, p, info)
	if info.Size() == 0 {
		return fmt.Sprintf("[%s is empty]", p), nil
	}
	limit := cmp.Or(max(in.Limit, 0), defaultLines)
	s := page{first: max(in.Offset, 1), max: min(limit, maxLines)}
	if err := s.scan(ctx, bufio.NewReaderSize(f, 64<<10)); err != nil {
		return "", readError(p, err)
	}
	return s.result(p)
}

type page struct {
	first, max int
	out        strings.Builder
	size       int // characters in out
	last       int // number of the last line shown
	total      int // lines read
	full       bool
	partial    bool // the file is longer than was read
}

func (s *page) scan(ctx context.Context, r *bufio.Reader) error {
	read := 0
	for {
		line, n, err := nextLine(r, 4*maxLine)
		if read += n; n > 0 {
			s.total++
			s.addLine(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case read > maxRead:
			s.partial = true
			return nil
		case s.total%1000 == 0 && ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

func (s *page) addLine(line string) {
	if s.total < s.first || s.full {
		return
	}
	if s.total >= s.first+s.max {
		s.full = true
		return
	}
	line = cut(line, maxLine)
	shown := fmt.Sprintf("%d|%s\n", s.total, line)
	n := utf8.RuneCountInString(shown)
	if s.size+n > maxText {
		s.full = true
		return
	}
	s.size += n
	s.last = s.total
	s.out.WriteString(shown)
}

func (s *page) result(p string) (string, error) {
	total := fmt.Sprint(s.total)
	if s.partial {
		total = "more than " + total
	}
	switch {
	case s.last == 0:
		return "", fmt.Errorf("%s has %s lines; there is no line %d", p, total, s.first)
	case s.last < s.total || s.partial:
		fmt.Fprintf(&s.out, "[lines %d to %d of %s; read on with offset=%d]", s.first, s.last, total, s.last+1)
	case s.first > 1:
		fmt.Fprintf(&s.out, "[lines %d to %d of %s; this is the end]", s.first, s.last, total)
	}
	return strings.TrimSuffix(s.out.String(), "\n"), nil
}

// nextLine returns the next line without its end, limited to about most bytes, and the size
// of the whole line in the file in bytes. At the end of the file err is io.EOF.
func nextLine(r *bufio.Reader, most int) (line string, size int, err error) {
	var kept []byte
	for {
		piece, err := r.ReadSlice('\n')
		size += len(piece)
		if room := most - len(kept); room > 0 {
			kept = append(kept, piece[:min(room, len(piece))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = strings.ToValidUTF8(strings.TrimRight(string(kept), "\r\n"), "\uFFFD")
		return line, size, err
	}
}

// cut returns at most n characters of a line, with a note if it is longer.
func cut(line string, n int) string {
	if i := shorten.Offset(line, n); i < len(line) {
		return line[:i] + " [… the line goes on]"
	}
	return line
}

const maxSeen = 4096 // maximum number of stored states

// A readState stores the state of files when sessions last read them.
type readState struct {
	mu    sync.Mutex // guards what follows
	stamp map[[2]string]fs.FileInfo
}

func (m *readState) record(session, path string, info fs.FileInfo) {
	if info == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamp == nil || len(m.stamp) >= maxSeen {
		m.stamp = map[[2]string]fs.FileInfo{} // files without a stored state count as unchanged
	}
	m.stamp[[2]string{session, path}] = info
}

func (m *readState) changed(session, path string, now fs.FileInfo) bool {
	m.mu.Lock()
	was, ok := m.stamp[[2]string{session, path}]
	m.mu.Unlock()
	return ok && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime()))
}
