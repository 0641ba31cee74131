package inbound

import (
	"cmp"
	"slices"
	"strings"

	"hermesd/adapters/slack/internal/mrkdwn"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// text returns the text of a message for the agent. A leading mention of the bot
// is removed; elsewhere it is part of the text.
func (c Converter) text(b Body) string {
	raw := b.Text
	for _, form := range []string{"<@" + c.Me.UserID + ">", "<@" + c.Me.UserID + "|"} {
		rest, ok := strings.CutPrefix(strings.TrimLeft(raw, " \n\t"), form)
		if !ok || c.Me.UserID == "" {
			continue
		}
		if strings.HasSuffix(form, "|") {
			_, rest, _ = strings.Cut(rest, ">")
		}
		if rest = strings.TrimLeft(rest, " \n\t,:;"); rest != "" || len(b.Files) > 0 {
			raw = rest
		}
		break
	}
	r := &blockReader{refer: c.refer}
	text := joinLines([]string{
		mrkdwn.Read(raw, c.refer),
		unsaid(mrkdwn.Read(b.Text, c.refer), r.pieces(b.Blocks), b.BotID != ""),
	})
	said := text
	for _, a := range b.Attachments {
		isPreview := a.FromURL != "" && !a.IsShare // of a link in the text
		if s := a.words(r); said == "" || !isPreview && (a.IsShare || !contains(said, s)) {
			text = joinLines([]string{text, s})
		}
	}
	return c.Rules.command(text)
}

// noPreview is what Slack writes in place of a text that an attachment lacks.
const noPreview = "[no preview available]"

func (a attachment) words(r *blockReader) string {
	parts := []string{a.Pretext, a.Title, a.Text}
	for _, f := range a.Fields {
		parts = append(parts, f.Title, f.Value)
	}
	plain := func(mrkdwn.Reference) string { return "" }
	s := mrkdwn.Read(joinLines(parts), plain)
	pieces := r.pieces(a.Blocks)
	for _, m := range a.MessageBlocks {
		pieces = append(pieces, r.pieces(m.Message.Blocks)...)
	}
	if s = joinLines([]string{s, unsaid(s, pieces, !a.IsShare)}); s == "" && a.Fallback != noPreview {
		s = mrkdwn.Read(a.Fallback, plain)
	}
	if a.IsShare && s != "" {
		if a.AuthorName != "" {
			return "[forwarded from " + a.AuthorName + "] " + s
		}
		return "[forwarded] " + s
	}
	return s
}

func (c Converter) refer(r mrkdwn.Reference) string {
	switch {
	case r.Mark == '@' && r.ID == c.Me.UserID && c.Me.Name != "":
		return "@" + c.Me.Name
	case r.Mark == '@':
		if name, handle := c.Name(r.ID); name != "" || handle != "" {
			if handle != "" {
				return "@" + handle
			}
			return "@" + name
		}
	case r.Mark == '#' && r.Label == "":
		if room := c.Room(r.ID); room.Name != "" {
			return "#" + room.Name
		}
	}
	return ""
}

// command turns !name into a command if name is one: Slack handles /name itself,
// and has no slash commands in threads.
func (r Rules) command(text string) string {
	rest, ok := strings.CutPrefix(text, "!")
	if !ok {
		return text
	}
	if name, _, _ := strings.Cut(strings.ReplaceAll(rest, "\n", " "), " "); slices.Contains(r.commands, strings.ToLower(name)) {
		return "/" + rest
	}
	return text
}

// files returns the attachments. A file that cannot be fetched has the reason.
func files(in []file) []chat.File {
	var out []chat.File
	for _, f := range in {
		g := chat.File{Kind: f.kind(), Name: f.Name, MIME: f.MIME, Size: f.Size}
		g.Name = cmp.Or(g.Name, f.Title)
		switch {
		case f.Mode == "tombstone":
			g.FetchError = i18n.N("the file was deleted from Slack")
		case f.Mode == "hidden_by_limit":
			g.FetchError = i18n.N("Slack hides this file because the workspace is over the limit of its plan")
		case f.External:
			g.FetchError = i18n.N("the file is not at Slack but at another service")
		case f.Download != "" || f.Private != "":
			g.Ref = f.Download
			g.Ref = cmp.Or(g.Ref, f.Private)
		case f.ID != "":
			g.Ref = FileID + f.ID // of another workspace: its address has to be looked up
		default:
			g.FetchError = i18n.N("Slack does not say where the file is")
		}
		out = append(out, g)
	}
	return out
}

// FileID is the prefix of the Ref of a file of which only the ID is known.
const FileID = "id:"

func (f file) kind() chat.FileKind {
	major, _, _ := strings.Cut(f.MIME, "/")
	switch {
	case f.Subtype == "slack_audio":
		return chat.Voice
	case major == "image":
		return chat.Photo
	case major == "audio":
		return chat.Audio
	case major == "video", f.Subtype == "slack_video":
		return chat.Video
	}
	return chat.Document
}
