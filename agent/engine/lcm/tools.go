package lcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// Limits of the tool arguments and results.
const (
	maxText       = 20_000 // code points of a result
	maxHits       = 50
	excerptMargin = 120 // code points on each side of a hit
	maxRows       = 50  // messages of a page
	maxPattern    = 500 // bytes
)

// Tools returns lcm_grep, lcm_describe and lcm_expand for all sessions. open is
// called with the session ID of a call, and returns the newest state of its
// engine and its messages.
func Tools(open func(ctx context.Context, session string) (state json.RawMessage, a Archive, err error)) []tool.Tool {
	b := tools{open}
	spec := func(name, what, schema string) tool.Spec {
		return tool.Spec{
			Tool:   llm.Tool{Name: name, Description: what, Schema: json.RawMessage(schema)},
			Effect: tool.Pure, Parallel: true, MaxResult: 2 * maxText,
		}
	}
	return []tool.Tool{
		tool.New(spec("lcm_grep", "Search the archived messages of this conversation, which are no longer in the context. Returns the numbers of the messages with the text around each hit; read them whole with lcm_expand.",
			`{"type":"object","properties":{"pattern":{"type":"string","description":"regular expression (RE2); case does not matter"},"from":{"type":"integer","description":"number of the first message that is searched"}},"required":["pattern"]}`), b.grep),
		tool.New(spec("lcm_describe", "Show the tree of summaries of this conversation's archived messages, or one summary whole.",
			`{"type":"object","properties":{"id":{"type":"integer","description":"number of a summary; leave it out for the tree"}}}`), b.describe),
		tool.New(spec("lcm_expand", "Read archived messages of this conversation word for word, by their numbers or by the number of a summary. Long ranges come in pages, long messages in pieces.",
			`{"type":"object","properties":{"id":{"type":"integer","description":"number of a summary whose messages are read"},"from":{"type":"integer","description":"number of the first message"},"to":{"type":"integer","description":"number of the last message"},"offset":{"type":"integer","description":"characters of the first message that are passed over"}}}`), b.expand),
	}
}

type tools struct {
	open func(ctx context.Context, session string) (json.RawMessage, Archive, error)
}

var errNothingArchived = errors.New("nothing of this conversation is archived yet; all of it is in the context")

func (b tools) tree(ctx context.Context, c tool.Call) (tree, Archive, error) {
	raw, a, err := b.open(ctx, c.Session)
	if err != nil {
		return tree{}, nil, fmt.Errorf("the archive of this conversation cannot be opened: %w", err)
	}
	t := parseTree(compaction.Kept(raw, Name))
	if len(t.Nodes) == 0 {
		return t, a, errNothingArchived
	}
	return t, a, nil
}

type grepIn struct {
	Pattern string `json:"pattern"`
	From    int    `json:"from"`
}

func (b tools) grep(ctx context.Context, c tool.Call, in grepIn) (string, error) {
	if in.Pattern == "" || len(in.Pattern) > maxPattern {
		return "", fmt.Errorf("pattern takes 1 to %d bytes", maxPattern)
	}
	re, err := regexp.Compile("(?i)" + in.Pattern)
	if err != nil {
		re = regexp.MustCompile("(?i)" + regexp.QuoteMeta(in.Pattern))
	}
	t, a, err := b.tree(ctx, c)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	hits, next, seen := 0, -1, map[string]bool{}
	from, to := t.span()
	err = forEachMessage(ctx, a, max(from, in.From), to, func(n int, m llm.Message) bool {
		text := renderMessage(m)
		at := re.FindStringIndex(text)
		if at == nil || seen[text] { // a message that was active again has several rows
			return true
		}
		if hits == maxHits {
			next = n
			return false
		}
		seen[text] = true
		hits++
		fmt.Fprintf(&out, "message %d: %s\n", n, excerpt(text, at[0], at[1]))
		return true
	})
	switch {
	case err != nil:
		return "", err
	case hits == 0:
		return fmt.Sprintf("No archived message from %d to %d matches.", max(from, in.From), to-1), nil
	case next >= 0:
		fmt.Fprintf(&out, "There are more; go on with from=%d.", next)
	}
	return strings.TrimSpace(out.String()), nil
}

