// Package supermemory is a client of Supermemory: documents and conversations, from
// which the service extracts facts minutes later, search, and a profile. The memory of a
// person is what one container tag holds.
//
// Up to 100 turns of a conversation are one conversation there, with the key of their event
// as its ID: sent again, it is the same. Upstream sends a whole conversation once, at its end,
// and loses it in a crash before. The profile is shown at the beginning of a conversation and
// not, as profile_frequency of upstream says, again in later turns; capture_mode has no effect,
// as in upstream's own program.
package supermemory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

const (
	label       = "Supermemory"
	maxQuery    = 200   // characters of a query that are asked
	maxStanding = 4_000 // characters
	maxHeader   = 600   // characters
)

type client struct {
	config
	rest *rest.Client
	// tells: the service was seen to know a conversation as a document.
	tells atomic.Bool
}

// Open returns the client that SUPERMEMORY_* and supermemory.json describe, with
// warnings for the operator.
func Open(s provider.Source) (p provider.Provider, warnings []string, err error) {
	key := secret.Value(strings.TrimSpace(s.Getenv("SUPERMEMORY_API_KEY")))
	if key == "" {
		return nil, nil, errors.New("supermemory: SUPERMEMORY_API_KEY is missing: make a key at https://console.supermemory.ai, or take the one that `supermemory local` prints, and write it to .env")
	}
	c, warnings, err := load(s)
	if err != nil {
		return nil, nil, err
	}
	r, err := rest.New(label, c.base, key, s)
	if err != nil {
		return nil, nil, err
	}
	r.Header = func() http.Header {
		return http.Header{"Authorization": {"Bearer " + key.Reveal()}, "X-Sm-Source": {"hermes"}}
	}
	return &client{config: c, rest: r}, warnings, nil
}

func (c *client) About() provider.About {
	header := "# Supermemory\nActive. supermemory_search finds memories, supermemory_store keeps one, supermemory_forget deletes one, supermemory_profile shows what is known about the person."
	if c.containers != nil {
		header += "\nContainers: " + strings.Join(c.containers, ", ") + ". The optional container_tag of the tools names one. " + c.instructions
	}
	return provider.About{
		Name: "supermemory", Label: label, Place: c.base, Owner: c.tag,
		Header:   shorten.To(strings.TrimSpace(header), maxHeader-1),
		Tools:    c.tools(),
		NoRecall: !c.recall, Wait: true, Exact: true, Apart: true, Batch: provider.Batch{Turns: 100, After: 10 * time.Minute},
		Cannot: "facts that Supermemory has derived from several documents, some of which stay",
	}
}

func (c *client) Close() error {
	c.rest.Close()
	return nil
}

// tagOf returns the container tag of a person. Those of other people than the owner have
// a hyphen, which no configured tag has.
func (c *client) tagOf(person string) string {
	if person == "" {
		return c.tag
	}
	tag := c.tag + "-" + person
	if len(tag) <= maxTag {
		return tag
	}
	sum := sha256.Sum256([]byte(tag))
	return tag[:maxTag-9] + "-" + hex.EncodeToString(sum[:4])
}

// read makes a call that changes nothing.
func (c *client) read(ctx context.Context, method, path string, in, out any) error {
	return c.rest.Do(ctx, rest.Call{Method: method, Path: path, Body: in, Timeout: c.timeout, Reads: true}, out)
}

func (c *client) write(ctx context.Context, method, path string, in, out any) error {
	return c.rest.Do(ctx, rest.Call{Method: method, Path: path, Body: in, Timeout: rest.WriteTimeout}, out)
}

// A hit is a memory, or a part of a document, that was found.
type hit struct {
	ID         string   `json:"id"`
	Memory     string   `json:"memory"`
	Chunk      string   `json:"chunk"`
	Similarity *float64 `json:"similarity"`
}

func (h hit) text() string { return strings.TrimSpace(h.Memory + h.Chunk) } // it has one of them

type profile struct {
	Profile struct {
		Static  []string `json:"static"`
		Dynamic []string `json:"dynamic"`
	} `json:"profile"`
	Found struct {
		Results []hit `json:"results"`
	} `json:"searchResults"`
}

// profileOf returns the profile of a container and, unless query is "", what fits it.
func (c *client) profileOf(ctx context.Context, tag, query string) (p profile, err error) {
	in := map[string]any{"containerTag": tag}
	if query != "" {
		in["q"] = query
	}
	return p, c.read(ctx, http.MethodPost, "/v4/profile", in, &p)
}

func (c *client) Check(ctx context.Context) (provider.Health, error) {
	_, err := c.profileOf(ctx, c.tag, "")
	return provider.Health{}, err
}

func (c *client) Standing(ctx context.Context, s provider.Scope) (string, error) {
	p, err := c.profileOf(ctx, c.tagOf(s.Person), "")
	if err != nil || len(p.Profile.Static) == 0 {
		return "", err
	}
	return section("User Profile (Persistent)", p.Profile.Static, maxStanding), nil
}

// section returns a list below a title, of as many lines as limit characters hold.
func section(title string, items []string, limit int) string {
	out := "## " + title
	limit -= len([]rune(out))
	for _, item := range items {
		line := "\n- " + strings.Join(strings.Fields(item), " ")
		if limit -= len([]rune(line)); limit < 0 {
			break
		}
		out += line
	}
	return out
}

func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	query = strings.TrimSpace(query)
	if query == "" {
		return nil, nil
	}
	p, err := c.profileOf(ctx, c.tagOf(s.Person), query[:shorten.Offset(query, maxQuery)])
	if err != nil {
		return nil, err
	}
	var items []provider.Item
	seen := map[string]bool{}
	for _, h := range p.Found.Results {
		text := h.text()
		if text == "" || seen[text] || len(items) == c.results {
			continue
		}
		seen[text] = true
		items = append(items, provider.Item{ID: h.ID, Text: text})
	}
	return items, nil
}

// gone is nil for the error of an object that is not there.
func gone(err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}
