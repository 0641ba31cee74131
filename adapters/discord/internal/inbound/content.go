package inbound

import (
	"regexp"
	"strings"

	"hermesd/gateway/chat"
)

const flagVoice = 1 << 13

// token matches a mention or an emoji in a text.
var token = regexp.MustCompile(`<(?:@[!&]?|#)(\d+)>|<a?:(\w+):\d+>`)

// words returns the text of a message for the agent: mentions by name, and
// embeds, stickers and polls described. A leading mention of the account is
// removed; elsewhere it is part of the text.
func (c Converter) words(m *message, p ChannelInfo) string {
	parts := []string{c.plain(c.strip(m.Content, p), m)}
	for _, s := range m.Snapshots {
		if s != nil && s.Message != nil {
			parts = append(parts, "[forwarded]\n"+c.words(bare(s.Message), ChannelInfo{}))
		}
	}
	for _, e := range whole(m.Embeds) {
		if e.Type == "rich" || m.Content == "" {
			parts = append(parts, embedText(e))
		}
	}
	for _, t := range componentTexts(m.Components, 0) {
		parts = append(parts, c.plain(t, m))
	}
	for _, s := range whole(m.Stickers) {
		parts = append(parts, "[sticker: "+s.Name+"]")
	}
	if m.Poll != nil {
		parts = append(parts, pollText(m.Poll))
	}
	var out []string
	for _, s := range parts {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// bare returns a forwarded message without the messages that it forwards itself.
func bare(m *message) *message {
	b := *m
	b.Snapshots, b.Referenced = nil, nil
	return &b
}

// strip removes a leading mention of the account if something follows it.
func (c Converter) strip(text string, p ChannelInfo) string {
	rest := strings.TrimLeft(text, " \n\t")
	for _, own := range []string{"<@" + c.Me.ID + ">", "<@!" + c.Me.ID + ">", "<@&" + p.Role + ">"} {
		after, ok := strings.CutPrefix(rest, own)
		if !ok {
			continue
		}
		if after = strings.TrimLeft(after, " \n\t,:;"); after != "" {
			return after
		}
	}
	return text
}

// plain replaces the mentions and emojis of a text by their names.
func (c Converter) plain(text string, m *message) string {
	return token.ReplaceAllStringFunc(text, func(t string) string {
		sub := token.FindStringSubmatch(t)
		if sub[2] != "" {
			return ":" + sub[2] + ":"
		}
		if strings.HasPrefix(t, "<#") || strings.HasPrefix(t, "<@&") {
			return t
		}
		if sub[1] == c.Me.ID && c.Me.Name != "" {
			return "@" + c.Me.Name
		}
		for _, u := range whole(m.Mentions) {
			if u.ID == sub[1] && u.name() != "" {
				return "@" + u.name()
			}
		}
		return t
	})
}

func embedText(e *embed) string {
	var lines []string
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			lines = append(lines, s)
		}
	}
	if e.Author != nil {
		add(e.Author.Name)
	}
	add(e.Title)
	add(e.Description)
	for _, f := range whole(e.Fields) {
		add(strings.TrimSpace(f.Name) + ": " + strings.TrimSpace(f.Value))
	}
	if e.Footer != nil {
		add(e.Footer.Text)
	}
	add(e.URL)
	if lines == nil {
		return ""
	}
	return "[embed] " + strings.Join(lines, "\n")
}

// maxComponentDepth limits the nesting of components. Discord allows three levels.
const maxComponentDepth = 8

// componentTexts returns the texts of components in order, without those of
// buttons and menus.
func componentTexts(list []*component, depth int) (out []string) {
	if depth > maxComponentDepth {
		return nil
	}
	for _, c := range whole(list) {
		out = append(out, c.Content, c.Description)
		out = append(out, componentTexts(c.Components, depth+1)...)
		out = append(out, componentTexts(c.Items, depth+1)...)
		out = append(out, componentTexts([]*component{c.Accessory}, depth+1)...)
	}
	return out
}

func pollText(p *poll) string {
	if p.Question.Text == "" {
		return ""
	}
	lines := []string{"[poll] " + p.Question.Text}
	for _, a := range p.Answers {
		if a != nil {
			lines = append(lines, "- "+a.Media.Text)
		}
	}
	return strings.Join(lines, "\n")
}

// files returns the attachments of a message and of a message that it forwards.
func files(m *message) []chat.File {
	var out []chat.File
	all := whole(m.Attachments)
	for _, s := range m.Snapshots {
		if s != nil && s.Message != nil {
			all = append(all, whole(s.Message.Attachments)...)
		}
	}
	for _, a := range all {
		if a.URL == "" {
			continue
		}
		out = append(out, chat.File{
			Kind: fileKind(a.Type, m.Flags&flagVoice != 0),
			Ref:  Ref{Channel: m.Channel, Message: m.ID, ID: a.ID, URL: a.URL}.String(),
			Name: a.Name, MIME: a.Type, Size: max(a.Size, 0),
		})
	}
	return out
}

func fileKind(mime string, voice bool) chat.FileKind {
	class, _, _ := strings.Cut(mime, "/")
	switch {
	case voice && class == "audio":
		return chat.Voice
	case class == "image":
		return chat.Photo
	case class == "audio":
		return chat.Audio
	case class == "video":
		return chat.Video
	}
	return chat.Document
}

// A Ref identifies an attachment. Its URL expires after a day; then the message
// is fetched for a new one.
type Ref struct{ Channel, Message, ID, URL string }

func (r Ref) String() string { return strings.Join([]string{r.Channel, r.Message, r.ID, r.URL}, " ") }

// ParseRef is the inverse of String.
func ParseRef(s string) (Ref, bool) {
	p := strings.SplitN(s, " ", 4)
	if len(p) != 4 {
		return Ref{}, false
	}
	return Ref{p[0], p[1], p[2], p[3]}, true
}
