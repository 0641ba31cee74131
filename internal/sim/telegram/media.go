package telegram

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A MediaKind is the kind of an attachment; its value is the name of the
// message field that contains it.
type MediaKind string

// Kinds of attachments.
const (
	Photo     MediaKind = "photo"
	Document  MediaKind = "document"
	Voice     MediaKind = "voice"
	Audio     MediaKind = "audio"
	Video     MediaKind = "video"
	VideoNote MediaKind = "video_note"
	Animation MediaKind = "animation"
	Sticker   MediaKind = "sticker"
	Location  MediaKind = "location"
)

// Media is an attachment.
type Media struct {
	Kind     MediaKind
	Name     string
	MIME     string
	Data     []byte
	Size     int64 // claimed size; 0: the length of Data
	Unsaid   bool  // the API omits the size, which it may do
	Width    int
	Height   int
	Seconds  int
	Emoji    string // of a sticker
	Lat, Lon float64

	unique string
}

// size returns the size of the file on the server.
func (m *Media) size() int64 {
	if m.Size > 0 {
		return m.Size
	}
	return int64(len(m.Data))
}

// said returns the size that the API reports; 0: none.
func (m *Media) said() int64 {
	if m.Unsaid {
		return 0
	}
	return m.size()
}

// store assigns a file path to the media. The caller must hold s.mu.
func (m *Media) store(s *Server) {
	if m.Kind == Location || m.unique != "" {
		return
	}
	s.nextFile++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", m.Name, s.nextFile))
	m.unique = base64.RawURLEncoding.EncodeToString(sum[:12])
	s.files[m.unique] = m
}

// fileID returns the file_id of the media for one bot; other bots cannot use
// it.
func (m *Media) fileID(b *Bot) string {
	return "BAAC" + m.unique + "_" + strconv.FormatInt(b.ID(), 36)
}

// fileByID returns the media with a file_id, or nil if it is unknown or belongs
// to another bot. The caller must hold s.mu.
func (b *Bot) fileByID(id string) *Media {
	unique, owner, ok := cutLast(strings.TrimPrefix(id, "BAAC"), "_")
	if !ok || !strings.HasPrefix(id, "BAAC") || owner != strconv.FormatInt(b.ID(), 36) {
		return nil
	}
	return b.s.files[unique]
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// attach adds the media to a message for a bot.
func (m *Media) attach(w *wireMessage, b *Bot) {
	if m.Kind == Location {
		w.Location = &wireLocation{Latitude: m.Lat, Longitude: m.Lon}
		return
	}
	x := wireMedia{
		FileID: m.fileID(b), FileUniqueID: m.unique, FileSize: m.said(), FileName: m.Name, MIMEType: m.MIME,
		Width: m.Width, Height: m.Height, Emoji: m.Emoji,
	}
	switch m.Kind {
	case Photo:
		x.FileName, x.MIMEType = "", ""
		x.Width, x.Height = max(x.Width, 1280), max(x.Height, 960)
		small := x
		small.FileUniqueID, small.FileSize = x.FileUniqueID+"s", max(1, x.FileSize/20)
		small.Width, small.Height = 90, 67
		w.Photo = []wireMedia{small, x}
	case Document:
		w.Document = &x
	case Voice:
		x.Duration, x.FileName = &m.Seconds, ""
		w.Voice = &x
	case Audio:
		x.Duration = &m.Seconds
		w.Audio = &x
	case Video:
		x.Duration = &m.Seconds
		w.Video = &x
	case VideoNote:
		x.Duration = &m.Seconds
		w.VideoNote = &x
	case Animation:
		x.Duration = &m.Seconds
		w.Animation, w.Document = &x, &x
	case Sticker:
		no := false
		x.Type, x.IsAnimated, x.IsVideo = "regular", &no, &no
		x.Width, x.Height = max(x.Width, 512), max(x.Height, 512)
		w.Sticker = &x
	}
}

// filePath returns the path from which the media can be downloaded.
func (m *Media) filePath(n int) string {
	ext := path.Ext(m.Name)
	if ext == "" {
		ext = map[MediaKind]string{Photo: ".jpg", Voice: ".oga", Audio: ".mp3", Video: ".mp4", VideoNote: ".mp4",
			Animation: ".mp4", Sticker: ".webp"}[m.Kind]
	}
	folder := map[MediaKind]string{Photo: "photos", Voice: "voice", Audio: "music", Video: "videos",
		VideoNote: "video_notes", Animation: "animations", Sticker: "stickers"}[m.Kind]
	if folder == "" {
		folder = "documents"
	}
	return fmt.Sprintf("%s/file_%d%s", folder, n, ext)
}
