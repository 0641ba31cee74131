package inbound

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// content returns a message as text: a note about where it was forwarded from,
// its text or caption without a leading mention of the bot, and a description of
// what is not text. known is false if the message has nothing that can be
// described.
func content(m *models.Message, me Identity) (text string, known bool) {
	body, ents := m.Text, m.Entities
	if body == "" {
		body, ents = m.Caption, m.CaptionEntities
	}
	var lines []string
	if m.ForwardOrigin != nil {
		mark := "[forwarded]"
		if from := oneLine(origin(m.ForwardOrigin)); from != "" {
			mark = "[forwarded from " + from + "]"
		}
		lines = append(lines, mark)
	}
	if body != "" {
		lines = append(lines, stripMention(withLinks(body, ents), ents, me))
	}
	note := describe(m)
	if note != "" {
		lines = append(lines, note)
	}
	return strings.Join(lines, "\n"), body != "" || note != ""
}

func describe(m *models.Message) string {
	switch {
	case m.Venue != nil:
		return fmt.Sprintf("[location: %s, %s]\n%s", oneLine(m.Venue.Title), oneLine(m.Venue.Address), coordinates(m.Venue.Location))
	case m.Location != nil:
		return "[location]\n" + coordinates(*m.Location)
	case m.Contact != nil:
		name := strings.TrimSpace(m.Contact.FirstName + " " + m.Contact.LastName)
		return fmt.Sprintf("[contact: %s, %s]", oneLine(name), oneLine(m.Contact.PhoneNumber))
	case m.Poll != nil:
		s := joinLines([]string{"[poll: " + oneLine(m.Poll.Question) + "]", withLinks(m.Poll.Description, m.Poll.DescriptionEntities)})
		for _, o := range m.Poll.Options {
			s += "\n- " + oneLine(o.Text)
		}
		return s
	case m.Checklist != nil:
		s := "[checklist: " + oneLine(m.Checklist.Title) + "]"
		for _, t := range m.Checklist.Tasks {
			s += "\n- " + oneLine(withLinks(t.Text, t.TextEntities))
		}
		return s
	case m.Audio != nil && m.Audio.Title+m.Audio.Performer != "":
		return "[audio: " + oneLine(strings.Trim(m.Audio.Performer+" – "+m.Audio.Title, " –")) + "]"
	case m.Dice != nil:
		return fmt.Sprintf("[dice %s: %d]", m.Dice.Emoji, m.Dice.Value)
	case m.Sticker != nil:
		return "[sticker" + pad(m.Sticker.Emoji) + "]"
	case m.Game != nil:
		return joinLines([]string{"[game: " + oneLine(m.Game.Title) + "]", m.Game.Description})
	case m.Story != nil:
		return "[story]"
	case m.Invoice != nil:
		return joinLines([]string{"[invoice: " + oneLine(m.Invoice.Title) + "]", m.Invoice.Description})
	case m.PaidMedia != nil:
		return "[paid media]"
	case m.WebAppData != nil:
		return "[web app: " + oneLine(m.WebAppData.ButtonText) + "]\n" + m.WebAppData.Data
	}
	return ""
}

