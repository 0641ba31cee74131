package telegram

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// An outgoing is a validated message that a bot is going to send.
type outgoing struct {
	room    *Chat
	thread  int
	topic   bool
	answer  func(*message)
	markup  json.RawMessage
	buttons [][]Button
	content rich
	media   *Media
	album   string
}

// outgoing validates everything but the content.
func (c *call) outgoing() (outgoing, *apiError) {
	var o outgoing
	var err *apiError
	if o.markup, o.buttons, err = c.markup(); err != nil {
		return o, err
	}
	if o.room, err = c.room(writing); err != nil {
		return o, err
	}
	if o.thread, o.topic, err = c.thread(o.room); err != nil {
		return o, err
	}
	o.answer, err = c.reply(o.room)
	return o, err
}

// deliver creates the message.
func (c *call) deliver(o outgoing) *message {
	m := o.room.newMessageLocked(c.bot.me.Person)
	if o.room.kind == Channel {
		m.sender = o.room
	}
	m.Thread, m.Topic = o.thread, o.topic
	m.Text, m.Entities, m.Corrected = o.content.text, o.content.entities, o.content.corrected
	m.Media, m.Album, m.markup, m.Buttons = o.media, o.album, o.markup, o.buttons
	m.Silent = c.bool("disable_notification")
	if o.media != nil {
		o.media.store(c.s)
	}
	o.answer(m)
	o.room.talker, o.room.draft = c.bot.ID(), ""
	c.made = m.ID
	c.s.recorder.note(func(n *Counts) { n.Sent++ })
	return m
}

// text reads and validates text, parse_mode and entities.
func (c *call) text() (rich, *apiError) {
	if c.str("text") == "" {
		return rich{}, badRequest("message text is empty")
	}
	out, err := format(c.str("text"), c.str("parse_mode"), c.str("entities"))
	switch {
	case err != nil:
		return rich{}, err
	case out.text == "":
		return rich{}, badRequest("text must be non-empty")
	case units(out.text) > maxText:
		return rich{}, badRequest("message is too long")
	}
	return out, nil
}

// caption reads and validates caption, parse_mode and caption_entities.
func (c *call) caption() (rich, *apiError) {
	return checkCaption(c.str("caption"), c.str("parse_mode"), c.str("caption_entities"))
}

func checkCaption(text, mode, entities string) (rich, *apiError) {
	out, err := format(text, mode, entities)
	if err == nil && units(out.text) > maxCaption {
		err = badRequest("message caption is too long")
	}
	return out, err
}

func (c *call) sendMessage() (any, *apiError) {
	content, err := c.text()
	if err != nil {
		return nil, err
	}
	o, err := c.outgoing()
	if err != nil {
		return nil, err
	}
	o.content = content
	return o.room.wireLocked(c.deliver(o), c.bot), nil
}

// sendMessageDraft shows a text that is still being generated.
func (c *call) sendMessageDraft() (any, *apiError) {
	ch, err := c.room(writing)
	if err != nil {
		return nil, err
	}
	if ch.kind != Private {
		return nil, badRequest("chat must be a private chat")
	}
	if id := c.str("draft_id"); id == "" || id == "0" {
		return nil, badRequest("draft identifier must be non-zero")
	}
	if _, _, err := c.thread(ch); err != nil {
		return nil, err
	}
	content, err := c.text()
	if err != nil {
		return nil, err
	}
	ch.draft = content.text
	return true, nil
}

func (c *call) sendMedia() (any, *apiError) {
	kind := MediaKind(strings.TrimPrefix(c.method, "send"))
	if kind == "videonote" {
		kind = VideoNote
	}
	media, err := c.media(kind, string(kind), c.str(string(kind)))
	if err != nil {
		return nil, err
	}
	content, err := c.caption()
	if err != nil {
		return nil, err
	}
	o, err := c.outgoing()
	if err != nil {
		return nil, err
	}
	o.content, o.media = content, media
	return o.room.wireLocked(c.deliver(o), c.bot), nil
}

const maxPhoto = 10 << 20

// media returns the media that a parameter names: an uploaded file, or one that
// exists on the server.
func (c *call) media(kind MediaKind, field, value string) (*Media, *apiError) {
	if name, ok := strings.CutPrefix(value, "attach://"); ok {
		field = name
	}
	if up := c.req.files[field]; up != nil {
		if kind == Photo && len(up.data) > maxPhoto {
			return nil, badRequest("file of size %d bytes is too big for a photo; the maximum size is %d bytes", len(up.data), maxPhoto)
		}
		if len(up.data) == 0 {
			return nil, badRequest("file must be non-empty")
		}
		m := &Media{Kind: kind, Name: up.name, MIME: up.mime, Data: up.data, Seconds: c.int("duration", 0)}
		m.Width, m.Height = c.int("width", 0), c.int("height", 0)
		return m, nil
	}
	switch {
	case value == "":
		return nil, badRequest("there is no %s in the request", kind)
	case strings.HasPrefix(value, "attach://"):
		return nil, badRequest("file \"%s\" not found in the request", field)
	case strings.HasPrefix(value, "http://"), strings.HasPrefix(value, "https://"):
		return nil, badRequest("failed to get HTTP URL content")
	}
	known := c.bot.fileByID(value)
	if known == nil {
		return nil, badRequest("wrong file identifier/HTTP URL specified")
	}
	if known.Kind != kind && kind != Document {
		return nil, badRequest("can't use file of type %s as %s", typeName(known.Kind), typeName(kind))
	}
	return known, nil
}

