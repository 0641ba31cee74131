// Package sessionsearch implements the tool with which a model searches past conversations.
// The Library decides what is visible from a session.
package sessionsearch

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/internal/shorten"
)

// Name is the name of the tool.
const Name = "session_search"

//go:embed session_search.md session_search.json
var texts embed.FS

//go:embed summarize.md
var summaryPrompt string

// Errors of a Library for which the model gets a specific text.
var (
	// ErrUnknown is returned if a session does not exist or is not visible from the asking
	// session. The two cases are not distinguished.
	ErrUnknown = errors.New("search: no such session")
	// ErrNotNow is returned while the index is being built.
	ErrNotNow = errors.New("search: the index is being built")
)

// A Library finds past conversations. The argument after ctx is the ID of the asking
// session. Results contain only what is visible from it, and not its own active messages.
type Library interface {
	Search(ctx context.Context, asking string, q Query) ([]Match, error)
	// Rows returns the existing rows of a session with numbers from (inclusive) to to
	// (exclusive). Rows that a compaction has merely copied are left out.
	Rows(ctx context.Context, asking, session string, from, to int) (Session, []Passage, error)
	// Recent returns at most most sessions, the most recently used first.
	Recent(ctx context.Context, asking string, most int) ([]Session, error)
}

// A Query describes a search.
type Query struct {
	Text   string
	Limit  int      // maximum number of sessions
	Roles  []string // user, assistant, tool; empty: all
	Newest bool     // sort by time instead of relevance
}

// A Session describes one conversation. Its texts are untrusted.
type Session struct {
	ID       string
	Title    string
	Platform string
	Place    string // name of the chat or the user
	Began    time.Time
	Used     time.Time
	Rows     int // number of rows; they are numbered from 0
	Archived int
}

// A Passage is one message.
type Passage struct {
	Row  int
	Role string
	Text string
	Hit  bool // matches the query; others are neighbors of a match
}

// A Match holds the passages of one session.
type Match struct {
	Session  Session
	Passages []Passage // sorted by row
}

// Limits of a result, in characters unless noted otherwise.
const (
	maxResult     = 30_000
	maxMessages   = maxResult - 2000 // for messages
	maxNeighbor   = 240
	maxRead       = 1500
	maxScrolled   = 4000
	maxSummarized = 100_000
	maxSummary    = 2400
	maxQuery      = 2000 // bytes
	maxSessions   = 10
	maxWindow     = 25 // rows
	pageRows      = 400
)

// New returns the tool, which searches l and shows the passages found.
func New(l Library) tool.Tool {
	return newTool(searcher{l, func(_ context.Context, _ tool.Call, _ string, found []Match) []string {
		return make([]string, len(found))
	}})
}

// A Completer sends a prompt to a model, at the expense of the searching session, and returns
// the answer. The prompt asks for what a past conversation says about a query.
type Completer func(ctx context.Context, session, prompt string) (string, error)

// NewSummarizing is like New but shows what a model says of each session found; if that
// fails, the passages.
func NewSummarizing(l Library, complete Completer) tool.Tool {
	return newTool(searcher{l, summarizer{l, complete}.summarize})
}

func newTool(s searcher) tool.Tool {
	return tool.New(tool.Spec{
		Tool:      tool.Definition(texts, Name),
		Effect:    tool.Pure,
		Parallel:  true,
		MaxResult: maxResult,
	}, s.run)
}

type searcher struct {
	l Library
	// summarize returns a summary for each session found, "" for none.
	summarize func(ctx context.Context, c tool.Call, query string, found []Match) []string
}

type summarizer struct {
	l        Library
	complete Completer
}

type input struct {
	Query     string `json:"query"`
	Limit     int    `json:"limit"`
	Roles     string `json:"role_filter"`
	Sort      string `json:"sort"`
	SessionID string `json:"session_id"`
	Around    *int   `json:"around"`
	Offset    *int   `json:"offset"`
	Window    int    `json:"window"`
}

func (s searcher) run(ctx context.Context, c tool.Call, in input) (string, error) {
	var out string
	var err error
	in.Query, in.SessionID = strings.TrimSpace(in.Query), strings.TrimSpace(in.SessionID)
	if in.SessionID == "" && in.Around != nil {
		in.SessionID = c.Session
	}
	switch {
	case in.Around != nil && in.Offset != nil:
		out, err = s.readRow(ctx, c, in)
	case in.Around != nil:
		out, err = s.scroll(ctx, c, in)
	case in.SessionID != "":
		out, err = s.read(ctx, c, in.SessionID)
	case in.Query != "":
		out, err = s.search(ctx, c, in)
	default:
		out, err = s.recent(ctx, c, in.Limit)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		return "", fmt.Errorf("there is no session %q that can be seen from here; without arguments this tool lists the recent ones", in.SessionID)
	case errors.Is(err, ErrNotNow):
		return "", errors.New("the search index is being rebuilt; try again in a minute, or list the recent sessions by leaving out the query")
	}
	return tool.Truncate(out, maxResult), err
}

