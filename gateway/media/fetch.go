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

// A Fetcher downloads attachments of inbound messages into a Cache.
type Fetcher struct {
	Cache *Cache // required
	// From returns the FileFetcher of an account; nil: its platform has no files.
	From  func(chat.Account) chat.FileFetcher
	Limit int64               // maximum bytes of one file
	Mask  func(string) string // masks secrets in error texts of a platform
	Log   *zap.Logger
}

// Fetch downloads f. If that fails the returned file has a FetchError in English, and
// the error, if not nil, is the same text for the user.
func (g Fetcher) Fetch(ctx context.Context, on chat.Account, f chat.File) (chat.File, error) {
	fetch := g.From(on)
	if fetch == nil {
		f.FetchError = i18n.N("this platform gives no files")
		return f, nil
	}
	var fetchErr error // of the adapter, which knows the platform's limits
	saved, err := g.Cache.Save(ctx, func(ctx context.Context, w io.Writer) error {
		fetchErr = fetch.Fetch(ctx, f, w, g.Limit)
		return fetchErr
	}, f)
	if err == nil {
		return saved, nil
	}
	g.Log.Warn("cannot fetch file", zap.String("platform", string(on.Platform)), zap.String("err", g.Mask(err.Error())))
	if _, large := errors.AsType[*safehttp.TooLarge](err); fetchErr == nil || large { // the limit of the cache
		fetchErr = ErrorText(err)
	}
	if plain := strings.TrimSuffix(g.Mask(fetchErr.Error()), "."); plain != fetchErr.Error() {
		fetchErr = errors.New(plain)
	}
	userErr := i18n.Errorf("I could not get the file %s: %v.", Name(f.Name), fetchErr)
	saved.FetchError = userErr.Error()
	return saved, userErr
}
