package inbound

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hermesd/adapters/slack/internal/mrkdwn"
)

// maxBlockDepth limits the nesting of blocks. Slack's own have at most five
// levels.
const maxBlockDepth = 16

// A blockReader returns blocks as text in the form of Markdown.
type blockReader struct {
	refer func(mrkdwn.Reference) string
	users []string // the mentioned users
}

// A block has the fields of all kinds of blocks and of their elements. Text is a
// string or an object with a text, and so are the other captions.
type block struct {
	Type        string              `json:"type"`
	Text        json.RawMessage     `json:"text"`
	Title       json.RawMessage     `json:"title"`
	Description json.RawMessage     `json:"description"`
	Caption     json.RawMessage     `json:"caption"`
	Details     json.RawMessage     `json:"details"`
	Output      json.RawMessage     `json:"output"`
	Fields      []json.RawMessage   `json:"fields"`
	Elements    []json.RawMessage   `json:"elements"`
	Tasks       []json.RawMessage   `json:"tasks"`
	Rows        [][]json.RawMessage `json:"rows"`

	// Of rich text and the cells of tables.
	Style     json.RawMessage `json:"style"`
	Indent    int             `json:"indent"`
	Offset    int             `json:"offset"`
	URL       string          `json:"url"`
	UserID    string          `json:"user_id"`
	ChannelID string          `json:"channel_id"`
	GroupID   string          `json:"usergroup_id"`
	Name      string          `json:"name"`
	Range     string          `json:"range"`
	Value     json.RawMessage `json:"value"`
	Fallback  string          `json:"fallback"`
	Timestamp int64           `json:"timestamp"`
}

type piece struct{ kind, text string }

// pieces returns the texts of a list of blocks, without empty ones.
func (r *blockReader) pieces(raw json.RawMessage) (out []piece) {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // not a list: none
	for _, raw := range list {
		b := decodeBlock(raw)
		if s := strings.TrimRight(r.block(b, 0), "\n "); s != "" {
			out = append(out, piece{b.Type, s})
		}
	}
	return out
}

func decodeBlock(raw json.RawMessage) (b block) {
	_ = json.Unmarshal(raw, &b)
	return b
}

// block returns one block as text. Of an unknown kind it returns the text of the
// fields that other kinds have.
func (r *blockReader) block(b block, depth int) string {
	if depth > maxBlockDepth {
		return ""
	}
	switch b.Type {
	case "rich_text":
		return r.richText(b, depth)
	case "actions", "input", "context_actions": // forms of an app
		return ""
	case "header":
		return r.caption(b.Text)
	}
	lines := []string{r.caption(b.Title), r.caption(b.Text), r.caption(b.Description), r.caption(b.Caption)}
	for _, f := range b.Fields {
		lines = append(lines, r.caption(f))
	}
	for _, raw := range b.Elements {
		lines = append(lines, r.block(decodeBlock(raw), depth+1))
	}
	for _, raw := range b.Tasks {
		lines = append(lines, r.block(decodeBlock(raw), depth+1))
	}
	return joinLines(append(lines, r.table(b.Rows, depth), r.nested(b.Details, depth), r.nested(b.Output, depth)))
}

// nested returns a field that contains a block or a text.
func (r *blockReader) nested(raw json.RawMessage, depth int) string {
	if b := decodeBlock(raw); b.Type == "rich_text" {
		return r.block(b, depth+1)
	}
	return r.caption(raw)
}

// caption returns a text, which is a string in Slack's message format or an
// object with one.
func (r *blockReader) caption(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var object struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &object)
	if object.Type == "mrkdwn" {
		return mrkdwn.Read(object.Text, r.refer)
	}
	return object.Text
}

