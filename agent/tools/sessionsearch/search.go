// Package sessionsearch holds the tool with which a model looks into past
// conversations. What may be seen from a session the Library decides.
package sessionsearch

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "session_search"

var (
	//go:embed session_search.md
	description string
	//go:embed session_search.json
	schema string
	//go:embed summarize.md
	question string
)

// The errors of a Library that are told to the model in words of their own.
var (
	// ErrUnknown says that there is no such session, or that it cannot be seen
	// from the one that asks: the two are not told apart.
	ErrUnknown = errors.New("search: no such session")
	// ErrNotNow says that the index is being built.
	ErrNotNow = errors.New("search: the index is being built")
)

// A Library finds past conversations. The first argument behind ctx is the id
// of the session that asks; nothing is returned that may not be seen from it,
// nor its own active messages.
type Library interface {
	Search(ctx context.Context, asking string, q Query) ([]Match, error)
	// Rows returns the rows of a session with the numbers from up to to, which is
	// not one of them, as far as there are any. Rows that a compression has only
	// copied are not among them.
	Rows(ctx context.Context, asking, session string, from, to int) (Session, []Passage, error)
	// Recent returns the sessions that were used last, the newest first.
	Recent(ctx context.Context, asking string, most int) ([]Session, error)
}

// A Query is what is looked for.
type Query struct {
	Text   string
	Limit  int      // sessions
	Roles  []string // user, assistant, tool; none: all
	Newest bool     // first, and not the best
}

// A Session is one conversation. Its words come from outside.
type Session struct {
	ID       string
	Title    string
	Platform string
	Place    string // name of the chat or the person
	Began    time.Time
	Used     time.Time
	Rows     int // rows are numbered from 0 and below this
	Archived int
}

// A Passage is one message.
type Passage struct {
	Row  int
	Role string
	Text string
	Hit  bool // it was looked for; others stand beside it
}

// Match are the passages of one session.
type Match struct {
	Session  Session
	Passages []Passage // by row
}

// Options are what the tool may have.
type Options struct {
	// Summarize, if set, has a model answer a prompt, which asks what a past
	// conversation tells about a query, on the bill of the session that searches.
	// Without it, and where it fails, the passages themselves are shown.
	Summarize func(ctx context.Context, session, prompt string) (string, error)
}

// Limits of what the tool returns, in characters unless it says otherwise.
const (
	maxResult     = 30_000
	room          = maxResult - 2000 // for messages
	maxNeighbour  = 240
	maxRead       = 1500
	maxScrolled   = 4000
	maxSummarized = 100_000
	maxSummary    = 2400
	maxQuery      = 2000 // bytes
	maxSessions   = 10
	maxWindow     = 25 // rows
	pageRows      = 400
)

// New returns the tool.
func New(l Library, o Options) tool.Tool {
	s := searcher{l, o}
	return tool.New(tool.Spec{
		Tool:      llm.Tool{Name: Name, Description: strings.TrimSpace(description), Schema: json.RawMessage(strings.TrimSpace(schema))},
		Effect:    tool.Pure,
		Parallel:  true,
		MaxResult: maxResult,
	}, s.run)
}

type searcher struct {
	l Library
	o Options
}

type input struct {
	Query     string `json:"query"`
	Limit     int    `json:"limit"`
	Roles     string `json:"role_filter"`
	Sort      string `json:"sort"`
	SessionID string `json:"session_id"`
	Around    *int   `json:"around"`
	Window    int    `json:"window"`
}

func (s searcher) run(ctx context.Context, c tool.Call, in input) (string, error) {
	var out string
	var err error
	in.Query, in.SessionID = strings.TrimSpace(in.Query), strings.TrimSpace(in.SessionID)
	switch {
	case in.SessionID != "" && in.Around != nil:
		out, err = s.scroll(ctx, c, in)
	case in.SessionID != "":
		out, err = s.read(ctx, c, in.SessionID)
	case in.Query != "":
		out, err = s.search(ctx, c, in)
	case in.Around != nil:
		return "", errors.New("around needs the session_id whose rows it counts")
	default:
		out, err = s.recent(ctx, c, in.Limit)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		return "", fmt.Errorf("there is no session %q that can be seen from here; without arguments this tool lists the recent ones", in.SessionID)
	case errors.Is(err, ErrNotNow):
		return "", errors.New("the search index is being built anew; try again in a minute, or list the recent sessions by leaving out the query")
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
	found, err := s.l.Search(ctx, c.Session, Query{Text: in.Query, Limit: within(in.Limit, 3, maxSessions), Roles: roles, Newest: in.Sort == "newest"})
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
				b.WriteString(line("> ", p, maxRead))
			} else {
				b.WriteString(line("  ", p, maxNeighbour))
			}
		}
	}
	return b.String(), nil
}

// summarize returns a summary for each session that was found, "" for none.
func (s searcher) summarize(ctx context.Context, c tool.Call, query string, found []Match) []string {
	out := make([]string, len(found))
	if s.o.Summarize == nil {
		return out
	}
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
				b.WriteString(line("", p, maxScrolled))
			}
			if text, err := s.o.Summarize(ctx, c.Session, prompt(query, tool.Truncate(b.String(), maxSummarized))); err == nil {
				out[i] = tool.Truncate(strings.TrimSpace(text), maxSummary)
			}
		})
	}
	g.Wait()
	return out
}

// prompt asks what a conversation tells about a query. Neither can end the block
// in which it stands.
func prompt(query, conversation string) string {
	fence := func(s string) string { return strings.ReplaceAll(s, "</", "<\u200b/") }
	return strings.TrimSpace(question) + "\n\n<query>\n" + fence(query) + "\n</query>\n\n<conversation>\n" + fence(conversation) + "</conversation>"
}

func (s searcher) scroll(ctx context.Context, c tool.Call, in input) (string, error) {
	n := within(in.Window, 6, maxWindow)
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
	share := tool.FairShare(sizes, room)
	for _, p := range rows {
		mark := "  "
		if p.Row == at {
			mark = "> "
		}
		b.WriteString(line(mark, p, min(share, maxScrolled)))
	}
	if len(rows) == 0 {
		fmt.Fprintf(&b, "There is nothing to read around row %d; the rows are 0 to %d.\n", at, info.Rows-1)
	}
	return b.String(), nil
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
		l := line("  ", p, maxRead)
		lines = append(lines, l)
		total += len([]rune(l))
	}
	b := headline(info)
	if len(lines) == 0 {
		return b + "There is nothing to read in it.\n", nil
	}
	if total <= room && info.Rows <= pageRows {
		return b + strings.Join(lines, ""), nil
	}
	from, to := ends(lines, room)
	return b + strings.Join(lines[:from], "") + "  … left out here; call with session_id and around to read it …\n" + strings.Join(lines[to:], ""), nil
}

// ends returns what stays of lines that are too long: those before from and
// from to on, two thirds of the room for the beginning.
func ends(lines []string, room int) (from, to int) {
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
	list, err := s.l.Recent(ctx, c.Session, within(limit, maxSessions, maxSessions))
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

func within(n, otherwise, most int) int {
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