func pad(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

func coordinates(l models.Location) string {
	lat := strconv.FormatFloat(l.Latitude, 'f', 6, 64)
	lon := strconv.FormatFloat(l.Longitude, 'f', 6, 64)
	return fmt.Sprintf("%s, %s\nhttps://maps.google.com/?q=%s,%s", lat, lon, lat, lon)
}

func origin(o *models.MessageOrigin) string {
	switch {
	case o == nil:
		return ""
	case o.MessageOriginUser != nil:
		return fullName(&o.MessageOriginUser.SenderUser)
	case o.MessageOriginHiddenUser != nil:
		return o.MessageOriginHiddenUser.SenderUserName
	case o.MessageOriginChat != nil:
		return o.MessageOriginChat.SenderChat.Title
	case o.MessageOriginChannel != nil:
		return o.MessageOriginChannel.Chat.Title
	}
	return ""
}

// withLinks returns text with the addresses of its links, which stand only in the
// entities, after their labels.
func withLinks(text string, ents []models.MessageEntity) string {
	var links []models.MessageEntity
	for _, e := range ents {
		if e.Type == models.MessageEntityTypeTextLink {
			links = append(links, e)
		}
	}
	if len(links) == 0 {
		return text
	}
	units := utf16.Encode([]rune(text))
	slices.SortStableFunc(links, func(a, b models.MessageEntity) int {
		return cmp.Compare(a.Offset+a.Length, b.Offset+b.Length)
	})
	var out []uint16
	done := 0
	for _, e := range links {
		label, ok := slice(units, e)
		if !ok {
			continue
		}
		end := e.Offset + e.Length
		target := strings.TrimPrefix(withTarget(label, e.URL), label)
		out = append(append(out, units[done:end]...), utf16.Encode([]rune(target))...)
		done = end
	}
	return string(utf16.Decode(append(out, units[done:]...)))
}

// withTarget returns the label of a link with its address, unless the label is
// the address.
func withTarget(label, address string) string {
	bare := strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://")
	switch label {
	case address, bare, strings.TrimSuffix(address, "/"), strings.TrimSuffix(bare, "/"):
		return label
	}
	if address == "" {
		return label
	}
	return label + " (" + address + ")"
}

// oneLine makes an untrusted name safe inside brackets.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '[' || r == ']':
			return -1
		case r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029:
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// files returns the attachments; of a photo, the largest size.
func files(m *models.Message) []chat.File {
	var out []chat.File
	add := func(f chat.File) {
		if f.Ref != "" {
			out = append(out, f)
		}
	}
	if len(m.Photo) > 0 {
		best := m.Photo[0]
		for _, p := range m.Photo[1:] {
			if p.Width*p.Height > best.Width*best.Height {
				best = p
			}
		}
		add(chat.File{Kind: chat.Photo, Ref: best.FileID, MIME: "image/jpeg", Size: int64(best.FileSize)})
	}
	if v := m.Voice; v != nil {
		add(chat.File{Kind: chat.Voice, Ref: v.FileID, MIME: v.MimeType, Size: v.FileSize})
	}
	if v := m.Audio; v != nil {
		add(chat.File{Kind: chat.Audio, Ref: v.FileID, Name: v.FileName, MIME: v.MimeType, Size: v.FileSize})
	}
	if v := m.Video; v != nil {
		add(chat.File{Kind: chat.Video, Ref: v.FileID, Name: v.FileName, MIME: v.MimeType, Size: v.FileSize})
	}
	if v := m.VideoNote; v != nil {
		add(chat.File{Kind: chat.Video, Ref: v.FileID, MIME: "video/mp4", Size: int64(v.FileSize)})
	}
	switch {
	case m.Animation != nil: // arrives with a document of the same file
		v := m.Animation
		add(chat.File{Kind: chat.Video, Ref: v.FileID, Name: v.FileName, MIME: v.MimeType, Size: v.FileSize})
	case m.Document != nil:
		v := m.Document
		add(chat.File{Kind: chat.Document, Ref: v.FileID, Name: v.FileName, MIME: v.MimeType, Size: v.FileSize})
	}
	if v := m.Sticker; v != nil {
		mime := "image/webp"
		switch {
		case v.IsVideo:
			mime = "video/webm"
		case v.IsAnimated:
			mime = "application/x-tgsticker"
		}
		add(chat.File{Kind: chat.Sticker, Ref: v.FileID, MIME: mime, Size: int64(v.FileSize)})
	}
	return out
}

// quote returns the message to which m replies. If the user selected a part of
// it, that part replaces the whole text.
func (c Converter) quote(m *models.Message) *chat.Quote {
	var q chat.Quote
	switch r := m.ReplyToMessage; {
	case r != nil && topicRoot(m):
		return nil
	case r != nil:
		by := sender(r)
		q = chat.Quote{
			ID: strconv.Itoa(r.ID), Author: by.Name,
			FromBot: c.Me.ID != 0 && r.From != nil && r.From.ID == c.Me.ID,
		}
		q.Text, _ = content(r, Identity{})
		if q.Text == "" {
			q.Text = fileWords(files(r))
		}
	case m.ExternalReply != nil:
		q = chat.Quote{Author: origin(&m.ExternalReply.Origin)}
		if m.ExternalReply.MessageID != 0 {
			q.ID = strconv.Itoa(m.ExternalReply.MessageID)
		}
	case m.Quote == nil:
		return nil
	}
	if m.Quote != nil && m.Quote.Text != "" {
		q.Text = withLinks(m.Quote.Text, m.Quote.Entities)
	}
	return &q
}

func fileWords(fs []chat.File) string {
	var out []string
	for _, f := range fs {
		out = append(out, "["+strings.TrimSpace(string(f.Kind)+" "+oneLine(f.Name))+"]")
	}
	return strings.Join(out, " ")
}
