package media

import (
	"context"
	"errors"
	"io"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/safehttp"
)

// A Fetcher downloads what people send into a cache.
type Fetcher struct {
	Cache *Cache
	// From returns what downloads the files of an account; nil: its platform gives
	// none.
	From  func(chat.Account) chat.FileFetcher
	Limit int64               // bytes of one file
	Mask  func(string) string // takes secrets out of what a platform's error says
	Log   *zap.Logger
}

// Fetch downloads f. What went wrong stands in its Problem, and the error, if any,
// says it to the person.
func (g Fetcher) Fetch(ctx context.Context, on chat.Account, f chat.File) (chat.File, error) {
	fetch := g.From(on)
	if fetch == nil {
		f.FetchError = i18n.N("this platform gives no files")
		return f, nil
	}
	var said error // by the adapter: it knows the platform's own limits
	kept, err := g.Cache.Save(ctx, func(ctx context.Context, w io.Writer) error {
		said = fetch.Fetch(ctx, f, w, g.Limit)
		return said
	}, f)
	if err == nil {
		return kept, nil
	}
	g.Log.Warn("file", zap.String("platform", string(on.Platform)), zap.String("err", g.Mask(err.Error())))
	if _, large := errors.AsType[*safehttp.TooLarge](err); said == nil || large { // our own limit
		said = ErrorText(err)
	}
	if plain := strings.TrimSuffix(g.Mask(said.Error()), "."); plain != said.Error() {
		said = errors.New(plain)
	}
	wrong := i18n.Errorf("I could not get the file %s: %v.", Name(f.Name), said)
	kept.FetchError = wrong.Error()
	return kept, wrong
}