func (s searcher) search(ctx context.Context, c tool.Call, in input) (string, error) {
	roles, err := parseRoles(in.Roles)
	if err != nil {
		return "", err
	}
	if in.Sort != "" && in.Sort != "best" && in.Sort != "newest" {
		return "", fmt.Errorf("sort is best or newest, not %q", in.Sort)
	}
	if len(in.Query) > maxQuery {
		return "", fmt.Errorf("the query has more than %d bytes; a few words are enough", maxQuery)
	}
	found, err := s.l.Search(ctx, c.Session, Query{Text: in.Query, Limit: clamp(in.Limit, 3, maxSessions), Roles: roles, Newest: in.Sort == "newest"})
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return fmt.Sprintf("Nothing was found for %q. Try fewer or other words; without arguments this tool lists the recent sessions.", in.Query), nil
	}
	summaries := s.summarize(ctx, c, in.Query, found)
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s found for %q. To read on, call with session_id and around (a row).\n", len(found), plural(len(found), "session was", "sessions were"), in.Query)
	for i, f := range found {
		b.WriteString("\n" + headline(f.Session))
		if summaries[i] != "" {
			fmt.Fprintf(&b, "%s\n", summaries[i])
			continue
		}
		last := -1
		for _, p := range f.Passages {
			if last >= 0 && p.Row > last+1 {
				b.WriteString("  …\n")
			}
			last = p.Row
			if p.Hit {
				b.WriteString(formatRow("> ", p, maxRead))
			} else {
				b.WriteString(formatRow("  ", p, maxNeighbor))
			}
		}
	}
	return b.String(), nil
}

func (s summarizer) summarize(ctx context.Context, c tool.Call, query string, found []Match) []string {
	out := make([]string, len(found))
	var g sync.WaitGroup
	for i, f := range found {
		g.Go(func() {
			from := max(0, f.Passages[0].Row-pageRows/2)
			_, rows, err := s.l.Rows(ctx, c.Session, f.Session.ID, from, from+pageRows)
			if err != nil {
				return
			}
			var b strings.Builder
			for _, p := range rows {
				b.WriteString(formatRow("", p, maxScrolled))
			}
			if text, err := s.complete(ctx, c.Session, prompt(query, tool.Truncate(b.String(), maxSummarized))); err == nil {
				out[i] = tool.Truncate(strings.TrimSpace(text), maxSummary)
			}
		})
	}
	g.Wait()
	return out
}

// prompt returns the prompt for a summary. Neither the query nor the conversation can close
// its block.
func prompt(query, conversation string) string {
	fence := func(s string) string { return strings.ReplaceAll(s, "</", "<\u200b/") }
	return strings.TrimSpace(summaryPrompt) + "\n\n<query>\n" + fence(query) + "\n</query>\n\n<conversation>\n" + fence(conversation) + "</conversation>"
}

func (s searcher) scroll(ctx context.Context, c tool.Call, in input) (string, error) {
	n := clamp(in.Window, 6, maxWindow)
	at := max(*in.Around, 0)
	info, rows, err := s.l.Rows(ctx, c.Session, in.SessionID, max(0, at-n), at+n+1)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(headline(info))
	sizes := make([]int, len(rows))
	for i, p := range rows {
		sizes[i] = min(utf8.RuneCountInString(p.Text), maxScrolled)
	}
	share := tool.FairShare(sizes, maxMessages)
	for _, p := range rows {
		mark := "  "
		if p.Row == at {
			mark = "> "
		}
		b.WriteString(formatRow(mark, p, min(share, maxScrolled)))
	}
	if len(rows) == 0 {
		fmt.Fprintf(&b, "There is nothing to read around row %d; the rows are 0 to %d.\n", at, info.Rows-1)
	}
	return b.String(), nil
}

// maxPiece limits the characters of a long row that one call returns.
const maxPiece = 8000

