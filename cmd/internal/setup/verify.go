package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

// Limits of one request.
const (
	verifyTimeout = 15 * time.Second
	maxAnswer     = 8 << 20 // bytes of a response
)

// VerifyModel requests the list of models from the server of a model, with the key.
// It returns a text for the user; its errors never contain the key.
func (s *State) VerifyModel(ctx context.Context, m Model) (string, error) {
	e, err := s.endpoint(m)
	if err != nil {
		return "", err
	}
	text, err := verifyEndpoint(ctx, e)
	return text, maskError(err, e.APIKey)
}

// maskError removes secrets from an error, because a server may repeat them.
func maskError(err error, secrets ...secret.Value) error {
	if err == nil {
		return nil
	}
	var m secret.Masker
	m.Add(secrets...)
	return errors.New(m.Mask(err.Error()))
}

func verifyEndpoint(ctx context.Context, e config.Endpoint) (string, error) {
	if e.Provider == "demo" {
		return "The demo model needs nothing.", nil
	}
	header, ask := map[string]string{}, asker(ctx, "")
	switch {
	case e.Service().API == config.Anthropic:
		e.BaseURL += "/v1"
		header = map[string]string{"X-Api-Key": e.APIKey.Reveal(), "Anthropic-Version": "2023-06-01"}
	case e.APIKey != "":
		header["Authorization"] = "Bearer " + e.APIKey.Reveal()
	}
	if path := e.Service().KeyPath; path != "" {
		if err := ask(http.MethodGet, e.BaseURL+path, header, nil); err != nil {
			return "", err
		}
	}
	var list struct {
		Data []struct{ ID string }
	}
	if err := ask(http.MethodGet, e.BaseURL+"/models?limit=1000", header, &list); err != nil {
		return "", err
	}
	var names []string
	for _, d := range list.Data {
		names = append(names, d.ID)
	}
	return checkListed(names, e.Model)
}

// checkListed checks whether a server offers a model.
func checkListed(names []string, model string) (string, error) {
	switch {
	case slices.Contains(names, model), slices.Contains(names, model+":latest"):
		return fmt.Sprintf("It works, and has %s.", model), nil
	case len(names) == 0:
		return "It answers, but does not tell its models.", nil
	}
	slices.Sort(names)
	shown := names
	if part := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return strings.ContainsRune("-/:._ ", r) }); len(names) > 12 {
		shown = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return !slices.ContainsFunc(part, func(p string) bool { return len(p) > 2 && strings.Contains(strings.ToLower(n), p) })
		})
	}
	more := ""
	if len(shown) > 12 {
		shown, more = shown[:12], ", …"
	}
	if len(shown) == 0 {
		return "", fmt.Errorf("it answers, but has no model %q among its %d", model, len(names))
	}
	return "", fmt.Errorf("it answers, but has no model %q; it has %s%s", model, strings.Join(shown, ", "), more)
}

// endpoint returns the endpoint of a model, with the existing key if m has none.
func (s *State) endpoint(m Model) (config.Endpoint, error) {
	v := config.ServiceOf(m.Provider)
	if v.Name == "" {
		return config.Endpoint{}, fmt.Errorf("there is no provider %q", m.Provider)
	}
	e := config.Endpoint{Provider: v.Name, Model: v.ModelName(m.Name), BaseURL: cmp.Or(strings.TrimRight(m.BaseURL, "/"), v.BaseURL), APIKey: m.Key}
	if e.APIKey == "" {
		e.APIKey = s.Report.Model.APIKey
		if s.Report.Model.Provider != v.Name {
			e.APIKey = secret.Value(s.variable(v.Variable))
		}
	}
	if e.BaseURL == "" && v.Name != "demo" {
		return e, errors.New("there is no address to ask")
	}
	return e, nil
}

// variable returns a variable of the environment or, if it is not set there, of
// .env.
func (s *State) variable(name string) string {
	if v, ok := s.o.Env(name); ok || name == "" {
		return v
	}
	return s.vars[name]
}

// Verify contacts every server that the plan names and returns texts for the user.
// The error joins all failures.
func (p *Plan) Verify(ctx context.Context) (texts []string, err error) {
	one := func(what string, text string, bad error) {
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, bad))
			return
		}
		texts = append(texts, what+": "+text)
	}
	if m := p.answers.Model; m != nil {
		text, bad := p.s.VerifyModel(ctx, *m)
		one("model", text, bad)
	}
	for _, pl := range platforms.All() {
		if l, ok := p.answers.Platforms[pl.Platform]; ok {
			text, bad := p.s.VerifyToken(ctx, pl.Platform, l)
			one(string(pl.Platform), text, bad)
		}
	}
	if m := p.answers.Memory; m != nil {
		t, _, bad := p.s.TryMemory(ctx, *m)
		one("memory", "It "+t.Text()+".", bad)
	}
	return texts, err
}

// VerifyToken asks a platform which bot the token belongs to. It returns a text for
// the user; its errors never contain the token.
func (s *State) VerifyToken(ctx context.Context, p chat.Platform, l Login) (string, error) {
	a := s.account(p)
	secrets := maps.Clone(l.Secrets)
	for key, v := range a.Secrets {
		if secrets[key] == "" {
			secrets[key] = v
		}
	}
	try := platforms.Profiles().Of(p).Try
	if try == nil { // the token must not reach another platform
		return "", fmt.Errorf("set-up cannot try a token of %s", p)
	}
	text, err := try(strings.TrimRight(a.APIURL, "/"), secrets, asker(ctx, a.Secrets["proxy"]))
	return text, maskError(err, slices.Collect(maps.Values(secrets))...)
}

// asker returns a function that sends a request to a server that the operator has
// configured, and decodes the JSON response into to, unless that is nil.
func asker(ctx context.Context, proxy secret.Value) chat.Ask {
	return func(method, url string, header map[string]string, to any) error {
		ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		if err != nil {
			return errors.New("this is not an address")
		}
		for k, v := range header {
			r.Header.Set(k, v)
		}
		return fetch(r, proxy, to)
	}
}

// fetch sends a request and decodes the response. Redirects are not followed, because a
// token may be in the URL or a header.
func fetch(r *http.Request, through secret.Value, to any) error {
	t := http.DefaultTransport.(*http.Transport).Clone()
	defer t.CloseIdleConnections()
	if through != "" {
		proxy, err := url.Parse(through.Reveal())
		if err != nil {
			return errors.New("the proxy is not an address")
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which may contain the token
		}
		return fmt.Errorf("%s is not reached: %w", r.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s breaks off: %w", r.URL.Host, err)
	}
	if resp.StatusCode != http.StatusOK {
		return statusError(r.URL.Host, resp.StatusCode, body)
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%s answers, but not as expected: is the address right?", r.URL.Host)
	}
	return nil
}

func statusError(host string, status int, body []byte) error {
	why := ""
	var said struct {
		Error       json.RawMessage
		Message     string
		Description string
	}
	if json.Unmarshal(body, &said) == nil {
		var inner struct{ Message string }
		_ = json.Unmarshal(said.Error, &inner) // it may be a string
		for _, s := range []string{inner.Message, said.Message, said.Description} {
			if s != "" && why == "" {
				why = ": " + oneLine(s)
			}
		}
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound && strings.Contains(host, "telegram"):
		return fmt.Errorf("%s refuses it (%d%s)", host, status, why)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s has nothing there (404): is the address right?", host)
	}
	return fmt.Errorf("%s answers %d%s", host, status, why)
}

// oneLine returns the text of a server as one short line without control characters.
func oneLine(s string) string {
	return shorten.To(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f && r < 0xa0 }), " "), 200)
}