func typeName(k MediaKind) string {
	s := string(k)
	return strings.ToUpper(s[:1]) + s[1:]
}

func (c *call) sendLocation() (any, *apiError) {
	o, err := c.outgoing()
	if err != nil {
		return nil, err
	}
	o.media = &Media{Kind: Location}
	if json.Unmarshal([]byte(c.str("latitude")), &o.media.Lat) != nil || json.Unmarshal([]byte(c.str("longitude")), &o.media.Lon) != nil {
		return nil, badRequest("wrong location specified")
	}
	return o.room.wireLocked(c.deliver(o), c.bot), nil
}

func (c *call) sendMediaGroup() (any, *apiError) {
	var list []struct {
		Type     MediaKind       `json:"type"`
		Media    string          `json:"media"`
		Caption  string          `json:"caption"`
		Mode     string          `json:"parse_mode"`
		Entities json.RawMessage `json:"caption_entities"`
	}
	if json.Unmarshal([]byte(c.str("media")), &list) != nil {
		return nil, badRequest("can't parse media JSON object")
	}
	if len(list) < 2 || len(list) > 10 {
		return nil, badRequest("wrong number of media in the album: media must include 2-10 items")
	}
	o, err := c.outgoing()
	if err != nil {
		return nil, err
	}
	var ready []outgoing
	for _, item := range list {
		if !slices.Contains([]MediaKind{Photo, Video, Audio, Document}, item.Type) {
			return nil, badRequest("can't use the media of the specified type in the album")
		}
		if o.media, err = c.media(item.Type, "", item.Media); err != nil {
			return nil, err
		}
		if o.content, err = checkCaption(item.Caption, item.Mode, string(item.Entities)); err != nil {
			return nil, err
		}
		ready = append(ready, o)
	}
	album := o.room.albumLocked()
	var out []*wireMessage
	for _, r := range ready {
		r.album = album
		out = append(out, r.room.wireLocked(c.deliver(r), c.bot))
	}
	return out, nil
}

var chatActions = []string{
	"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document",
	"choose_sticker", "find_location", "record_video_note", "upload_video_note", "record_audio", "upload_audio",
}

func (c *call) sendChatAction() (any, *apiError) {
	if !slices.Contains(chatActions, c.str("action")) {
		return nil, badRequest("wrong parameter action in request")
	}
	ch, err := c.room(writing)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.thread(ch); err != nil {
		return nil, err
	}
	return true, nil
}

// original returns the message that is forwarded or copied.
func (c *call) original() (*message, *apiError) {
	from, err := c.roomOf(c.str("from_chat_id"), reading)
	if err != nil {
		return nil, err
	}
	m := from.liveLocked(c.int("message_id", 0))
	if m == nil {
		return nil, badRequest("message to %s not found", strings.TrimSuffix(c.method, "message"))
	}
	return m, nil
}

func (c *call) passOn() (*message, *Chat, *apiError) {
	m, err := c.original()
	if err != nil {
		return nil, nil, err
	}
	o, err := c.outgoing()
	if err != nil {
		return nil, nil, err
	}
	o.content, o.media = rich{text: m.Text, entities: m.Entities}, m.Media
	return c.deliver(o), o.room, nil
}

func (c *call) forwardMessage() (any, *apiError) {
	m, ch, err := c.passOn()
	if err != nil {
		return nil, err
	}
	return ch.wireLocked(m, c.bot), nil
}

func (c *call) copyMessage() (any, *apiError) {
	m, _, err := c.passOn()
	if err != nil {
		return nil, err
	}
	return struct {
		ID int `json:"message_id"`
	}{m.ID}, nil
}

// A grant lets a bot download a file for an hour.
type grant struct {
	media *Media
	until time.Time
}

const (
	maxDownload = 20 << 20
	grantLife   = time.Hour
)

func (c *call) getFile() (any, *apiError) {
	id := c.str("file_id")
	if id == "" {
		return nil, badRequest("file_id not specified")
	}
	m := c.bot.fileByID(id)
	switch {
	case m == nil && !strings.HasPrefix(id, "BAAC"):
		return nil, badRequest("invalid file_id")
	case m == nil:
		return nil, badRequest("wrong file_id or the file is temporarily unavailable")
	case m.said() > maxDownload:
		return nil, badRequest("file is too big")
	}
	w := wireFile{FileID: id, FileUniqueID: m.unique, FileSize: m.said()}
	for path, g := range c.bot.granted {
		if g.media == m {
			w.FilePath = path
		}
	}
	if w.FilePath == "" {
		w.FilePath = m.filePath(len(c.bot.granted))
	}
	c.bot.granted[w.FilePath] = grant{m, time.Now().Add(grantLife)}
	return w, nil
}

func (c *call) download() (any, *apiError) {
	g, ok := c.bot.granted[c.path]
	if !ok || time.Now().After(g.until) {
		return nil, notFound()
	}
	return fileResult{g.media}, nil
}
