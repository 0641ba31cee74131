package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"hermesd/adapters/internal/attachment"
	"hermesd/adapters/telegram/internal/apiclient"
	"hermesd/adapters/telegram/internal/entity"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

func (a *Adapter) postFile(ctx context.Context, l *outgoing) (int, error) {
	name := fileName(*l.m.File)
	f, size, err := attachment.Limit{Platform: "Telegram", MaxBytes: upLimit, TooBig: tooBigUp}.Open(*l.m.File, name)
	if err != nil {
		return 0, err //nolint:wrapcheck // it is a SendError
	}
	defer f.Close()
	ctx, content := apiclient.WithUpload(ctx, f, size)
	up := &models.InputFileUpload{Filename: name, Data: content.Reader()}
	kind := l.m.File.Kind
	if l.document || kind == chat.Photo && size > photoLimit {
		kind = chat.Document
	}
	return a.upload(ctx, l, kind, up)
}

func (a *Adapter) upload(ctx context.Context, l *outgoing, kind chat.FileKind, up *models.InputFileUpload) (int, error) {
	t, quiet := l.target, l.m.Quiet
	switch kind {
	case chat.Photo:
		return messageID(a.api.SendPhoto(ctx, &bot.SendPhotoParams{
			ChatID: t.chat, MessageThreadID: t.topic, DirectMessagesTopicID: t.direct, Photo: up,
			Caption: l.text, CaptionEntities: l.entities, DisableNotification: quiet, ReplyParameters: l.reply, ReplyMarkup: l.markup,
		}))
	case chat.Voice:
		return messageID(a.api.SendVoice(ctx, &bot.SendVoiceParams{
			ChatID: t.chat, MessageThreadID: t.topic, DirectMessagesTopicID: t.direct, Voice: up,
			Caption: l.text, CaptionEntities: l.entities, DisableNotification: quiet, ReplyParameters: l.reply, ReplyMarkup: l.markup,
		}))
	case chat.Audio:
		return messageID(a.api.SendAudio(ctx, &bot.SendAudioParams{
			ChatID: t.chat, MessageThreadID: t.topic, DirectMessagesTopicID: t.direct, Audio: up,
			Caption: l.text, CaptionEntities: l.entities, DisableNotification: quiet, ReplyParameters: l.reply, ReplyMarkup: l.markup,
		}))
	case chat.Video:
		return messageID(a.api.SendVideo(ctx, &bot.SendVideoParams{
			ChatID: t.chat, MessageThreadID: t.topic, DirectMessagesTopicID: t.direct, Video: up,
			Caption: l.text, CaptionEntities: l.entities, DisableNotification: quiet, ReplyParameters: l.reply, ReplyMarkup: l.markup,
		}))
	}
	return messageID(a.api.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: t.chat, MessageThreadID: t.topic, DirectMessagesTopicID: t.direct, Document: up,
		Caption: l.text, CaptionEntities: l.entities, DisableNotification: quiet, ReplyParameters: l.reply, ReplyMarkup: l.markup,
	}))
}

func fileName(f chat.File) string { return entity.Cut(attachment.Name(f), 128) }

func (a *Adapter) Fetch(ctx context.Context, f chat.File, w io.Writer, limit int64) error {
	d := attachment.Download{Limit: limit, TooBig: attachment.TooLarge(limit), Mask: a.wire.Mask}
	if limit > downLimit || limit <= 0 {
		d.Limit, d.TooBig = downLimit, i18n.Errorf(tooBigDown)
	}
	if f.Size > d.Limit {
		return d.TooBig
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	info, err := a.api.GetFile(ctx, &bot.GetFileParams{FileID: f.Ref})
	switch text := refusal(err); {
	case strings.Contains(text, "too big"):
		return i18n.Errorf(tooBigDown)
	case text != "":
		return i18n.Errorf("the file is no longer at Telegram")
	case err != nil:
		return fmt.Errorf("ask Telegram for the file: %s", sendError(err, chat.Address{}).Reason)
	}
	if int64(info.FileSize) > d.Limit {
		return d.TooBig
	}
	return a.download(ctx, info.FilePath, d, w)
}

// download copies a file of the Bot API server to w. Its errors never contain
// the address, which includes the token.
func (a *Adapter) download(ctx context.Context, filePath string, d attachment.Download, w io.Writer) error {
	address, err := a.fileURL(filePath)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the server names a file that cannot be asked for")
	}
	resp, err := a.files.Do(req)
	if err != nil {
		return d.Failure(ctx, err)
	}
	defer resp.Body.Close()
	return d.Save(ctx, resp, w)
}

// fileURL returns the address of a file on the server. The path comes from the
// answer to getFile and must stay below the bot's own directory.
func (a *Adapter) fileURL(filePath string) (string, error) {
	bad := errors.New("the server names a file at a place that is not its own")
	if filePath == "" || len(filePath) > 1024 || strings.ContainsAny(filePath, "\\?#%") ||
		strings.Contains(filePath, "://") || path.IsAbs(filePath) || path.Clean(filePath) != filePath ||
		filePath == ".." || strings.HasPrefix(filePath, "../") {
		return "", bad
	}
	parts := strings.Split(filePath, "/")
	for i, p := range parts {
		if strings.ContainsFunc(p, unicode.IsControl) {
			return "", bad
		}
		parts[i] = url.PathEscape(p)
	}
	return a.cfg.BaseURL + "/file/bot" + a.cfg.Token.Reveal() + "/" + strings.Join(parts, "/"), nil
}
