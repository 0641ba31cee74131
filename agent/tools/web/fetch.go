package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/net/html/charset"

	"hermesd/internal/safehttp"
)

type page struct {
	address  string // requested URL
	finalURL string // final URL, after redirects
	read     reading
	notes    []string // remarks for the model
	err      error    // why there is no page, as a text for the model
}

var errEmpty = errors.New("there is no text on this page; it may be built by scripts, which are not run here, or ask for a login: look for another source")

// fetch fetches one page. It does not panic for any page.
func (w *Web) fetch(ctx context.Context, address string) page {
	p := page{address: address}
	u, err := w.parse(address)
	if err != nil {
		return page{address: address, err: err}
	}
	slow := fmt.Errorf("the page did not come within %s; try again later, or another source", w.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, w.o.Timeout, slow)
	defer cancel()
	resp, err := w.get(ctx, u)
	if err != nil {
		p.err = fetchError(ctx, err)
		return p
	}
	defer func() { _ = resp.Body.Close() }() // read only, nothing can be lost
	p.finalURL = resp.Request.URL.Redacted()
	if p.err = statusError(resp); p.err != nil {
		return p
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, w.o.MaxBytes+1))
	switch {
	case err != nil && (ctx.Err() != nil || len(raw) == 0):
		p.err = fetchError(ctx, err)
		return p
	case err != nil:
		p.notes = append(p.notes, "the connection broke off, only the beginning came")
	case int64(len(raw)) > w.o.MaxBytes:
		raw = raw[:w.o.MaxBytes]
		p.notes = append(p.notes, "the page is very large, only its first "+safehttp.Size(w.o.MaxBytes)+" were read")
	}
	w.convert(ctx, &p, raw, resp)
	return p
}

// parse returns the URL of an address that may be fetched.
func (w *Web) parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("this is not an address of the web; write it in full, such as https://example.com/page")
	case len(address) > maxURL:
		return nil, fmt.Errorf("the address has more than %d bytes", maxURL)
	case u.User != nil:
		return nil, errors.New("the address holds a name or a password; write it without")
	case w.secretIn(address):
		return nil, errors.New("the address holds a secret of this machine; it was not fetched")
	}
	u.Fragment = ""
	return u, nil
}

func (w *Web) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", w.o.UserAgent)
	req.Header.Set("Accept", "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1")
	return w.pages.Do(req)
}

// fetchError describes for the model why an address could not be fetched.
func fetchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.Is(err, safehttp.ErrRefused):
		return fmt.Errorf("%w; look for another source", err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %q; check the address, or search for the page", dns.Name)
	case errors.As(err, &certificate):
		return errors.New("the certificate of this site is not valid, so it was not read; look for another source")
	}
	return fmt.Errorf("the site cannot be reached: %w", err)
}

// statusError returns the error for a response that is not a page, nil for a page.
func statusError(resp *http.Response) error {
	code := resp.StatusCode
	switch {
	case code == http.StatusNoContent, code >= 300 && code < 400:
		return fmt.Errorf("the site answered %d, without a page", code)
	case code < 300:
		if e := resp.Header.Get("Content-Encoding"); e != "" {
			return fmt.Errorf("the site sent the page compressed with %.40q, which was not asked for and cannot be read", e)
		}
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return fmt.Errorf("there is no such page (%d); check the address, or search for it", code)
	case code == http.StatusUnauthorized || code == http.StatusPaymentRequired:
		return fmt.Errorf("the page is only for people who have logged in (%d); look for another source", code)
	case code == http.StatusForbidden || code == http.StatusUnavailableForLegalReasons:
		return fmt.Errorf("the site does not show this page to programs (%d); look for another source", code)
	case code == http.StatusTooManyRequests:
		return fmt.Errorf("the site was asked too often (429); %s", retryAdvice(resp.Header, time.Now()))
	case code >= 500:
		return fmt.Errorf("the site has a fault (%d); try again later, or another source", code)
	}
	return fmt.Errorf("the site refuses the request (%d %s)", code, http.StatusText(code))
}

