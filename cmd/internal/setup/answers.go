package setup

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// Answers are the values chosen in a setup. Nil and missing entries leave the
// setting unchanged.
type Answers struct {
	Model     *Model
	Platforms map[chat.Platform]Login
	Workspace *string
	Memory    *Memory
}

// A Model selects the main model.
type Model struct {
	Provider string
	Name     string       // "" for the provider's default
	BaseURL  string       // "" for the provider's own
	Key      secret.Value // "" keeps the existing one
}

// A Login holds the secrets of an account and its owners.
type Login struct {
	Secrets map[string]secret.Value // by key; those that are missing or empty are kept
	Owners  []string                // empty keeps the existing ones
}

// logins returns the platforms with the owners that were named for the external memory.
func (a Answers) logins() map[chat.Platform]Login {
	all := maps.Clone(a.Platforms)
	if a.Memory == nil || len(a.Memory.Owners) == 0 {
		return all
	}
	if all == nil {
		all = make(map[chat.Platform]Login)
	}
	for p, ids := range a.Memory.Owners {
		if l := all[p]; len(l.Owners) == 0 {
			l.Owners = ids
			all[p] = l
		}
	}
	return all
}

// check checks the form of a secret. Its error does not name the key.
func check(s chat.Secret, v secret.Value) error {
	if err := s.Check(v); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), s.Key+": "))
	}
	return nil
}

func checkOwners(p chat.Platform, ids []string) error {
	for _, id := range ids {
		if id == "*" {
			return fmt.Errorf("not everybody can be an owner")
		}
		if err := access.CheckID(platforms.Profiles(), p, id); err != nil {
			return err //nolint:wrapcheck // shown to the user
		}
	}
	return nil
}

// Split returns the entries of a list separated by commas, semicolons or white
// space.
func Split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == ';' })
}

// checkURL checks the form of a model's base URL.
func checkURL(s string) error { return checkHTTP(s, "http://127.0.0.1:8000/v1") }

// checkAddress checks the form of the address of a memory's server.
func checkAddress(s string) error { return checkHTTP(s, "http://127.0.0.1:8888") }

func checkHTTP(s, like string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s, " \t\r\n") {
		return fmt.Errorf("want an address such as %s", like)
	}
	return nil
}

// checkLine checks a value that must be one line of text.
func checkLine(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a control character in it")
	}
	return nil
}

// checkKey checks the form of an API key.
func checkKey(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a space or a control character in it")
	}
	return nil
}
