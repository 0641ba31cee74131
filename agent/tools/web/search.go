package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermesd/agent/tool"
	"hermesd/internal/backoff"
	"hermesd/internal/safehttp"
	"hermesd/internal/secret"
)

// Limits of a search.
const (
	defaultResults = 5
	maxResults     = 20
	maxQuery       = 400 // characters, as the services take them
	maxExcerpt     = 500 // characters
)

type searchInput struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

// A result is one page that was found. Its texts are untrusted.
type result struct {
	title, url, text, date string
}

func (w *Web) search(ctx context.Context, _ tool.Call, in searchInput) (string, error) {
	query := strings.TrimSpace(clean(in.Query))
	switch {
	case query == "":
		return "", errors.New("the query is empty; say in a few words what to look for")
	case len([]rune(query)) > maxQuery:
		return "", fmt.Errorf("the query has more than %d characters; a few words find more", maxQuery)
	case w.secretIn(query):
		return "", errors.New("the query holds a secret of this machine; it was not sent")
	}
	limit := min(cmp.Or(max(in.Limit, 0), defaultResults), maxResults)
	found, note, err := w.engine.ask(ctx, query, limit)
	if err != nil {
		return "", err
	}
	found = validResults(found)
	if note != "" {
		note = " (" + note + ")"
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s found nothing for %q%s. Try fewer or other words.", w.engine.kind.name, query, note), nil
	}
	found = found[:min(limit, len(found))]
	var b strings.Builder
	for i, r := range found {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, r.title, r.url)
		if r.date != "" {
			fmt.Fprintf(&b, "   Date: %s\n", r.date)
		}
		if r.text != "" {
			fmt.Fprintf(&b, "   %s\n", r.text)
		}
	}
	return fmt.Sprintf("%s found for %q%s:\n", w.engine.kind.name, query, note) + w.wrapUntrusted("web-results", strings.TrimRight(b.String(), "\n")), nil
}

// validResults returns the results with a valid web URL, without duplicates and with each field on
// one line.
func validResults(list []result) []result {
	var out []result
	seen := map[string]bool{}
	for _, r := range list {
		r.url = strings.TrimSpace(r.url)
		scheme, _, _ := strings.Cut(r.url, "://")
		if scheme != "http" && scheme != "https" || len(r.url) > maxURL || strings.ContainsAny(r.url, " \n\t") || seen[r.url] {
			continue
		}
		seen[r.url] = true
		r.title, r.text, r.date = oneLine(r.title, maxTitle), oneLine(r.text, maxExcerpt), oneLine(r.date, 40)
		r.title = cmp.Or(r.title, "(without a title)")
		out = append(out, r)
	}
	return out
}

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

type searchService struct {
	name     string
	base     string // default base URL; "" for none
	needsKey bool   // a key is required
	request  func(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error)
	// parse decodes a response. note says what the service could not do.
	parse       func(body []byte) (found []result, note string, err error)
	statusTexts map[int]string // of the statuses with a meaning specific to the service
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
	base := cmp.Or(strings.TrimRight(o.Search.BaseURL, "/"), k.base)
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
	if own := e.kind.statusTexts[status]; own != "" {
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

func services() map[string]searchService {
	const usedUp = "the searches that are paid for are used up; the operator must raise the limit of the plan"
	return map[string]searchService{
		SearXNG: {name: "SearXNG", request: askSearXNG, parse: parseList, statusTexts: map[int]string{
			http.StatusForbidden: "the instance does not give results as JSON; the operator must add json to search.formats in its settings.yml, or let this host past its limiter",
		}},
		Brave: {name: "Brave Search", base: "https://api.search.brave.com/res/v1", needsKey: true, request: askBrave, parse: parseBrave, statusTexts: map[int]string{
			http.StatusUnprocessableEntity: "the key or the query is not valid; the operator can check the key",
		}},
		Tavily: {name: "Tavily", base: "https://api.tavily.com", needsKey: true, request: askTavily, parse: parseList, statusTexts: map[int]string{432: usedUp, 433: usedUp}},
	}
}

func askSearXNG(ctx context.Context, e *searchClient, query string, _ int) (*http.Request, error) {
	v := url.Values{"q": {query}, "format": {"json"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/search?"+v.Encode(), nil)
	if err == nil && e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	return req, err
}

// parseList decodes the results of SearXNG and of Tavily.
func parseList(body []byte) ([]result, string, error) {
	var a struct {
		Results *[]struct {
			URL, Title, Content string
			Date                string `json:"publishedDate"`
			TavilyDate          string `json:"published_date"`
		}
		Silent [][]any `json:"unresponsive_engines"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, "", err
	}
	if a.Results == nil {
		return nil, "", errors.New("there are no results in it")
	}
	var out []result
	for _, r := range *a.Results {
		out = append(out, result{title: r.Title, url: r.URL, text: r.Content, date: cmp.Or(r.Date, r.TavilyDate)})
	}
	var silent []string
	for _, s := range a.Silent {
		silent = append(silent, strings.Trim(fmt.Sprint(s), "[]"))
	}
	if len(silent) == 0 {
		return out, "", nil
	}
	return out, oneLine("engines that did not answer: "+strings.Join(silent, ", "), maxTitle), nil
}

func askBrave(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error) {
	v := url.Values{"q": {query}, "count": {strconv.Itoa(limit)}, "text_decorations": {"false"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/web/search?"+v.Encode(), nil)
	if err == nil {
		req.Header.Set("X-Subscription-Token", e.key.Reveal())
	}
	return req, err
}

func parseBrave(body []byte) ([]result, string, error) {
	var a struct {
		Type string
		Web  struct {
			Results []struct {
				Title, URL, Description, Age string
			}
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, "", err
	}
	if a.Type != "search" {
		return nil, "", errors.New("it is not a search")
	}
	var out []result
	for _, r := range a.Web.Results {
		out = append(out, result{title: html.UnescapeString(r.Title), url: r.URL, text: html.UnescapeString(r.Description), date: r.Age})
	}
	return out, "", nil
}

func askTavily(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error) {
	body, err := json.Marshal(map[string]any{"query": query, "max_results": limit})
	if err != nil {
		return nil, fmt.Errorf("write the query: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/search", bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	return req, err
}
