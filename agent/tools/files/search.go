package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/tool"
)

const (
	defaultResults = 100
	maxResults     = 500
	maxVisited     = 50_000           // files and folders in one search
	maxSearched    = 256 << 20        // bytes in one search
	maxFile        = 10 << 20         // bytes of a file whose content is searched
	maxTime        = 10 * time.Second // for one search
	maxMatched     = 64 << 10         // bytes of a line that are matched
	maxShown       = 400              // characters of a line that are shown
)

type searchInput struct {
	Pattern    string `json:"pattern"`
	Name       string `json:"name"`
	Path       string `json:"path"`
	IgnoreCase bool   `json:"ignore_case"`
	Limit      int    `json:"limit"`
}

func (w *Workspace) search(ctx context.Context, _ tool.Call, in searchInput) (string, error) {
	s, err := newSearch(w, in)
	if err != nil {
		return "", err
	}
	start, err := w.relative(in.Path)
	if err != nil {
		return "", err
	}
	if _, err := w.root.Stat(start); err != nil {
		return "", readError(start, err)
	}
	timed, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	err = fs.WalkDir(w.root.FS(), start, func(p string, d fs.DirEntry, err error) error {
		return s.visit(timed, p, d, err)
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case timed.Err() != nil:
		s.stopped = fmt.Sprintf("the time of %v was used up", maxTime)
	case err != nil && !errors.Is(err, errStopped):
		return "", readError(start, err)
	}
	return s.result(), nil
}

// errStopped ends a walk early.
var errStopped = errors.New("files: enough was found")

type search struct {
	w       *Workspace
	content *regexp.Regexp // nil: names only
	name    *glob          // nil: all files
	limit   int
	out     strings.Builder
	size    int // characters in out
	found   int
	visited int
	read    int64
	skipped int    // files that are too large or unreadable
	stopped string // why the search ended early
}

func newSearch(w *Workspace, in searchInput) (*search, error) {
	s := &search{w: w, limit: defaultResults}
	if in.Limit > 0 {
		s.limit = min(in.Limit, maxResults)
	}
	if in.Pattern == "" && in.Name == "" {
		return nil, fmt.Errorf("a pattern or a name is needed")
	}
	if in.Name != "" {
		g, err := compile(in.Name)
		if err != nil {
			return nil, err
		}
		s.name = g
	}
	if in.Pattern != "" {
		pattern := in.Pattern
		if in.IgnoreCase {
			pattern = "(?i)" + pattern
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("the pattern cannot be read: %w", err)
		}
		s.content = re
	}
	return s, nil
}

func (s *search) stop(why string, args ...any) error {
	s.stopped = fmt.Sprintf(why, args...)
	return errStopped
}

func (s *search) visit(ctx context.Context, p string, d fs.DirEntry, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.skipped++
		if d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if s.visited++; s.visited > maxVisited {
		return s.stop("%d files and folders were looked at", maxVisited)
	}
	if d.IsDir() {
		switch d.Name() {
		case ".git", ".hg", ".svn":
			return fs.SkipDir
		}
		return nil
	}
	if !d.Type().IsRegular() || s.name != nil && !s.name.match(p) {
		return nil
	}
	if s.content == nil {
		return s.add(p)
	}
	return s.grep(ctx, p)
}

func (s *search) add(line string) error {
	if s.found >= s.limit {
		return s.stop("there are more than %d results", s.limit)
	}
	n := utf8.RuneCountInString(line) + 1
	if s.size+n > maxText {
		return s.stop("there are more results than fit")
	}
	s.found++
	s.size += n
	s.out.WriteString(line + "\n")
	return nil
}

// grep adds the matching lines of a file.
func (s *search) grep(ctx context.Context, p string) error {
	f, info, err := s.w.open(p)
	if err != nil {
		s.skipped++
		return nil
	}
	defer f.Close()
	if info.Size() > maxFile {
		s.skipped++
		return nil
	}
	if kind, err := sniff(f); err != nil || kind != "" {
		return nil
	}
	if s.read += info.Size(); s.read > maxSearched {
		return s.stop("%d MiB were searched", maxSearched>>20)
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		line, size, err := nextLine(r, maxMatched)
		if size > 0 && s.content.MatchString(line) {
			if err := s.add(fmt.Sprintf("%s:%d|%s", p, n, cut(line, maxShown))); err != nil {
				return err
			}
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			s.skipped++
			return nil
		case err != nil:
			return nil
		case n%1000 == 0 && ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

func (s *search) result() string {
	if s.found == 0 {
		s.out.WriteString("[nothing was found")
	} else {
		fmt.Fprintf(&s.out, "[%d found", s.found)
	}
	if s.stopped != "" {
		s.out.WriteString("; the search ended early: " + s.stopped)
	}
	if s.skipped > 0 {
		fmt.Fprintf(&s.out, "; files that were too large or could not be read: %d", s.skipped)
	}
	return s.out.String() + "]"
}

// A glob matches file names, or paths if it contains a slash.
type glob struct {
	re           *regexp.Regexp
	matchesPaths bool
}

// compile parses a glob: * and ? do not match slashes, ** does, [a-z] and [!a-z] match one
// character, {a,b} matches one of several patterns.
func compile(pattern string) (*glob, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	var b strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			end := strings.IndexByte(pattern[i+1:], ']')
			if end <= 0 {
				return nil, fmt.Errorf("the glob %q has a bracket that is not closed", pattern)
			}
			b.WriteString(class(pattern[i+1 : i+1+end]))
			i += end + 1
		case c == '{':
			depth++
			b.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case c == ',' && depth > 0:
			b.WriteString(`|`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("the glob %q has a brace that is not closed", pattern)
	}
	re, err := regexp.Compile(`(?s)^(?:` + b.String() + `)$`)
	if err != nil {
		return nil, fmt.Errorf("the glob %q cannot be read", pattern)
	}
	return &glob{re, strings.Contains(pattern, "/")}, nil
}

func class(s string) string {
	not := ""
	if s[0] == '!' || s[0] == '^' {
		not, s = "^", s[1:]
	}
	return "[" + not + strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(s) + "]"
}

func (g *glob) match(p string) bool {
	if !g.matchesPaths {
		p = path.Base(p)
	}
	return g.re.MatchString(p)
}
