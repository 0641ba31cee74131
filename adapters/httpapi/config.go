package httpapi

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/atomicfile"
	"hermesd/internal/secret"
)

// Config is the configuration of the HTTP API. Zero values mean the defaults in
// the tags.
type Config struct {
	Enabled       bool     `yaml:"enabled" default:"false" doc:"Serve the HTTP API for local clients."`
	Listen        string   `yaml:"listen" default:"127.0.0.1:8642" doc:"Where the API listens. Another place than the machine itself needs hosts."`
	Hosts         []string `yaml:"hosts" doc:"Names by which clients may reach the API, besides those of the machine itself (localhost, 127.0.0.1, ::1)."`
	Origins       []string `yaml:"origins" doc:"Web pages that may use the API from a browser, such as http://localhost:3000; empty: none."`
	Models        []string `yaml:"models" doc:"More model names that clients may ask for. They all mean the agent."`
	MaxBody       int64    `yaml:"max_body" default:"8388608" range:"1024..67108864" doc:"Largest request that is accepted, in bytes."`
	MaxConcurrent int      `yaml:"max_concurrent" default:"32" range:"1..1024" doc:"Maximum number of concurrent requests; others get 429 with Retry-After."`
}

const (
	defaultAddress    = "127.0.0.1:8642"
	defaultBody       = 8 << 20
	defaultConcurrent = 32
)

func (c Config) withDefaults() Config {
	c.Listen = cmp.Or(c.Listen, defaultAddress)
	c.MaxBody = cmp.Or(c.MaxBody, defaultBody)
	c.MaxConcurrent = cmp.Or(c.MaxConcurrent, defaultConcurrent)
	return c
}

// Validate returns the first invalid setting as an error written for the
// operator. The error names the key.
func (c Config) Validate() error {
	c = c.withDefaults()
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %q is not host:port, such as %s", c.Listen, defaultAddress)
	}
	if !loopback(host) && len(c.Hosts) == 0 {
		return fmt.Errorf("listen: others can reach %s; list in hosts the names by which they may, or listen on %s", c.Listen, defaultAddress)
	}
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/@* ") || hostOf(h) != strings.ToLower(h) {
			return fmt.Errorf("hosts: %q is not a host name; write it without scheme and port", h)
		}
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			return fmt.Errorf("origins: %q is not the origin of a web page, such as http://localhost:3000", o)
		}
	}
	if c.MaxBody < 1<<10 || c.MaxBody > 64<<20 {
		return fmt.Errorf("max_body: %d is not between 1024 and 67108864", c.MaxBody)
	}
	if c.MaxConcurrent < 1 || c.MaxConcurrent > 1024 {
		return fmt.Errorf("max_concurrent: %d is not between 1 and 1024", c.MaxConcurrent)
	}
	for _, m := range c.Models {
		if strings.TrimSpace(m) != m || m == "" {
			return fmt.Errorf("models: %q is not a name", m)
		}
	}
	return nil
}

// hostOf returns the host of a Host header in the normalized form for
// comparison.
func hostOf(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		s = h
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	return strings.TrimSuffix(strings.ToLower(s), ".")
}

// loopback reports whether host names the local machine.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// minKey is the minimum length of a key in characters.
const minKey = 20

// LoadKey returns the key in the file at path. If the file does not exist,
// LoadKey creates it with a new key, readable only by its owner, and created is
// true. A file that others can read is an error: its key may be known to them.
func LoadKey(path string) (key secret.Value, created bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key, err = newKey(path)
		return key, err == nil, err
	case err != nil:
		return "", false, fmt.Errorf("API key: %w", err)
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("API key: %s is not a file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", false, fmt.Errorf("API key: others can read %s (%v); remove it for a new key, or chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Errorf("API key: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) < minKey || strings.ContainsFunc(text, odd) {
		return "", false, fmt.Errorf("API key: %s does not hold one line of at least %d printable characters; remove it for a new key", path, minKey)
	}
	return secret.Value(text), false, nil
}

func newKey(path string) (secret.Value, error) {
	var b [32]byte
	rand.Read(b[:])
	text := "hk-" + base64.RawURLEncoding.EncodeToString(b[:])
	if err := atomicfile.Replace(path, []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("API key: %w", err)
	}
	return secret.Value(text), nil
}

// digest makes secrets of any length comparable in constant time.
func digest(s string) [32]byte { return sha256.Sum256([]byte(s)) }

//go:embed hint.md
var hint string

// Profile returns the facts about the HTTP API that other packages need. Only the
// operator and those who have the key from the operator can use it.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.HTTP, Name: "HTTP API",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: chat.IsWord, Is: "id"},
		OwnerRule: "http_key", ClientPrompt: true,
		Unattended: true, Answers: true, Hint: hint,
	}
}
