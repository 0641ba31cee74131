// Package media stores the attachments of inbound messages in a size-limited directory,
// under names derived from their content. The sender decides neither where a file is
// stored nor how much disk space is used. The main type is Cache.
//
// A file is written under a temporary name in the same directory and renamed when it is
// complete, so a path returned by Save always names a complete file. When the cache
// exceeds its budget, the files that were saved least recently are deleted first. Files
// are not synced: after a power failure a file may be missing and can be fetched again
// by its Ref while the platform has it.
package media

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/safehttp"
)

// Config sets the size limits of a Cache.
type Config struct {
	MaxBytes   int64 `yaml:"max_bytes" default:"52428800" range:"1024..2147483648" doc:"Largest incoming file that is kept, in bytes; a platform's own limit may be lower."`
	CacheBytes int64 `yaml:"cache_bytes" default:"2147483648" range:"1048576..1099511627776" doc:"Size to which the cache of incoming files may grow, in bytes; then the oldest go."`
}

// Validate returns an error that names the invalid config key.
func (c Config) Validate() error {
	if c.MaxBytes <= 0 {
		return fmt.Errorf("max_bytes is %d: it must be more than 0", c.MaxBytes)
	}
	if c.CacheBytes < c.MaxBytes {
		return fmt.Errorf("cache_bytes (%d) is less than max_bytes (%d): one file would not fit", c.CacheBytes, c.MaxBytes)
	}
	return nil
}

const tempPrefix = ".part-" // name prefix of files that are being written

// A Cache stores files in one directory that nothing else may use. Its methods may be
// called from any goroutine.
type Cache struct {
	dir    string
	limits Config

	// mu guards the fields below and the names in dir: files are renamed and removed
	// only while it is held. It is not held while a file is fetched.
	mu    sync.Mutex
	files map[string]*list.Element // of *file, by name
	order *list.List               // oldest first
	total int64
}

type file struct {
	name string
	size int64
}

// Open returns the cache in dir, which is created if missing. Incomplete files left by
// a crash are removed.
func Open(dir string, limits Config) (*Cache, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	c := &Cache{dir: dir, limits: limits, files: map[string]*list.Element{}, order: list.New()}
	if err := c.scan(); err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.pruneLocked(0, "")
}

// scan adds the existing files, ordered by modification time.
func (c *Cache) scan() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var found []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case strings.HasPrefix(e.Name(), tempPrefix):
			if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		case info.Mode().IsRegular() && isCacheName(e.Name()):
			found = append(found, info)
		}
	}
	slices.SortStableFunc(found, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range found {
		c.addLocked(info.Name(), info.Size())
	}
	return nil
}

// isCacheName reports whether name is a file name assigned by Save.
func isCacheName(name string) bool {
	sum, _, _ := strings.Cut(name, ".")
	raw, err := hex.DecodeString(sum)
	return err == nil && len(raw) == sha256.Size
}

// Bytes returns the total size of the files.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Dir returns the directory that contains all files.
func (c *Cache) Dir() string { return c.dir }

// Save stores what fetch writes and returns f with its Path, actual Size and MIME type,
// and a Name that can be shown. Equal contents are stored as one file.
//
// On an error nothing is stored, and the returned file has a FetchError with a text for
// the user. A file above the limit is rejected before it is fetched if f.Size says so,
// else when the limit is reached; the error then wraps a *safehttp.TooLarge.
func (c *Cache) Save(ctx context.Context, fetch func(context.Context, io.Writer) error, f chat.File) (chat.File, error) {
	f.Name, f.Path, f.FetchError = Name(f.Name), "", ""
	saved, err := c.save(ctx, fetch, f)
	if err != nil {
		f.FetchError = ErrorText(err).Error()
		return f, fmt.Errorf("save incoming file: %w", err)
	}
	return saved, nil
}

// ErrorText returns an error that says for the user why Save has failed. The text of
// err itself is not used, because it may contain URLs with tokens.
func ErrorText(err error) error {
	large, ok := errors.AsType[*safehttp.TooLarge](err)
	switch {
	case ok && large.Size > 0:
		return i18n.Errorf("the file has %s and at most %s can be taken", safehttp.Size(large.Size), safehttp.Size(large.Limit))
	case ok:
		return i18n.Errorf("the file is larger than the %s that can be taken", safehttp.Size(large.Limit))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return i18n.Errorf("the file took too long to arrive")
	}
	return i18n.Errorf("the file could not be fetched")
}