func (r *blockReader) table(rows [][]json.RawMessage, depth int) string {
	var lines []string
	for i, row := range rows {
		cells := make([]string, len(row))
		for k, raw := range row {
			text := strings.TrimSpace(r.cell(decodeBlock(raw), depth))
			cells[k] = strings.NewReplacer("\n", " ", "|", `\|`).Replace(text)
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 && len(rows) > 1 {
			lines = append(lines, "|"+strings.Repeat(" --- |", len(row)))
		}
	}
	return strings.Join(lines, "\n")
}

func (r *blockReader) cell(b block, depth int) string {
	if b.Type == "rich_text" {
		return r.richText(b, depth+1)
	}
	return r.inline(b)
}

func (r *blockReader) richText(b block, depth int) string {
	var lines []string
	for _, raw := range b.Elements {
		e := decodeBlock(raw)
		switch e.Type {
		case "rich_text_list":
			lines = append(lines, r.list(e, depth+1))
		case "rich_text_quote":
			lines = append(lines, "> "+strings.ReplaceAll(r.line(e), "\n", "\n> "))
		case "rich_text_preformatted":
			lines = append(lines, "```\n"+strings.TrimSuffix(r.line(e), "\n")+"\n```")
		default:
			lines = append(lines, strings.TrimSuffix(r.line(e), "\n"))
		}
	}
	return strings.Join(lines, "\n")
}

func (r *blockReader) list(b block, depth int) string {
	var style string
	_ = json.Unmarshal(b.Style, &style)
	var lines []string
	if depth > maxBlockDepth {
		return ""
	}
	for i, raw := range b.Elements {
		mark := "- "
		if style == "ordered" {
			mark = strconv.Itoa(b.Offset+i+1) + ". "
		}
		item := decodeBlock(raw)
		text := r.line(item)
		if item.Type == "rich_text_list" {
			mark, text = "", r.list(item, depth+1)
		}
		lines = append(lines, strings.Repeat("  ", max(0, min(b.Indent, 8)))+mark+text)
	}
	return strings.Join(lines, "\n")
}

// line returns the inline elements of a section.
func (r *blockReader) line(b block) string {
	var s strings.Builder
	for _, raw := range b.Elements {
		s.WriteString(r.inline(decodeBlock(raw)))
	}
	return s.String()
}

// inline returns one element of a section, or a simple cell of a table.
func (r *blockReader) inline(b block) string {
	ref := func(mark byte, id string) string {
		if s := r.refer(mrkdwn.Reference{Mark: mark, ID: id}); s != "" {
			return s
		}
		return string(mark) + id
	}
	text := r.caption(b.Text)
	switch b.Type {
	case "user":
		r.users = append(r.users, b.UserID)
		return ref('@', b.UserID)
	case "channel":
		return ref('#', b.ChannelID)
	case "usergroup":
		return "@" + b.GroupID
	case "broadcast":
		return "@" + b.Range
	case "emoji":
		return ":" + b.Name + ":"
	case "link":
		return mrkdwn.Link(b.URL, text)
	case "date":
		if b.Fallback == "" && b.Timestamp > 0 {
			return time.Unix(b.Timestamp, 0).UTC().Format(time.RFC3339)
		}
		return b.Fallback
	}
	text = cmp.Or(text, b.Fallback)
	text = cmp.Or(text, strings.Trim(string(b.Value), `"`))
	if text == "" {
		return b.URL
	}
	return text
}

func joinLines(lines []string) string {
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// unsaid returns the texts of blocks that the text of their message does not
// contain. For a user's message Slack derives the text from the rich text, but it
// contains no tables. The text of an app's message is what the app wrote for
// notifications.
func unsaid(text string, pieces []piece, fromApp bool) string {
	var more []string
	for _, p := range pieces {
		switch {
		case text == "", strings.HasSuffix(p.kind, "table"):
		case p.kind == "rich_text" && !fromApp, contains(text, p.text):
			continue
		}
		more = append(more, p.text)
	}
	return joinLines(more)
}

// contains reports whether text contains the letters and digits of part, in which
// two forms of the same text are equal.
func contains(text, part string) bool {
	letters := func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}
	part = strings.Map(letters, part)
	return part != "" && strings.Contains(strings.Map(letters, text), part)
}
