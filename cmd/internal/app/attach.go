package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/media"
	"hermesd/gateway/reply"
)

// attachments are the files that the daemon sends: those of the workspace, which it copies
// into the media cache, and those of the cache.
type attachments struct {
	workspace string
	cache     *media.Cache
}

// attach copies a file that an answer attaches into the media cache, from where it
// is sent, so that it still exists when a platform accepts it hours later. Only
// files of the workspace and of the cache can be attached, as far as scope allows;
// links must not lead out of them.
func (a attachments) attach(path string, scope reply.AttachScope) (chat.File, error) {
	at := path
	if !filepath.IsAbs(at) {
		at = filepath.Join(a.workspace, at)
	}
	if name, err := filepath.Rel(a.cache.Dir(), filepath.Clean(at)); err == nil && filepath.IsLocal(name) {
		if !slices.Contains(scope.Received, name) {
			return chat.File{}, i18n.Errorf("it was not received in this conversation")
		}
		return a.attachFrom(a.cache.Dir(), at)
	}
	if !scope.Workspace {
		return chat.File{}, i18n.Errorf("who asks may not read files of the workspace")
	}
	if f, err := a.attachFrom(a.workspace, path); !errors.Is(err, errOutside) {
		return f, err
	}
	return chat.File{}, i18n.Errorf("only files in %s can be sent", a.workspace)
}

// errOutside is returned by openRegular for a path that is not in its directory.
var errOutside = errors.New("outside")

// openRegular opens a file of dir that is regular and not empty. No path and no link leads
// out of dir. Opening a pipe would wait for its other end.
func openRegular(dir, path string) (f *os.File, size int64, err error) {
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(dir, filepath.Clean(path)); err != nil || !filepath.IsLocal(path) {
			return nil, 0, errOutside
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, errOutside
	}
	defer func() { _ = root.Close() }() // read only
	info, err := root.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, i18n.Errorf("there is no such file")
	case err != nil: // a link that leads out, an invalid path
		return nil, 0, errOutside
	case !info.Mode().IsRegular():
		return nil, 0, i18n.Errorf("it is not a file")
	case info.Size() == 0:
		return nil, 0, i18n.Errorf("it is empty")
	}
	if f, err = root.Open(path); err != nil {
		return nil, 0, i18n.Errorf("it cannot be read")
	}
	return f, info.Size(), nil
}

// store stores the content of f, which it reads from r, in the media cache.
func (a attachments) store(ctx context.Context, r io.Reader, f chat.File) (chat.File, error) {
	return a.cache.Save(ctx, func(_ context.Context, w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	}, f)
}

func (a attachments) attachFrom(dir, path string) (chat.File, error) {
	file, size, err := openRegular(dir, path)
	if err != nil {
		return chat.File{}, err
	}
	defer func() { _ = file.Close() }() // read only
	// A file over the limit is not copied.
	kept, err := a.store(context.Background(), file, chat.File{Name: filepath.Base(path), Size: size})
	if err != nil {
		return chat.File{}, media.ErrorText(err)
	}
	kept.Kind = fileKind(kept.MIME)
	return kept, nil
}

// fileKind returns the kind as which a file of a MIME type is sent.
func fileKind(mime string) chat.FileKind {
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
