package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/media"
)

// attach takes a file that an answer attaches into the cache, from where it is
// sent: so it is there still when a platform takes it hours later. Only files of
// the workspace and of the cache can be attached; links do not lead out of them.
func (a *App) attach(path string) (chat.File, error) {
	for _, dir := range []string{a.prompts.workspace, a.cache.Dir()} {
		f, err := a.attachFrom(dir, path)
		if !errors.Is(err, errOutside) {
			return f, err
		}
	}
	return chat.File{}, i18n.Errorf("only files in %s can be sent", a.prompts.workspace)
}

var errOutside = errors.New("outside")

func (a *App) attachFrom(dir, path string) (chat.File, error) {
	at := path
	if filepath.IsAbs(path) {
		var err error
		if at, err = filepath.Rel(dir, filepath.Clean(path)); err != nil || !filepath.IsLocal(at) {
			return chat.File{}, errOutside
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return chat.File{}, errOutside
	}
	defer func() { _ = root.Close() }() // it was only read
	info, err := root.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return chat.File{}, i18n.Errorf("there is no such file")
	case err != nil: // a link that leads out, a path that is none
		return chat.File{}, errOutside
	case !info.Mode().IsRegular():
		return chat.File{}, i18n.Errorf("it is not a file")
	case info.Size() == 0:
		return chat.File{}, i18n.Errorf("it is empty")
	}
	file, err := root.Open(at)
	if err != nil {
		return chat.File{}, i18n.Errorf("it cannot be read")
	}
	defer func() { _ = file.Close() }() // it was only read
	kept, err := a.cache.Save(context.Background(), func(_ context.Context, w io.Writer) error {
		_, err := io.Copy(w, file)
		return err
	}, chat.File{Name: filepath.Base(at), Size: info.Size()}) // if that is too much, it is not copied
	if err != nil {
		return chat.File{}, media.ErrorText(err)
	}
	kept.Kind = presented(kept.MIME)
	return kept, nil
}

// presented says how platforms present a file of a type.
func presented(mime string) chat.FileKind {
	switch mime {
	case "image/jpeg", "image/png", "image/webp":
		return chat.Photo
	case "audio/ogg":
		return chat.Voice
	}
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "audio":
		return chat.Audio
	case "video":
		return chat.Video
	}
	return chat.Document
}