func excerpt(text string, from, to int) string {
	to = min(to, from+4*excerptMargin)
	a, b := from, to
	for n := 0; n < excerptMargin && a > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:a])
		a -= size
	}
	for n := 0; n < excerptMargin && b < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[b:])
		b += size
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text[a:b], "")), " ")
}

type describeIn struct {
	ID *int `json:"id"`
}

func (b tools) describe(ctx context.Context, c tool.Call, in describeIn) (string, error) {
	t, _, err := b.tree(ctx, c)
	if err != nil {
		return "", err
	}
	if in.ID != nil {
		n, err := t.node(*in.ID)
		if err != nil {
			return "", err
		}
		return tool.Truncate(fmt.Sprintf("Summary %d, messages %d to %d\n\n%s", n.ID, n.From, n.To-1, n.Text), maxText), nil
	}
	var out strings.Builder
	var list func(id, depth int)
	list = func(id, depth int) {
		n := t.Nodes[id]
		fmt.Fprintf(&out, "%sSummary %d: messages %d to %d\n", strings.Repeat("  ", depth), n.ID, n.From, n.To-1)
		for _, k := range n.Kids {
			list(k, depth+1)
		}
	}
	for _, id := range t.Top {
		list(id, 0)
	}
	return tool.Truncate(strings.TrimSpace(out.String()), maxText), nil
}

func (t tree) node(id int) (node, error) {
	if id < 0 || id >= len(t.Nodes) {
		return node{}, fmt.Errorf("there is no summary %d; there are 0 to %d", id, len(t.Nodes)-1)
	}
	return t.Nodes[id], nil
}

type expandIn struct {
	ID     *int `json:"id"`
	From   *int `json:"from"`
	To     *int `json:"to"`
	Offset int  `json:"offset"`
}

func (b tools) expand(ctx context.Context, c tool.Call, in expandIn) (string, error) {
	t, a, err := b.tree(ctx, c)
	if err != nil {
		return "", err
	}
	from, to := t.span()
	end := to
	if in.ID != nil {
		n, err := t.node(*in.ID)
		if err != nil {
			return "", err
		}
		from, to = n.From, n.To
	}
	if in.From != nil {
		from = max(from, *in.From)
	}
	if in.To != nil {
		to = min(to, *in.To+1)
	}
	if from >= to || in.Offset < 0 {
		return "", fmt.Errorf("there are no such messages; 0 to %d are archived", end-1)
	}
	return renderPage(ctx, a, from, to, in.Offset)
}

// renderPage returns the messages with numbers from (inclusive) to to
// (exclusive), as many as fit into one result.
func renderPage(ctx context.Context, a Archive, from, to, offset int) (string, error) {
	var out strings.Builder
	left, rows, more := maxText, 0, ""
	err := forEachMessage(ctx, a, from, to, func(n int, m llm.Message) bool {
		text := []rune(renderMessage(m))
		skip := 0
		if n == from {
			skip = min(offset, len(text))
		}
		text = text[skip:]
		if rows > 0 && (rows == maxRows || len(text) > left) {
			more = fmt.Sprintf("There are more; go on with from=%d to=%d.", n, to-1)
			return false
		}
		fmt.Fprintf(&out, "--- message %d, %s ---\n", n, m.Role)
		if len(text) > left {
			out.WriteString(string(text[:left]))
			more = fmt.Sprintf("The message goes on; read from=%d to=%d offset=%d.", n, to-1, skip+left)
			return false
		}
		out.WriteString(string(text))
		out.WriteByte('\n')
		left -= len(text)
		rows++
		return true
	})
	if err != nil {
		return "", err
	}
	if more != "" {
		out.WriteString("\n[" + more + "]")
	}
	return strings.TrimSpace(out.String()), nil
}

func renderMessage(m llm.Message) string {
	var parts []string
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			parts = append(parts, b.Text)
		case llm.ToolUse:
			parts = append(parts, fmt.Sprintf("[call %s of %s] %s", b.ID, b.Name, b.Input))
		case llm.ToolResult:
			state := ""
			if b.Failed {
				state = ", failed"
			}
			parts = append(parts, fmt.Sprintf("[result of %s%s] %s", b.ID, state, b.Text))
		case llm.Image:
			parts = append(parts, fmt.Sprintf("[picture %s %s]", b.MIME, b.Path))
		}
	}
	return strings.Join(parts, "\n")
}