func (c *Cache) save(ctx context.Context, fetch func(context.Context, io.Writer) error, f chat.File) (_ chat.File, err error) {
	if f.Size > c.limits.MaxBytes {
		return f, &safehttp.TooLarge{Limit: c.limits.MaxBytes, Size: f.Size}
	}
	tmp, err := os.CreateTemp(c.dir, tempPrefix+"*")
	if err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	w := &limitedWriter{ctx: ctx, to: tmp, hash: sha256.New(), limit: c.limits.MaxBytes}
	err = fetch(ctx, w)
	if w.err != nil { // even if fetch ignored it
		err = w.err
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return f, err
	}
	var extension string
	f.MIME, extension = detectType(w.head, f.MIME)
	f.Size = w.n
	name := hex.EncodeToString(w.hash.Sum(nil)) + extension
	f.Path = filepath.Join(c.dir, name)
	return f, c.adopt(tmp.Name(), name, w.n)
}

// adopt renames a complete file to name, after freeing space for it.
func (c *Cache) adopt(tmp, name string, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := filepath.Join(c.dir, name)
	if e, ok := c.files[name]; ok {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == size {
			c.order.MoveToBack(e)
			now := time.Now()
			return errors.Join(os.Chtimes(path, now, now), os.Remove(tmp))
		}
		c.forgetLocked(e) // the file was removed or changed by something else
	}
	if err := c.pruneLocked(size, name); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	c.addLocked(name, size)
	return nil
}

func (c *Cache) addLocked(name string, size int64) {
	c.files[name] = c.order.PushBack(&file{name: name, size: size})
	c.total += size
}

func (c *Cache) forgetLocked(e *list.Element) {
	f := c.order.Remove(e).(*file)
	delete(c.files, f.name)
	c.total -= f.size
}

// pruneLocked removes the oldest files, except keep, until more bytes fit into the
// budget.
func (c *Cache) pruneLocked(more int64, keep string) error {
	for e := c.order.Front(); e != nil && c.total+more > c.limits.CacheBytes; {
		next := e.Next()
		if name := e.Value.(*file).name; name != keep {
			if err := removeFile(filepath.Join(c.dir, name)); err != nil {
				return fmt.Errorf("remove old file: %w", err)
			}
			c.forgetLocked(e)
		}
		e = next
	}
	return nil
}