func (w *Web) convert(ctx context.Context, p *page, raw []byte, resp *http.Response) {
	kind, sort := kindOf(resp.Header.Get("Content-Type"), raw)
	switch sort {
	case other:
		p.err = fmt.Errorf("this is a file of type %.80s; only web pages and text can be read", kind)
	case plain:
		p.read.text = strings.Trim(clean(decode(raw, resp.Header.Get("Content-Type"))), "\n")
	case markup:
		select {
		case w.convertSlot <- struct{}{}: // one at a time: the tree of a page is many times larger than the page
		case <-ctx.Done():
			p.err = context.Cause(ctx)
			return
		}
		defer func() {
			<-w.convertSlot
			if v := recover(); v != nil { // panic in a parser library
				w.o.Log.Error("cannot convert page", zap.String("host", resp.Request.URL.Host), zap.Any("panic", v))
				p.err = errors.New("the page could not be converted; look for another source")
			}
		}()
		p.read = read([]byte(decode(raw, resp.Header.Get("Content-Type"))), resp.Request.URL)
		if p.read.cut {
			p.notes = append(p.notes, "the page has more parts than can be read, the last ones were left out")
		}
	}
	if p.err == nil && strings.TrimSpace(p.read.text) == "" {
		p.err = errEmpty
	}
}

// A contentSort is a class of content that is handled alike.
type contentSort int

const (
	other contentSort = iota
	plain
	markup
)

// kindOf returns the type and sort of a body. The declared type applies, unless it is
// missing or the body contains bytes that text does not contain.
func kindOf(declared string, raw []byte) (string, contentSort) {
	kind, _, err := mime.ParseMediaType(declared)
	content, _, _ := strings.Cut(http.DetectContentType(raw), ";")
	if err != nil || kind == "application/octet-stream" || kind == "" {
		kind = content
	}
	class, name, _ := strings.Cut(kind, "/")
	switch {
	case class != "text" && !isTextual(name):
		return kind, other
	case !strings.HasPrefix(content, "text/"):
		return content, other
	case name == "html" || name == "xhtml+xml":
		return kind, markup
	}
	return kind, plain
}

// isTextual reports whether a type outside text/… is text.
func isTextual(name string) bool {
	for _, s := range []string{"json", "xml", "yaml", "javascript", "ecmascript", "toml", "sql", "x-sh"} {
		if name == s || name == "x-"+s || strings.HasSuffix(name, "+"+s) {
			return true
		}
	}
	return name == "x-ndjson"
}

// decode returns raw as UTF-8. A declared charset applies; otherwise valid UTF-8 is
// unchanged, and the charset is guessed as in browsers.
func decode(raw []byte, declared string) string {
	enc, _, certain := charset.DetermineEncoding(raw[:min(len(raw), 1024)], declared)
	if !certain && utf8.Valid(raw) {
		return string(raw)
	}
	out, err := enc.NewDecoder().Bytes(raw)
	if err != nil {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return string(out)
}

// blocking returns c so that it makes no request to one of the blocked domains, neither
// at first nor after a redirect.
func blocking(c *http.Client, blocked []string) *http.Client {
	if len(blocked) == 0 {
		return c
	}
	limited := *c
	limited.Transport = blocker{limited.Transport, blocked}
	return &limited
}

// A blocker refuses requests to the blocked domains.
type blocker struct {
	next    http.RoundTripper
	blocked []string
}

func (b blocker) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, domain := range b.blocked {
		if inDomain(r.URL.Hostname(), domain) {
			return nil, fmt.Errorf("the operator does not allow pages of %s (security.website_blocklist)", domain)
		}
	}
	return cmp.Or(b.next, http.DefaultTransport).RoundTrip(r)
}

// CloseIdleConnections closes those of the next transport.
func (b blocker) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// inDomain reports whether host is domain or below it. domain may be written with *. or
// as a URL.
func inDomain(host, domain string) bool {
	_, rest, found := strings.Cut(domain, "://")
	if !found {
		rest = domain
	}
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest, "]") {
		rest = rest[:i]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	bare, below := strings.CutPrefix(strings.Trim(strings.ToLower(rest), ". "), "*.")
	bare = strings.TrimPrefix(bare, "www.")
	return bare != "" && (host == bare && !below || strings.HasSuffix(host, "."+bare))
}
