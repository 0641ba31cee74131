package honcho

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/atomicfile"
	"hermesd/internal/secret"
)

const (
	accessPrefix   = "hch-at-"
	early          = 120 * time.Second // before its end a token is replaced
	refreshTimeout = 15 * time.Second
)

// A grant is an OAuth grant in the file of configuration. Its refresh token can be used
// once, so a new one is written to the file before anything else happens.
type grant struct {
	path, host string
	learn      func(secret.Value)
	turn       chan struct{} // holds one value while nobody uses the fields below

	access   secret.Value
	block    oauth
	unstored bool // the file does not have the tokens yet
}

// oauth is the grant's object in the file.
type oauth struct {
	Refresh  string  `json:"refreshToken"`
	Expires  float64 `json:"expiresAt"` // seconds since 1970
	Client   string  `json:"clientId"`
	Endpoint string  `json:"tokenEndpoint"`
	Scope    string  `json:"scope,omitempty"`
	Type     string  `json:"tokenType,omitempty"`
}

// grantOf returns the grant of a host, or nil if it has a plain key.
func grantOf(f file, s provider.Source) *grant {
	g := &grant{path: f.path, host: f.host, learn: s.Learn, turn: make(chan struct{}, 1)}
	if !g.take(f.own) {
		return nil
	}
	g.turn <- struct{}{}
	return g
}

// take sets the grant to that of a host's block, and reports whether there is one.
func (g *grant) take(block map[string]json.RawMessage) bool {
	var access string
	var o oauth
	if json.Unmarshal(block["apiKey"], &access) != nil || json.Unmarshal(block["oauth"], &o) != nil {
		return false
	}
	if !strings.HasPrefix(access, accessPrefix) || o.Refresh == "" || o.Endpoint == "" || o.Client == "" {
		return false
	}
	g.set(access, o)
	return true
}

func (g *grant) set(access string, o oauth) {
	g.access, g.block = secret.Value(access), o
	g.learn(g.access)
	g.learn(secret.Value(o.Refresh))
}

// token returns a token that is valid for some time. refused is one that the server did
// not accept, or "".
func (g *grant) token(ctx context.Context, s provider.Source, refused secret.Value) (secret.Value, error) {
	select {
	case <-g.turn:
	case <-ctx.Done():
		return "", &provider.Error{Class: provider.Down, Text: "Honcho's sign-in did not answer in time", Err: ctx.Err()}
	}
	defer func() { g.turn <- struct{}{} }()
	ended := func() bool { return g.expired() || refused == g.access }
	if ended() && !g.unstored {
		g.reread() // another program may have replaced it
	}
	if ended() {
		if err := g.refresh(ctx, s); err != nil {
			return "", err
		}
	}
	if g.unstored {
		if err := g.write(); err != nil {
			return "", &provider.Error{Class: provider.Auth, Text: "Honcho's new tokens cannot be stored: " + err.Error(), Err: err}
		}
		g.unstored = false
	}
	return g.access, nil
}

func (g *grant) expired() bool {
	return !time.Now().Before(time.UnixMilli(int64(g.block.Expires * 1000)).Add(-early))
}

// reread takes the grant of the file, if there is one.
func (g *grant) reread() {
	if root, err := readObject(nil, g.path); err == nil {
		var hosts map[string]map[string]json.RawMessage
		if json.Unmarshal(root["hosts"], &hosts) == nil {
			g.take(hosts[g.host]) // otherwise the grant stays as it is
		}
	}
}

// refresh replaces the tokens.
func (g *grant) refresh(ctx context.Context, s provider.Source) error {
	endpoint, err := rest.New("Honcho's sign-in", g.block.Endpoint, secret.Value(g.block.Refresh), s)
	if err != nil {
		return &provider.Error{Class: provider.Auth, Text: err.Error(), Err: err}
	}
	defer endpoint.Close()
	var got struct {
		Access  string  `json:"access_token"`
		Refresh string  `json:"refresh_token"`
		Expires float64 `json:"expires_in"` // seconds; 0: the next call asks again
		Scope   string  `json:"scope"`
		Type    string  `json:"token_type"`
	}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {g.block.Client}, "refresh_token": {g.block.Refresh}}
	err = endpoint.Do(ctx, rest.Call{Method: http.MethodPost, Raw: []byte(form.Encode()), ContentType: "application/x-www-form-urlencoded", Timeout: refreshTimeout}, &got)
	if provider.ClassOf(err) == provider.Refused || provider.ClassOf(err) == provider.Auth {
		return &provider.Error{Class: provider.Auth, Text: "Honcho's sign-in has ended: sign in again with hermes memory setup honcho, or set a key", Err: err}
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(got.Access, accessPrefix) || got.Refresh == "" {
		return &provider.Error{Class: provider.Garbage, Text: "Honcho's sign-in has sent no tokens"}
	}
	g.set(got.Access, oauth{
		Refresh: got.Refresh, Expires: float64(time.Now().Unix()) + got.Expires, Client: g.block.Client, Endpoint: g.block.Endpoint,
		Scope: cmp.Or(got.Scope, g.block.Scope), Type: cmp.Or(got.Type, g.block.Type),
	})
	g.unstored = true
	return nil
}

// write stores the tokens in the file; everything else in it stays.
func (g *grant) write() error {
	root, err := readObject(nil, g.path)
	if err != nil {
		return err
	}
	hosts := map[string]json.RawMessage{}
	block := map[string]json.RawMessage{}
	if raw := root["hosts"]; raw != nil {
		if err := json.Unmarshal(raw, &hosts); err != nil {
			return fmt.Errorf("hosts: %w", err)
		}
	}
	if raw := hosts[g.host]; raw != nil {
		if err := json.Unmarshal(raw, &block); err != nil {
			return fmt.Errorf("hosts: %w", err)
		}
	}
	if block["apiKey"], err = json.Marshal(g.access.Reveal()); err != nil {
		return err
	}
	if block["oauth"], err = json.Marshal(g.block); err != nil {
		return err
	}
	if hosts[g.host], err = json.Marshal(block); err != nil {
		return err
	}
	if root["hosts"], err = json.Marshal(hosts); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(g.path, append(raw, '\n'), 0o600)
}
