package yamledit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/setup/yamledit"
)

func parse(t *testing.T, s string) *yamledit.Doc {
	t.Helper()
	d, err := yamledit.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSetChangesOnlyItsKey(t *testing.T) {
	const key = "model.provider"
	for _, c := range []struct{ name, in, want string }{
		{"an empty file", "", "model:\n  provider: new\n"},
		{"only comments", "# mine\n", "# mine\nmodel:\n  provider: new\n"},
		{"another section", "# a\n\nlogging:\n    level: info # b\n", "# a\n\nlogging:\n    level: info # b\nmodel:\n  provider: new\n"},
		{"no line end", "timezone: UTC", "timezone: UTC\nmodel:\n  provider: new\n"},
		{"in its section", "model:   # the model\n    default: x   # why\n\n# next\nlogging: {level: info}\n", "model:   # the model\n    default: x   # why\n    provider: new\n\n# next\nlogging: {level: info}\n"},
		{"behind what is commented out", "model:\n  default: x\n  # provider: y\nlogging: {}\n", "model:\n  default: x\n  # provider: y\n  provider: new\nlogging: {}\n"},
		{"behind a list", "model:\n  a:\n  - 1\n  - 2\nb: 3\n", "model:\n  a:\n  - 1\n  - 2\n  provider: new\nb: 3\n"},
		{"behind a literal", "model:\n  a: |\n    # text\n\n    more\nb: 3\n", "model:\n  a: |\n    # text\n\n    more\n  provider: new\nb: 3\n"},
		{"in place", "model:\n  provider: old # why\n  b: 2\n", "model:\n  provider: new # why\n  b: 2\n"},
		{"in double quotes", `model: {provider: "o\"l#d", b: 'x'}` + "\n", "model: {provider: new, b: 'x'}\n"},
		{"in single quotes", "model:\n  provider: 'o''ld' # c\n", "model:\n  provider: new # c\n"},
		{"a key without anything", "model:\n  provider:   # none\n  b: 2\n", "model:\n  provider: new   # none\n  b: 2\n"},
		{"null", "model:\n  provider: ~\n", "model:\n  provider: new\n"},
		{"a section without anything", "model: # later\nb: 2\n", "model: # later\n  provider: new\nb: 2\n"},
		{"braces", "model: {default: x} # c\n", "model: {provider: new, default: x} # c\n"},
		{"empty braces", "model: {}\n", "model: {provider: new}\n"},
		{"nothing but braces", "{}\n", "{model: {provider: new}}\n"},
		{"windows", "a: 1\r\nmodel:\r\n  b: 2\r\n", "a: 1\r\nmodel:\r\n  b: 2\r\n  provider: new\r\n"},
		{"a mark", "\xef\xbb\xbfa: 1\n", "\xef\xbb\xbfa: 1\nmodel:\n  provider: new\n"},
		{"begin and end", "---\na: 1\n...\n", "---\na: 1\nmodel:\n  provider: new\n...\n"},
		{"umlauts ahead", "model: {\"ä ö\": ü, provider: old}\n", "model: {\"ä ö\": ü, provider: new}\n"},
		{"already so", "model: {provider: \"new\"}\n", "model: {provider: \"new\"}\n"},
		{"an anchor elsewhere", "a: &x {b: 1}\nc: *x\nmodel:\n  <<: *x\n", "a: &x {b: 1}\nc: *x\nmodel:\n  <<: *x\n  provider: new\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, c.in)
			if err := d.Set("new", strings.Split(key, ".")...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(d.Bytes())); diff != "" {
				t.Error("the file differs (-want +got):\n" + diff)
			}
			if got := d.Text("model", "provider"); got != "new" {
				t.Errorf("read back as %q", got)
			}
		})
	}
}