// Remove deletes a file returned by Save. It does nothing if path is not in the cache
// or does not exist any more.
func (c *Cache) Remove(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.files[filepath.Base(path)]
	if !ok || filepath.Dir(path) != c.dir {
		return nil
	}
	if err := removeFile(path); err != nil {
		return fmt.Errorf("remove media file: %w", err)
	}
	c.forgetLocked(e)
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// A limitedWriter passes on at most limit bytes, counts and hashes them.
type limitedWriter struct {
	ctx   context.Context // of the Save call that uses the writer
	to    io.Writer
	hash  hash.Hash
	limit int64
	n     int64
	head  []byte // first bytes, for sniffing
	err   error  // first error; later writes fail with it
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		w.err = context.Cause(w.ctx)
	}
	if w.err == nil && w.n+int64(len(p)) > w.limit {
		w.err = &safehttp.TooLarge{Limit: w.limit}
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	_, _ = w.hash.Write(p[:n]) // never fails
	w.head = append(w.head, p[:min(n, maxSniffed-len(w.head))]...)
	w.n += int64(n)
	w.err = err
	return n, err
}

// ErrNone is returned in place of a service for recordings or images that is not
// configured.
var ErrNone = errors.New("media: no service is configured")

// A Fetcher downloads attachments of inbound messages into a Cache.
type Fetcher struct {
	Cache *Cache // required
	// From returns the FileFetcher of an account, if its platform has files.
	From  func(chat.Account) (chat.FileFetcher, bool)
	Limit int64               // maximum bytes of one file
	Mask  func(string) string // masks secrets in error texts of a platform
	Log   *zap.Logger
}

// Fetch downloads f. If that fails the returned file has a FetchError in English, and
// the error, if not nil, is the same text for the user.
func (g Fetcher) Fetch(ctx context.Context, on chat.Account, f chat.File) (chat.File, error) {
	fetch, ok := g.From(on)
	if !ok {
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

const maxName = 240 // in runes

// Name converts a sender's file name to a form that can be shown: one line of valid
// UTF-8, at most 240 characters with the extension kept, without control characters,
// path separators, invisible characters and characters that change the writing
// direction. The result is not a path. An empty name stays empty.
func Name(s string) string {
	if s == "" {
		return ""
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == '\\':
			return '_'
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			return ' '
		case r == '\u200c' || r == '\u200d': // joiners, which scripts and emoji need
			return r
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Noncharacter_Code_Point):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if strings.Trim(s, ". \u200c\u200d") == "" {
		return "file"
	}
	if utf8.RuneCountInString(s) <= maxName {
		return s
	}
	const longestExtension = 16
	ext := path.Ext(s)
	if utf8.RuneCountInString(ext) > longestExtension {
		ext = ""
	}
	stem := []rune(strings.TrimSuffix(s, ext))
	return string(stem[:maxName-1-utf8.RuneCountInString(ext)]) + "…" + ext
}

const maxSniffed = 512 // number of leading bytes that are examined

// extensions maps content types to the extensions of files in the cache. Extensions
// depend on the content only; programs that get the path rely on them.
var extensions = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp", "image/heic": ".heic", "image/avif": ".avif",
	"audio/mpeg": ".mp3", "audio/wave": ".wav", "audio/ogg": ".ogg", "audio/mp4": ".m4a", "audio/flac": ".flac", "audio/aiff": ".aiff",
	"video/mp4": ".mp4", "video/webm": ".webm", "video/avi": ".avi", "video/ogg": ".ogg", "video/quicktime": ".mov",
	"application/pdf": ".pdf", "application/zip": ".zip", "application/x-gzip": ".gz", "application/x-rar-compressed": ".rar",
	"text/plain": ".txt", "text/html": ".html", "text/xml": ".xml",
}

// detectType returns the MIME type of a file that begins with head, and the extension
// for its path. The declared type is used only if the content is ambiguous and does not
// contradict it.
func detectType(head []byte, declared string) (mimeType, extension string) {
	content := sniff(head)
	extension = extensions[content]
	if extension == "" {
		extension = ".bin"
	}
	declared, _, err := mime.ParseMediaType(declared)
	if err != nil {
		return content, extension
	}
	class, _, _ := strings.Cut(declared, "/")
	fits := false
	switch content {
	case "text/plain", "text/xml":
		fits = class == "text" || class == "application" && declared != "application/octet-stream" || declared == "image/svg+xml"
	case "application/zip", "application/x-gzip":
		fits = class == "application" && declared != "application/octet-stream"
	case "audio/ogg":
		fits = declared == "video/ogg" || declared == "audio/opus" || declared == "application/ogg"
	case "application/octet-stream":
		// A type that sniffing can detect would have been detected.
		fits = class != "text" && extensions[declared] == ""
	}
	if fits {
		return declared, extension
	}
	return content, extension
}

func sniff(head []byte) string {
	if len(head) >= 12 && bytes.Equal(head[4:8], []byte("ftyp")) {
		switch brand := string(head[8:12]); {
		case strings.HasPrefix(brand, "M4A"), strings.HasPrefix(brand, "M4B"):
			return "audio/mp4"
		case brand == "heic" || brand == "heix" || brand == "mif1":
			return "image/heic"
		case brand == "avif":
			return "image/avif"
		case brand == "qt  ":
			return "video/quicktime"
		}
		return "video/mp4"
	}
	if bytes.HasPrefix(head, []byte("fLaC")) {
		return "audio/flac"
	}
	t, _, _ := strings.Cut(http.DetectContentType(head), ";")
	switch {
	case t == "application/ogg":
		return "audio/ogg"
	case t == "application/octet-stream" && len(head) > 1 && head[0] == 0xFF && head[1]&0xE6 == 0xE2: // MPEG audio without a tag
		return "audio/mpeg"
	}
	return t
}
