package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
)

// Each platform of the list has a section and a chapter of docs/platforms.md, and the
// reverse.
func TestPlatformsHaveSectionsAndChapters(t *testing.T) {
	want := []string{"http"}
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "platforms.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms.All() {
		want = append(want, string(p.Platform))
		if !strings.Contains(string(doc), "\n## "+p.Name+"\n") {
			t.Errorf("docs/platforms.md has no chapter %s", p.Name)
		}
	}
	var got []string
	for f := range reflect.TypeFor[config.Platforms]().Fields() {
		got = append(got, f.Tag.Get("yaml"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("there are sections for %q, want %q", got, want)
	}
}

// The variable of a secret that a Profile names sets its key.
func TestVariablesOfSecrets(t *testing.T) {
	for _, p := range platforms.All() {
		env := map[string]string{}
		for _, s := range p.Secrets {
			env[s.Env] = "word-" + s.Key
		}
		c, _ := setup{env: env}.good(t)
		for _, s := range p.Secrets {
			if got := c.Account(chat.Account{Platform: p.Platform}).Secrets[s.Key]; got.Reveal() != "word-"+s.Key {
				t.Errorf("%s sets %s of %s to %q", s.Env, s.Key, p.Platform, got.Reveal())
			}
		}
	}
}

// Every field of the Config of an adapter is a key of the section and of its accounts.
func TestKeysOfAdaptersAreLoaded(t *testing.T) {
	valid := map[string]any{"api_url": "http://127.0.0.1:1", "proxy": "http://127.0.0.1:2", "webhook_url": "https://example.org/hook", "webhook_listen": "127.0.0.1:3"}
	none, _ := setup{}.good(t)
	for _, p := range platforms.All() {
		account := chat.Account{Platform: p.Platform}
		unset := reflect.ValueOf(none.Account(account).Adapter)
		keys := map[string]any{}
		for i := range unset.NumField() {
			f := unset.Type().Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key == "" || key == "-" {
				t.Errorf("the field %s of the Config of %s is not a key", f.Name, p.Platform)
			}
			switch f.Type.Kind() {
			case reflect.Bool:
				keys[key] = !unset.Field(i).Bool()
			case reflect.Slice:
				keys[key] = []string{"1"}
			case reflect.Map:
				keys[key] = map[string]string{"1": "text"}
			default:
				keys[key] = "word"
			}
			if v, ok := valid[key]; ok {
				keys[key] = v
			}
		}
		doc, err := yaml.Marshal(map[string]any{"platforms": map[string]any{string(p.Platform): map[string]any{"accounts": map[string]any{"work": keys}}}})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := setup{yaml: string(doc)}.good(t)
		account.Name = "work"
		got := reflect.ValueOf(c.Account(account).Adapter)
		for i := range got.NumField() {
			if reflect.DeepEqual(got.Field(i).Interface(), unset.Field(i).Interface()) {
				t.Errorf("%s: the field %s is not loaded", p.Platform, got.Type().Field(i).Name)
			}
		}
	}
}