func (s searcher) readRow(ctx context.Context, c tool.Call, in input) (string, error) {
	row, from := max(*in.Around, 0), max(*in.Offset, 0)
	p, ok := Passage{Row: row}, false
	if c.Replaced != nil && in.SessionID == c.Session { // it is stored when the turn ends
		var m llm.Message
		if m, ok = c.Replaced(row); ok {
			p.Role, p.Text = string(m.Role), messageText(m)
		}
	}
	if !ok {
		info, rows, err := s.l.Rows(ctx, c.Session, in.SessionID, row, row+1)
		if err != nil {
			return "", err
		}
		if len(rows) == 0 {
			return fmt.Sprintf("There is nothing to read in row %d; the rows are 0 to %d, and those in the context are not shown.", row, info.Rows-1), nil
		}
		p = rows[0]
	}
	text := []rune(p.Text)
	from = min(from, len(text))
	to := min(from+maxPiece, len(text))
	p.Text = string(text[from:to])
	out := formatRow("> ", p, maxPiece)
	if to < len(text) {
		out += fmt.Sprintf("Characters %d to %d of %d; go on with offset %d.\n", from, to-1, len(text), to)
	}
	return out, nil
}

// messageText returns what a message says, and the results of its tool calls.
func messageText(m llm.Message) string {
	var parts []string
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text, llm.ToolResult:
			parts = append(parts, b.Text)
		case llm.ToolUse:
			parts = append(parts, b.Name+" "+string(b.Input))
		}
	}
	return strings.Join(parts, "\n")
}

func (s searcher) read(ctx context.Context, c tool.Call, id string) (string, error) {
	info, head, err := s.l.Rows(ctx, c.Session, id, 0, pageRows)
	if err != nil {
		return "", err
	}
	var tail []Passage
	if info.Rows > pageRows {
		if _, tail, err = s.l.Rows(ctx, c.Session, id, max(pageRows, info.Rows-pageRows/2), info.Rows); err != nil {
			return "", err
		}
	}
	var lines []string
	total := 0
	for _, p := range append(head, tail...) {
		l := formatRow("  ", p, maxRead)
		lines = append(lines, l)
		total += len([]rune(l))
	}
	b := headline(info)
	if len(lines) == 0 {
		return b + "There is nothing to read in it.\n", nil
	}
	if total <= maxMessages && info.Rows <= pageRows {
		return b + strings.Join(lines, ""), nil
	}
	from, to := keptRange(lines, maxMessages)
	return b + strings.Join(lines[:from], "") + "  … left out here; call with session_id and around to read it …\n" + strings.Join(lines[to:], ""), nil
}

// keptRange returns which lines fit into room: those before from and those from to on. Two
// thirds of the room are for the beginning.
func keptRange(lines []string, room int) (from, to int) {
	to = len(lines)
	for left := room * 2 / 3; from < to; from++ {
		if left -= len([]rune(lines[from])); left < 0 {
			break
		}
	}
	for left := room / 3; to > from; to-- {
		if left -= len([]rune(lines[to-1])); left < 0 {
			break
		}
	}
	return from, to
}

func (s searcher) recent(ctx context.Context, c tool.Call, limit int) (string, error) {
	list, err := s.l.Recent(ctx, c.Session, clamp(limit, maxSessions, maxSessions))
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "There are no other sessions that can be seen from here.", nil
	}
	var b strings.Builder
	b.WriteString("The sessions that were used last:\n")
	for _, info := range list {
		b.WriteString(headline(info))
	}
	return b.String(), nil
}

func parseRoles(text string) ([]string, error) {
	var roles []string
	for _, r := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains([]string{"user", "assistant", "tool"}, r) {
			return nil, fmt.Errorf("role_filter takes user, assistant and tool, not %q", r)
		}
		roles = append(roles, r)
	}
	return roles, nil
}

func clamp(n, otherwise, most int) int {
	if n <= 0 {
		return otherwise
	}
	return min(n, most)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

const timeFormat = "2006-01-02 15:04"

func headline(s Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session %s", s.ID)
	if s.Title != "" {
		fmt.Fprintf(&b, " %q", shorten.To(s.Title, 100))
	}
	b.WriteString(" (" + s.Platform)
	if s.Place != "" {
		fmt.Fprintf(&b, ", %q", shorten.To(s.Place, 60))
	}
	fmt.Fprintf(&b, ", from %s to %s UTC, rows: %d", s.Began.UTC().Format(timeFormat), s.Used.UTC().Format(timeFormat), s.Rows)
	if s.Archived > 0 {
		fmt.Fprintf(&b, ", %d archived", s.Archived)
	}
	return b.String() + ")\n"
}

// formatRow formats one message. Its further lines are indented, so that a message cannot pose
// as another.
func formatRow(mark string, p Passage, most int) string {
	text := strings.ReplaceAll(shorten.To(strings.TrimSpace(p.Text), most), "\n", "\n      ")
	return fmt.Sprintf("%s[%d %s] %s\n", mark, p.Row, p.Role, text)
}
