package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
	"hermesd/internal/shorten"
)

// Name is the model name that always means the agent.
const Name = "hermes"

// DefaultSession is the session of requests that name none.
const DefaultSession = "default"

// completions handles POST /v1/chat/completions.
func (a *Adapter) completions(w http.ResponseWriter, r *http.Request) {
	p, f := a.read(w, r)
	if f != nil {
		f.Write(w)
		return
	}
	e, f := a.join(p.exchange)
	if f != nil {
		f.Write(w)
		return
	}
	defer a.disconnect(e)
	h := w.Header()
	h.Set("X-Hermes-Session", e.session)
	h.Set("X-Hermes-Message", e.id)
	if len(p.ask.Ignored) > 0 {
		h.Set("X-Hermes-Ignored", strings.Join(p.ask.Ignored[:min(len(p.ask.Ignored), 40)], ", "))
	}
	out := &writer{w: w, rc: http.NewResponseController(w), e: e, model: p.ask.Model, usage: p.ask.Usage}
	if p.ask.Stream {
		a.stream(r, out)
		return
	}
	a.whole(r, out)
}

// A posted is a request that has been read and parsed.
type posted struct {
	ask      *openaiapi.Request
	exchange *exchange
}

// read reads and parses a request. It has no side effects.
func (a *Adapter) read(w http.ResponseWriter, r *http.Request) (*posted, *openaiapi.Failure) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // not supported by every connection; then there is no deadline
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.cfg.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &openaiapi.Failure{Status: http.StatusRequestEntityTooLarge, Kind: openaiapi.Invalid, Code: "request_too_large",
			Text: "The request is too large. The operator can raise platforms.http.max_body."}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &openaiapi.Failure{Status: http.StatusRequestTimeout, Kind: openaiapi.Invalid, Code: "request_timeout", Text: "The request's body did not come in time."}
	case err != nil:
		return nil, openaiapi.Refuse("", "unreadable_body", "The request's body cannot be read.")
	}
	_ = rc.SetReadDeadline(time.Time{}) // as above
	ask, f := openaiapi.Parse(body)
	if f != nil {
		return nil, f
	}
	if f := a.known(ask); f != nil {
		return nil, f
	}
	session, f := sessionOf(r.Header, ask.User)
	if f != nil {
		return nil, f
	}
	key, f := keyOf(r.Header)
	if f != nil {
		return nil, f
	}
	return &posted{ask, newExchange(ask, session, key)}, nil
}

// names returns the model names that clients may use.
func (a *Adapter) names() []string {
	names := []string{Name}
	for _, n := range append([]string{a.o.Model}, a.cfg.Models...) {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// known rejects unknown models. A request without a model gets the agent.
func (a *Adapter) known(r *openaiapi.Request) *openaiapi.Failure {
	r.Model = cmp.Or(r.Model, Name)
	if slices.Contains(a.names(), r.Model) {
		return nil
	}
	return noModel(r.Model)
}

func noModel(name string) *openaiapi.Failure {
	f := openaiapi.Refuse("model", "model_not_found", "There is no model %q here. Ask for %q; GET /v1/models lists the names.", shorten.To(name, 40), Name)
	f.Status = http.StatusNotFound
	return f
}

func sessionOf(h http.Header, user string) (string, *openaiapi.Failure) {
	if named, ok := h["X-Hermes-Session"]; ok {
		if len(named) != 1 || !word(named[0]) {
			return "", openaiapi.Refuse("X-Hermes-Session", "invalid_session", "X-Hermes-Session must be 1 to 64 of A-Z a-z 0-9 . _ -")
		}
		return named[0], nil
	}
	switch {
	case user == "":
		return DefaultSession, nil
	case word(user):
		return user, nil
	}
	sum := digest(user)
	return "user-" + hex.EncodeToString(sum[:12]), nil
}

// word reports whether s is valid in addresses and headers.
func word(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

// keyOf returns the client's idempotency key, "" if it sent none.
func keyOf(h http.Header) (string, *openaiapi.Failure) {
	keys, ok := h["Idempotency-Key"]
	if !ok {
		return "", nil
	}
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if len(keys) != 1 || keys[0] == "" || len(keys[0]) > 255 || strings.ContainsFunc(keys[0], odd) {
		return "", openaiapi.Refuse("Idempotency-Key", "invalid_idempotency_key", "Idempotency-Key must be 1 to 255 printable ASCII characters.")
	}
	return keys[0], nil
}

// whole writes one object, once there is an answer.
func (a *Adapter) whole(r *http.Request, out *writer) {
	for {
		s := a.look(out.e)
		if s.over == nil {
			select {
			case <-s.change:
				continue
			case <-r.Context().Done():
				return
			}
		}
		out.deadline()
		if s.over.err != nil {
			s.over.err.Write(out.w)
		} else {
			out.w.Header().Set("Content-Type", "application/json")
			_, _ = out.w.Write(openaiapi.Encode(out.object(s))) // Flush reports the error
		}
		if out.rc.Flush() == nil && r.Context().Err() == nil {
			a.wrote(out.e, s.over)
		}
		return
	}
}

// maxImages is the maximum number of images per request.
const maxImages = 20

// files stores the images of a request and returns them as files. A failure has
// a text for the client; then the request is not accepted.
func (a *Adapter) files(ctx context.Context, images []string) ([]chat.File, *openaiapi.Failure) {
	if len(images) > maxImages {
		return nil, openaiapi.Refuse("messages", "too_many_images", "There are %d images; at most %d are taken.", len(images), maxImages)
	}
	var files []chat.File
	for i, ref := range images {
		name := fmt.Sprintf("image %d", i+1)
		kind, content, err := a.image(ctx, ref)
		if err != nil {
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: %v.", name, err)
		}
		f, err := a.o.StoreFile(ctx, chat.File{Kind: chat.Photo, Name: name, MIME: kind, Size: int64(len(content))}, content)
		if err != nil {
			text := cmp.Or(f.FetchError, "it could not be stored")
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: %s.", name, text)
		}
		if !strings.HasPrefix(f.MIME, "image/") {
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: its content is no image but %s.", name, shorten.To(f.MIME, 40))
		}
		files = append(files, f)
	}
	return files, nil
}

func (a *Adapter) image(ctx context.Context, ref string) (kind string, content []byte, err error) {
	if strings.HasPrefix(strings.ToLower(ref), "data:") {
		return openaiapi.DataURL(ref)
	}
	u, err := url.Parse(ref)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("its url is neither a data: URL nor http(s)")
	}
	content, err = a.o.Fetch(ctx, ref, a.cfg.MaxBody)
	if err != nil {
		return "", nil, err
	}
	return http.DetectContentType(content), content, nil
}
