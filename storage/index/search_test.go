package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hermesd/gateway/session"
	"hermesd/storage/index"
)

func TestSearchWords(t *testing.T) {
	x := newIndex(t)
	texts := []string{
		0:  "The server db-01.example.com runs out of disk on /var/log/syslog.1",
		1:  "我喜欢在周末去爬山，因为山上的空气很好",
		2:  "Das Café in der Straße hat geöffnet",
		3:  "call get_user_by_id() from pkg/auth/session_test.go:42",
		4:  "ｆｕｌｌｗｉｄｔｈ text and カタカナ and ひらがな",
		5:  "한국어를 공부합니다",
		6:  "iPhone手机很贵",
		7:  "deploying version v1.21.3-rc2 with the flag --dry-run tomorrow",
		8:  "he said \"never again\" and left",
		9:  "Привет, мир! Ещё раз",
		10: "the fox 🦊 and the dog",
		11: "ภาษาไทยไม่มีช่องว่าง",
		12: "猫",
		13: "never say again what he said",
	}
	addTexts(t, x, dm("s", "1"), texts...)
	for query, want := range map[string][]int{
		"disk":                {0},
		"DISK server":         {0},
		"db-01.example.com":   {0},
		"db-01":               {0},
		"/var/log/syslog.1":   {0},
		"example.org":         {0}, // no text has it; one has example
		"周末":                  {1},
		"爬山":                  {1},
		"空气很好":                {1},
		"山":                   {1},
		"好":                   {1},
		"好空":                  nil,
		"cafe":                {2},
		"CAFÉ":                {2},
		"cafe\u0301":          {2},
		"geöffnet straße":     {2},
		"get_user_by_id":      {3},
		"user_by":             {3},
		"session_test.go":     {3},
		"fullwidth":           {4},
		"カタカナ":                {4},
		"ｶﾀｶﾅ":                {4},
		"らが":                  {4},
		"한국어":                 {5},
		"공부":                  {5},
		"iphone":              {6},
		"iPhone手机":            {6},
		"手机":                  {6},
		"机":                   {6},
		"v1.21.3-rc2":         {7},
		"--dry-run":           {7},
		"21.3":                {7},
		`"never again"`:       {8},
		`“never again”`:       {8},
		"never again":         {8, 13},
		"never NOT say":       {8},
		"fox OR disk":         {0, 10},
		"deploy*":             {7},
		"deploy":              {7}, // no text has the word; one has a word that begins with it
		"привет ещё":          {9},
		"еще":                 {9},
		"🦊":                   {10},
		"ไทย":                 {11},
		"猫":                   {12},
		"zebra":               nil,
		"!!! ---":             nil,
		"":                    nil,
		"NOT":                 nil,
		"NOT fox":             nil,
		"OR":                  nil,
		"g1":                  nil,
		"who:g1":              nil,
		"disk zebra":          {0},
		"\xff\xfe disk \x00":  {0},
		`"`:                   nil,
		`"disk`:               {0},
		"NEAR(disk server, 1": {0},
		"* disk":              {0},
		"text:disk^":          {0, 4},
	} {
		if got := rowsOf(t, x, query); !slices.Equal(got, want) {
			t.Errorf("%q is found in %v, want %v", query, got, want)
		}
	}
}

// A text is found by each of its words and each pair of its characters.
func TestSearchFindsEachPart(t *testing.T) {
	x := newIndex(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune("abcXYZ019中文字漢カなーé_ -.'\"ßΣςก한e\u0301"))
		part := rapid.StringOfN(alphabet, 1, 12, -1)
		before, piece, after := part.Draw(t, "before"), part.Draw(t, "piece"), part.Draw(t, "after")
		n++
		r := dm(fmt.Sprint("s", n), "1")
		if err := x.Add(t.Context(), index.Update{Session: r, Docs: []index.Doc{{Row: 0, Role: index.User, Time: noon, Text: before + " " + piece + " " + after}}, Next: 1}); err != nil {
			t.Fatal(err)
		}
		hits, err := x.Search(t.Context(), index.Query{Text: `"` + strings.ReplaceAll(piece, `"`, " ") + `"`, Scope: index.OperatorScope(), Limit: 1000, Sort: index.Newest})
		if err != nil {
			t.Fatal(err)
		}
		if !index.Searchable(piece) {
			return
		}
		if !slices.ContainsFunc(hits, func(h index.Hit) bool { return h.Session == r.ID }) {
			t.Fatalf("%q is not found in %q", piece, before+" "+piece+" "+after)
		}
	})
}