func TestSetRejectsUnknownForm(t *testing.T) {
	for name, in := range map[string]string{
		"an alias":         "a: &x {provider: old}\nmodel: *x\n",
		"a literal":        "model:\n  provider: |\n    old\n",
		"an anchor":        "model:\n  provider: &x old\nb: *x\n",
		"a tag":            "model:\n  provider: !!str old\n",
		"several lines":    "model:\n  provider: old\n    and older\n",
		"no section":       "model: [1, 2]\n",
		"a plain value":    "model: name\n",
		"two of them":      "model:\n  provider: a\n  provider: b\n",
		"braces and a tag": "model: !!map {a: 1}\n",
	} {
		d := parse(t, in)
		err := d.Set("new", "model", "provider")
		var bad *yamledit.FormError
		if !errors.As(err, &bad) || bad.Key != "model.provider" || string(d.Bytes()) != in {
			t.Errorf("%s: %v, and the file is\n%s", name, err, d.Bytes())
		}
	}
	for _, in := range []string{"a: [", "- 1\n", "just text", "a: 1\n---\nb: 2\n"} {
		if _, err := yamledit.Parse([]byte(in)); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}

func TestSpreadTurnsValueIntoSection(t *testing.T) {
	for in, want := range map[string]string{
		"model: claude # mine\nb: 1\n": "model:\n  default: claude # mine\n  provider: new\nb: 1\n",
		"model: 'a b'\n":               "model:\n  default: 'a b'\n  provider: new\n",
		"{model: claude, b: 1}\n":      "{model: {provider: new, default: claude}, b: 1}\n",
		"model: {default: x}\n":        "model: {provider: new, default: x}\n",
		"model:\n":                     "model:\n  provider: new\n",
		"":                             "model:\n  provider: new\n",
	} {
		d := parse(t, in)
		if err := errors.Join(d.Spread("default", "model"), d.Set("new", "model", "provider")); err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if diff := cmp.Diff(want, string(d.Bytes())); diff != "" {
			t.Errorf("%q becomes (-want +got):\n%s", in, diff)
		}
	}
}

func TestSetListKeepsItems(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"none", "", "p:\n  ids: [\"1\", U2]\n"},
		{"lines", "p:\n  ids:\n    - \"1\" # me\n    # others\n    - 3\nb: 2\n", "p:\n  ids:\n    - \"1\" # me\n    # others\n    - U2\nb: 2\n"},
		{"lines at the section's place", "p:\n  ids:\n  - 1\nb: 2\n", "p:\n  ids:\n  - 1\n  - U2\nb: 2\n"},
		{"brackets", "p:\n  ids: ['1', 7] # c\n", "p:\n  ids: [\"1\", U2] # c\n"},
		{"empty brackets", "p: {ids: []}\n", "p: {ids: [\"1\", U2]}\n"},
		{"numbers stay numbers", "p:\n  ids: [1]\n", "p:\n  ids: [1, U2]\n"},
		{"a plain value", "p:\n  ids: 1,2\n", "p:\n  ids: [\"1\", U2]\n"},
		{"nothing", "p:\n  ids:\n", "p:\n  ids: [\"1\", U2]\n"},
		{"no line end", "p:\n  ids:\n  - 1", "p:\n  ids:\n  - 1\n  - U2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, c.in)
			if err := d.SetList([]string{"1", "U2"}, "p", "ids"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(d.Bytes())); diff != "" {
				t.Error("the file differs (-want +got):\n" + diff)
			}
		})
	}
}

// FuzzSet checks that a value can be read back after Set, and that every other key
// and every line of other keys is unchanged.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"", "model: {a: 1}\n", "a: |\n  x\n\nmodel:\n  b: 2 # c\n", "model:\r\n- 1\r\n", "---\n{}\n", "model:\n  provider: 'x\n   y'\n", "? model\n: provider: a\n"} {
		f.Add([]byte(s), "x: #'\"\n{$}")
	}
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		d, err := yamledit.Parse(data)
		if err != nil {
			return
		}
		var before, after map[string]any
		if yaml.Unmarshal(d.Bytes(), &before) != nil {
			return
		}
		if err := d.Set(value, "model", "provider"); err != nil {
			if string(d.Bytes()) != string(data) {
				t.Fatalf("refused, and changed: %v", err)
			}
			return
		}
		if err := yaml.Unmarshal(d.Bytes(), &after); err != nil {
			t.Fatalf("%q: %v", d.Bytes(), err)
		}
		m, ok := after["model"].(map[string]any)
		if !ok || m["provider"] != value {
			t.Fatalf("%q is read back from %q", m["provider"], d.Bytes())
		}
		for _, line := range strings.SplitAfter(string(data), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "#") && !strings.Contains(string(d.Bytes()), strings.TrimSuffix(line, "\n")) {
				t.Fatalf("the comment %q is gone from %q", line, d.Bytes())
			}
		}
		delete(before, "model")
		delete(after, "model")
		if diff := cmp.Diff(before, after); len(before)+len(after) > 0 && diff != "" {
			t.Fatal("other keys differ (-want +got):\n" + diff)
		}
	})
}
