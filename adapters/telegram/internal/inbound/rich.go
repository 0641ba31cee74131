package inbound

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// maxRichDepth limits the nesting of a rich message. The Bot API allows 16
// levels of blocks.
const maxRichDepth = 40

// A richReader collects what a rich message contains besides its text. It reads
// the JSON and not the library's types, so that the text of a kind of block that
// is newer than the library arrives too.
type richReader struct {
	files    []chat.File
	mentions []richMention
}

// A richMention is a mention or a command in the text of a rich message.
type richMention struct {
	text   string
	entity models.MessageEntity
}

// readRich returns a rich message as text in the form of Markdown, with the
// entities by which a bot is addressed, and its attachments.
func readRich(raw json.RawMessage) (string, []models.MessageEntity, []chat.File) {
	var m struct {
		Blocks []json.RawMessage `json:"blocks"`
	}
	_ = json.Unmarshal(raw, &m) // what can be decoded
	var r richReader
	text := r.blocks(m.Blocks, 0)
	return text, r.entities(text), r.files
}

// entities returns the mentions with their offsets in text, in which they occur
// in order.
func (r *richReader) entities(text string) []models.MessageEntity {
	var out []models.MessageEntity
	from := 0 // in UTF-16 units
	for _, m := range r.mentions {
		before, rest, ok := strings.Cut(text, m.text)
		if !ok || m.text == "" {
			continue
		}
		m.entity.Offset = from + units(before)
		m.entity.Length = units(m.text)
		out = append(out, m.entity)
		text, from = rest, m.entity.Offset+m.entity.Length
	}
	return out
}

// units returns the length of s in UTF-16 units.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

func (r *richReader) blocks(raws []json.RawMessage, depth int) string {
	var parts []string
	for _, raw := range raws {
		if s := strings.TrimRight(r.block(raw, depth+1), "\n"); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}

type richBlock struct {
	Type       string            `json:"type"`
	Text       json.RawMessage   `json:"text"`
	Size       int               `json:"size"`
	Language   string            `json:"language"`
	Expression string            `json:"expression"`
	Summary    json.RawMessage   `json:"summary"`
	Blocks     []json.RawMessage `json:"blocks"`
	Items      []richItem        `json:"items"`
	Cells      [][]richCell      `json:"cells"`
	Buttons    []json.RawMessage `json:"buttons"`
	Caption    json.RawMessage   `json:"caption"`
	Credit     json.RawMessage   `json:"credit"`
	Location   *models.Location  `json:"location"`

	Photo     []models.PhotoSize `json:"photo"`
	Video     *models.Video      `json:"video"`
	Animation *models.Animation  `json:"animation"`
	Audio     *models.Audio      `json:"audio"`
	Document  *models.Document   `json:"document"`
	VoiceNote *models.Voice      `json:"voice_note"`
}

type richItem struct {
	Label       string            `json:"label"`
	Blocks      []json.RawMessage `json:"blocks"`
	HasCheckbox bool              `json:"has_checkbox"`
	IsChecked   bool              `json:"is_checked"`
}

type richCell struct {
	Text     json.RawMessage `json:"text"`
	IsHeader bool            `json:"is_header"`
}

// block returns one block as text. Of an unknown kind it returns the text of the
// fields that other kinds have.
func (r *richReader) block(raw json.RawMessage, depth int) string {
	var b richBlock
	if depth > maxRichDepth {
		return ""
	}
	_ = json.Unmarshal(raw, &b) // what can be decoded
	text := r.text(b.Text, depth)
	switch b.Type {
	case "heading":
		text = strings.Repeat("#", min(max(b.Size, 1), 6)) + " " + text
	case "pre":
		text = "```" + b.Language + "\n" + text + "\n```"
	case "divider":
		text = "---"
	case "expandable_blockquote", "pullquote":
		text = indent(text, "> ", "> ")
	}
	lines := []string{text, b.Expression, r.text(b.Summary, depth)}
	inner := r.blocks(b.Blocks, depth)
	if b.Type == "blockquote" {
		inner = indent(inner, "> ", "> ")
	}
	lines = append(lines, inner)
	for _, item := range b.Items {
		lines = append(lines, r.item(item, depth))
	}
	lines = append(lines, r.table(b.Cells, depth))
	for _, button := range b.Buttons {
		lines = append(lines, "["+r.text(button, depth)+"]")
	}
	if b.Location != nil {
		lines = append(lines, "[location]\n"+coordinates(*b.Location))
	}
	media := &models.Message{
		Photo: b.Photo, Video: b.Video, Animation: b.Animation, Audio: b.Audio, Document: b.Document, Voice: b.VoiceNote,
	}
	r.files = append(r.files, files(media)...)
	lines = append(lines, describe(media), r.text(b.Caption, depth))
	if by := r.text(b.Credit, depth); by != "" {
		lines = append(lines, "— "+by)
	}
	return joinLines(lines)
}

func joinLines(lines []string) string {
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// indent puts first before the first line of s and rest before all others.
func indent(s, first, rest string) string {
	if s == "" {
		return ""
	}
	return first + strings.ReplaceAll(s, "\n", "\n"+rest)
}

func (r *richReader) item(item richItem, depth int) string {
	label := item.Label
	if label == "" || label == "•" {
		label = "-"
	}
	if item.HasCheckbox {
		box := " [ ]"
		if item.IsChecked {
			box = " [x]"
		}
		label += box
	}
	return label + " " + indent(r.blocks(item.Blocks, depth), "", "  ")
}

func (r *richReader) table(rows [][]richCell, depth int) string {
	var lines []string
	for i, row := range rows {
		cells := make([]string, len(row))
		for k, c := range row {
			cells[k] = strings.NewReplacer("\n", " ", "|", `\|`).Replace(r.text(c.Text, depth))
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 && len(row) > 0 && row[0].IsHeader {
			lines = append(lines, "|"+strings.Repeat(" --- |", len(row)))
		}
	}
	return strings.Join(lines, "\n")
}

// A richSpan has the fields of all kinds of text objects, and of captions and
// buttons, which contain text in the same form.
type richSpan struct {
	Type        string          `json:"type"`
	Text        json.RawMessage `json:"text"`
	URL         string          `json:"url"`
	Expression  string          `json:"expression"`
	Alternative string          `json:"alternative_text"`
	User        *models.User    `json:"user"`
	Button      json.RawMessage `json:"button"`
	Credit      json.RawMessage `json:"credit"`
}

// text returns a rich text, which is a string, a list, or an object.
func (r *richReader) text(raw json.RawMessage, depth int) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || depth > maxRichDepth {
		return ""
	}
	switch raw[0] {
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s)
		return s
	case '[':
		var (
			list []json.RawMessage
			b    strings.Builder
		)
		_ = json.Unmarshal(raw, &list)
		for _, part := range list {
			b.WriteString(r.text(part, depth+1))
		}
		return b.String()
	case '{':
		var s richSpan
		_ = json.Unmarshal(raw, &s) // what can be decoded
		return r.span(s, depth)
	}
	return ""
}

func (r *richReader) span(s richSpan, depth int) string {
	text := r.text(s.Text, depth+1)
	switch kind := models.MessageEntityType(s.Type); kind {
	case models.MessageEntityTypeMention, models.MessageEntityTypeTextMention, models.MessageEntityTypeBotCommand:
		r.mentions = append(r.mentions, richMention{text, models.MessageEntity{Type: kind, User: s.User}})
	}
	text = withTarget(text+s.Expression+s.Alternative+r.text(s.Button, depth+1), s.URL)
	if by := r.text(s.Credit, depth+1); by != "" {
		text += " — " + by
	}
	return text
}