func FuzzSearch(f *testing.F) {
	for _, s := range []string{`"`, `a" OR "b`, "NOT NOT a", "a AND", "(((", "^a", "{who text}: g1", "a* b*", "猫*", "\x00", "NEAR(a b)", strings.Repeat("a-", 3000), "' OR 1=1 --", "ŉ ﷺ ½ ⒜"} {
		f.Add(s, s)
	}
	x := newIndex(f)
	f.Fuzz(func(t *testing.T, text, query string) {
		if err := x.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		addTexts(t, x, dm("s", "1"), text)
		for _, sort := range []index.Sort{index.Best, index.Newest} {
			for _, h := range find(t, x, index.Query{Text: query, Scope: index.ScopeFor(dm("q", "1"), nil), Sort: sort}) {
				if !utf8.ValidString(h.Snippet) || strings.Contains(h.Snippet, "\n") || len(h.Snippet) > 1000 {
					t.Fatalf("a snippet of %q: %q", text, h.Snippet)
				}
			}
		}
	})
}

func TestSearchGroupsHitsBySession(t *testing.T) {
	x := newIndex(t)
	for i := range 5 {
		r := dm(fmt.Sprint("s", i), "1")
		r.Updated = noon.Add(-1 * noon.Sub(noon.AddDate(0, 0, i)))
		addTexts(t, x, r, "nothing", "an apple", "nothing either", "an apple and an apple again", "an apple", "apple", "the end")
	}
	hits := find(t, x, index.Query{Text: "apple", Scope: index.OperatorScope(), Limit: 2, Per: 2, Sort: index.Newest})
	var got []string
	for _, h := range hits {
		got = append(got, fmt.Sprint(h.Session, ":", h.Row, " ", h.Before, " ", h.After))
	}
	if want := []string{"s4:5 4 6", "s4:4 3 5", "s3:5 4 6", "s3:4 3 5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if hits := find(t, x, index.Query{Text: "apple", Scope: index.OperatorScope(), Limit: 1, Per: 1}); len(hits) != 1 || hits[0].Row != 5 {
		t.Errorf("the best of all is %+v, want the shortest", hits)
	}
}

func TestSearchFiltersRolesAndOwnRows(t *testing.T) {
	x := newIndex(t)
	docs := []index.Doc{
		{Row: 0, Role: index.User, Time: noon, Text: "where is the key"},
		{Row: 1, Role: index.Assistant, Time: noon, Text: "the key is here"},
		{Row: 2, Role: index.Tool, Time: noon, Text: "key found"},
	}
	if err := x.Add(t.Context(), index.Update{Session: dm("s", "1"), Docs: docs, Next: 3}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    index.Query
		want []int
	}{
		{index.Query{Text: "key"}, []int{0, 1, 2}},
		{index.Query{Text: "key", Roles: []index.Role{index.User, index.Tool}}, []int{0, 2}},
		{index.Query{Text: "key", Except: "s", Active: 2}, []int{0, 1}},
		{index.Query{Text: "key", Except: "s"}, nil},
		{index.Query{Text: "key", Except: "other"}, []int{0, 1, 2}},
	} {
		c.q.Scope, c.q.Sort = index.OperatorScope(), index.Newest
		var got []int
		for _, h := range find(t, x, c.q) {
			got = append(got, h.Row)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.q, got, c.want)
		}
	}
}

func TestSnippetShowsMatch(t *testing.T) {
	x := newIndex(t)
	long := strings.Repeat("Lorem ipsum 山山山 dolor. ", 200) + "Here is the needle\n\nin the haystack. " + strings.Repeat("Sit amet. ", 500)
	addTexts(t, x, dm("s", "1"), long)
	hits := find(t, x, index.Query{Text: "needle haystack", Scope: index.OperatorScope()})
	if len(hits) != 1 || !strings.Contains(hits[0].Snippet, "the needle in the haystack.") || !strings.HasPrefix(hits[0].Snippet, "…") || len(hits[0].Snippet) > 600 {
		t.Errorf("got %+v", hits)
	}
}

func TestAddIndexesDocOnce(t *testing.T) {
	x := newIndex(t)
	for range 3 {
		addTexts(t, x, dm("s", "1"), "one apple", "two apples")
	}
	if got := rowsOf(t, x, "apple"); !slices.Equal(got, []int{0}) {
		t.Errorf("got %v", got)
	}
	if m, ok, err := x.Progress(t.Context(), "s"); err != nil || !ok || m.Next != 2 {
		t.Errorf("got %+v, %v, %v", m, ok, err)
	}
	for _, id := range []session.ID{"s", "s", "unknown"} {
		if err := x.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := rowsOf(t, x, "apple OR two"); got != nil {
		t.Errorf("found after it was deleted: %v", got)
	}
}
