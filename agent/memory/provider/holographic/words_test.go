package holographic_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hermesd/agent/memory/provider/holographic"
)

func TestEntities(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  nil,
		"Ada met Charles Babbage in London": {"Charles Babbage"},
		"New  York City, Berlin":            {"New York City"},
		"Maria José Pérez":                  nil, // as upstream: ASCII
		"McDonald Old Farm":                 {"Old Farm"},
		`uses "black" and 'Solarized Dark'`: {"Solarized Dark", "black"},
		`"a b" 'A B'`:                       {"a b"},
		"I don't and can't":                 nil,
		"'it's fine'":                       {"it's fine"},
		"\"two\nlines\"":                    nil,
		`"" ''`:                             nil,
		`"` + strings.Repeat("x", 81) + `"`: nil,
		"the box aka bigbox runs":           {"box", "bigbox"},
		"Kite Server also known as Falcon runs on Debian": {"Kite Server", "Falcon"},
		"Guido van Rossum AKA The Dictator":               {"The Dictator", "Guido van Rossum"},
		"aka":                                             nil,
		"x aka":                                           nil,
		"aka x":                                           nil,
		"Bob, aka, Robert":                                nil,
		"Bob also known":                                  nil,
		"Foo Bar. Baz Quux":                               {"Foo Bar", "Baz Quux"},
	} {
		if got := holographic.Entities(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestExtract(t *testing.T) {
	long := "I prefer " + strings.Repeat("é", 500)
	for text, want := range map[string][2]string{
		"I like it":                           {}, // too short
		"I prefer tabs over spaces":           {"I prefer tabs over spaces", "user_pref"},
		"well, i  always use vim.":            {"well, i  always use vim.", "user_pref"},
		"My favorite editor is vim":           {"My favorite editor is vim", "user_pref"},
		"We decided to use Postgres":          {"We decided to use Postgres", "project"},
		"the project needs Go 1.25":           {"the project needs Go 1.25", "project"},
		"I want what we agreed to before":     {"I want what we agreed to before", "user_pref"},
		"What is the weather like today?":     {},
		"Ich mag lieber Tabs als Leerzeichen": {},
		long:                                  {long[:9+2*391], "user_pref"},
	} {
		if content, category := holographic.Extract(text); content != want[0] || category != want[1] {
			t.Errorf("%q: got %q, %q", text, content, category)
		}
	}
}

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":        "",
		"?! -- *": "",
		"What happened with the deployment rollback?": `"happened" OR "deployment" OR "rollback"`,
		"who are you":                          `"who" "are" "you"`,
		`say "hi" NEAR(x) col:umn a-b Vim vim`: `"say" OR "hi" OR "near(x" OR "col:umn" OR "a-b" OR "vim"`,
		`in"side`:                              `"inside"`,
	} {
		if got := query(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func query(text string) string {
	anyOf, all := holographic.Terms(text)
	return strings.Join(anyOf, " OR ") + strings.Join(all, " ")
}

func FuzzTerms(f *testing.F) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.TempDir(), "x.db"))
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE VIRTUAL TABLE t USING fts5(content, tags); INSERT INTO t VALUES ('some words', 'a')"); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", `"`, "a AND b", "content:x", "^x*", "a + b", "NEAR(a b, 3)", "\x00x", "é\xff", "{content tags}:x", "١٢ ²", "日本", strings.Repeat("(", 300), strings.Repeat("w1 w2 ", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := query(s)
		if q == "" {
			return
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM t WHERE t MATCH ?", q).Scan(&n); err != nil {
			t.Errorf("%q makes the query %q: %v", s, q, err)
		}
	})
}

func FuzzEntities(f *testing.F) {
	for _, s := range []string{"", "Ada Lovelace", `"x"`, "'x' 'y", "a aka b", "A also known as B", "aka aka aka", "Guido van Rossum aka Le Roi", "\xff\"\xff\"", "I prefer \xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var lower []string
		for _, name := range holographic.Entities(s) {
			if n := utf8.RuneCountInString(name); n == 0 || n > 80 || strings.TrimSpace(name) != name || len(strings.Fields(name)) > 8 {
				t.Errorf("%q has the name %q", s, name)
			}
			if slices.ContainsFunc(lower, func(l string) bool { return strings.EqualFold(l, name) }) {
				t.Errorf("%q has the name %q twice", s, name)
			}
			lower = append(lower, name)
		}
		content, category := holographic.Extract(s)
		if category == "" && content != "" || utf8.RuneCountInString(content) > 400 || !utf8.ValidString(content) {
			t.Errorf("%q states %q, %q", s, content, category)
		}
	})
}
