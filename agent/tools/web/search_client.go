package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermesd/internal/backoff"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
)

// The search services.
const (
	SearXNG = "searxng" // self-hosted instance at BaseURL
	Brave   = "brave"   // Brave Search API
	Tavily  = "tavily"
)

// Search configures the search service.
type Search struct {
	Provider string // SearXNG, Brave or Tavily; "": none
	// BaseURL is the address of the service: required for SearXNG, which may be in a
	// private network; "": the provider's own. It is reached directly, not through a proxy.
	BaseURL string
	Key     secret.Value // required for Brave and Tavily; sent to SearXNG as a bearer token, if set
}

// Validate returns what is wrong, as a text for the operator. The zero Search is valid.
func (s Search) Validate() error {
	k, ok := services()[s.Provider]
	switch {
	case s == Search{}:
		return nil
	case !ok:
		return fmt.Errorf("search provider %q: it is none of searxng, brave, tavily", s.Provider)
	case s.BaseURL == "" && k.base == "":
		return errors.New("search provider searxng: say where the instance is, such as http://127.0.0.1:8888")
	case s.Key == "" && k.needsKey:
		return fmt.Errorf("search provider %s: it needs a key", s.Provider)
	case s.BaseURL == "":
		return nil
	}
	u, err := url.Parse(s.BaseURL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return errors.New("search base URL: write it as http://host:port or https://host/path, without a name, password or query")
	}
	return nil
}

// A searchService is the protocol of one search service.
type searchService struct {
	name     string
	base     string // default base URL; "" for none
	needsKey bool   // a key is required
	request  func(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error)
	// parse decodes a response. note says what the service could not do.
	parse func(body []byte) (found []result, note string, err error)
	// statusText describes a status with a meaning specific to the service; "": none.
	statusText func(status int) string
}

// A searchClient queries one service. After a response with "too many requests" it sends nothing
// for as long as the service demands.
type searchClient struct {
	kind      searchService
	base      string
	key       secret.Value
	client    *http.Client
	timeout   time.Duration
	maxBytes  int64
	userAgent string

	mu    sync.Mutex // guards what follows
	until time.Time  // no request before this time
}

func newSearchClient(o Options, c *http.Client) *searchClient {
	k := services()[o.Search.Provider]
	base := strings.TrimRight(o.Search.BaseURL, "/")
	if base == "" {
		base = k.base
	}
	return &searchClient{kind: k, base: base, key: o.Search.Key, client: c, timeout: o.Timeout, maxBytes: o.MaxBytes, userAgent: o.UserAgent}
}

const (
	waitTimeout  = 5 * time.Second // longest wait within a call
	defaultPause = 30 * time.Second
	maxPause     = time.Hour
	maxTries     = 3
)

// ask returns the results of the service. Its error is a text for the model.
func (e *searchClient) ask(ctx context.Context, query string, limit int) ([]result, string, error) {
	slow := fmt.Errorf("%s did not answer within %s; try again later", e.kind.name, e.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, slow)
	defer cancel()
	for try := 1; ; try++ {
		if left := e.pauseLeft(); left > 0 {
			return nil, "", e.busyError(left)
		}
		found, note, wait, err := e.tryOnce(ctx, query, limit)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, "", context.Cause(ctx)
		case err == nil, wait < 0:
			return found, note, err
		case wait > waitTimeout || try == maxTries:
			e.pauseFor(wait)
			return nil, "", e.busyError(wait)
		}
		if backoff.Sleep(ctx, wait) != nil {
			return nil, "", context.Cause(ctx)
		}
	}
}

func (e *searchClient) busyError(left time.Duration) error {
	return fmt.Errorf("%s was asked too often and wants to be left alone for %s; read pages you know with web_extract, or search later", e.kind.name, max(left, time.Second).Round(time.Second))
}

func (e *searchClient) pauseLeft() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Until(e.until)
}

func (e *searchClient) pauseFor(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Now().Add(min(max(d, time.Second), maxPause))
}

// tryOnce sends one request. wait is the delay before the next attempt; negative: no further
// attempt.
func (e *searchClient) tryOnce(ctx context.Context, query string, limit int) (found []result, note string, wait time.Duration, err error) {
	req, err := e.kind.request(ctx, e, query, limit)
	if err != nil {
		return nil, "", -1, err
	}
	req.Header.Set("User-Agent", e.userAgent)
	req.Header.Set("Accept", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the rest contains the query
		}
		return nil, "", -1, fmt.Errorf("%s cannot be reached: %w; the operator can check the address of the search service", e.kind.name, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only, nothing can be lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, e.maxBytes+1))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		hint, ok := retryDelay(resp.Header, time.Now())
		if !ok {
			hint = defaultPause
		}
		return nil, "", hint, errors.New("too many requests")
	case resp.StatusCode != http.StatusOK:
		return nil, "", -1, e.statusError(resp.StatusCode)
	case err != nil:
		return nil, "", -1, fmt.Errorf("%s broke off in its answer: %w; try again", e.kind.name, err)
	case int64(len(body)) > e.maxBytes:
		return nil, "", -1, fmt.Errorf("%s answered with more than %s; ask for fewer results", e.kind.name, safehttp.Size(e.maxBytes))
	}
	found, note, err = e.kind.parse(body)
	if err != nil {
		return nil, "", -1, fmt.Errorf("%s gave an answer that is no list of results; the operator can check the address of the search service", e.kind.name)
	}
	return found, note, -1, nil
}

func (e *searchClient) statusError(status int) error {
	if own := e.kind.statusText(status); own != "" {
		return fmt.Errorf("%s answered %d: %s", e.kind.name, status, own)
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%s refuses the key (%d); the operator must set another one", e.kind.name, status)
	case status >= 500:
		return fmt.Errorf("%s has a fault (%d); try again later", e.kind.name, status)
	}
	return fmt.Errorf("%s refuses the request (%d %s); try other words", e.kind.name, status, http.StatusText(status))
}

// retryDelay returns how long a service asks not to be called. Brave uses a header of its own:
// the seconds until each of its rate-limit windows ends, the shortest first.
func retryDelay(h http.Header, now time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if value == "" {
		value, _, _ = strings.Cut(h.Get("X-RateLimit-Reset"), ",")
	}
	value = strings.TrimSpace(value)
	if s, err := strconv.ParseFloat(value, 64); err == nil && s >= 0 {
		return time.Duration(min(s, maxPause.Seconds()) * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxPause), true
	}
	return 0, false
}

// retryAdvice returns a text about when to try again.
func retryAdvice(h http.Header, now time.Time) string {
	if d, ok := retryDelay(h, now); ok && d > 0 {
		return "it may be read again in " + max(d, time.Second).Round(time.Second).String()
	}
	return "try again later"
}
