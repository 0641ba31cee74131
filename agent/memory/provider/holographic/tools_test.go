package holographic_test

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/holographic"
)

// contents returns the contents of results, in their order.
func contents(answer map[string]any) (all []string) {
	for _, key := range []string{"results", "facts"} {
		facts, _ := answer[key].([]any)
		for _, f := range facts {
			all = append(all, f.(map[string]any)["content"].(string))
		}
	}
	return all
}

func fill(t testing.TB, p provider.Provider, category string, facts ...string) {
	t.Helper()
	for _, f := range facts {
		input, _ := json.Marshal(map[string]string{"action": "add", "content": f, "category": category})
		if answer := call(t, p, "fact_store", string(input)); answer["status"] != "added" {
			t.Fatal(answer)
		}
	}
}

func TestAddUpdateRemove(t *testing.T) {
	p := open(t, t.TempDir(), `{"default_trust":0.6}`)
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"add","content":" Uses <vim> ","category":"tool","tags":"editor,daily"}`)); s != "map[fact_id:1 status:added]" {
		t.Error(s)
	}
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"add","content":"Uses <vim>","category":"general"}`)); s != "map[fact_id:1 status:added]" {
		t.Error("again:", s)
	}
	raw, err := p.Call(t.Context(), provider.Scope{}, "fact_store", json.RawMessage(`{"action":"list"}`))
	if err != nil || !strings.Contains(raw, `"content":"Uses <vim>","category":"tool","tags":"editor,daily","trust_score":0.6,"retrieval_count":0,"helpful_count":0,"created_at":"20`) || strings.Contains(raw, "T") {
		t.Error(raw, err)
	}
	if got := recall(t, p, "", "daily"); len(got) != 1 {
		t.Error("by a tag:", got)
	}
	fill(t, p, "tool", "Uses tmux")
	for _, c := range [][2]string{
		{`{"action":"update","fact_id":"1","content":"Uses helix","trust_delta":"0.9","category":"general"}`, "map[updated:true]"},
		{`{"action":"update","fact_id":1,"content":"Uses helix"}`, "map[updated:true]"},
		{`{"action":"update","fact_id":2,"content":"Uses helix"}`, "map[error:another fact has this content]"},
		{`{"action":"update","fact_id":2,"content":" "}`, "map[error:content must not be empty]"},
		{`{"action":"update","fact_id":9,"tags":"x"}`, "map[updated:false]"},
		{`{"action":"remove","fact_id":9}`, "map[removed:false]"},
	} {
		if s := fmt.Sprint(call(t, p, "fact_store", c[0])); s != c[1] {
			t.Errorf("%s: %s", c[0], s)
		}
	}
	answer := call(t, p, "fact_store", `{"action":"list","category":"general","min_trust":1}`)
	if !slices.Equal(contents(answer), []string{"Uses helix"}) {
		t.Error(answer)
	}
	if got := recall(t, p, "", "vim helix"); !slices.Equal(got, []string{"Uses helix"}) {
		t.Error(got)
	}
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"remove","fact_id":1}`)); s != "map[removed:true]" {
		t.Error(s)
	}
	if got := recall(t, p, "", "helix"); got != nil {
		t.Error(got)
	}
}

func TestFeedback(t *testing.T) {
	p := open(t, t.TempDir(), "")
	fill(t, p, "general", "The door code is 12")
	if s := fmt.Sprint(call(t, p, "fact_feedback", `{"action":"helpful","fact_id":1}`)); s != "map[fact_id:1 helpful_count:1 new_trust:0.55 old_trust:0.5]" {
		t.Error(s)
	}
	for range 3 {
		call(t, p, "fact_feedback", `{"action":"unhelpful","fact_id":1}`)
	}
	if got := recall(t, p, "", "door code"); got != nil { // below min_trust_threshold
		t.Error(got)
	}
	if answer := call(t, p, "fact_store", `{"action":"search","query":"door","min_trust":0.1}`); answer["count"] != 1.0 {
		t.Error(answer)
	}
	for range 9 {
		call(t, p, "fact_feedback", `{"action":"unhelpful","fact_id":1}`)
	}
	if answer := call(t, p, "fact_feedback", `{"action":"unhelpful","fact_id":1}`); answer["new_trust"] != 0.0 || answer["helpful_count"] != 1.0 {
		t.Error(answer)
	}
}

func TestMistakesOfTheModel(t *testing.T) {
	p := open(t, t.TempDir(), "")
	for _, c := range [][2]string{
		{`{}`, "'action'"}, {`[]`, "arguments"}, {`{"action":"fly"}`, "Unknown action: fly"}, {`{"action":"add"}`, "'content'"}, {`{"action":"add","content":" "}`, "'content'"},
		{`{"action":"search"}`, "'query'"}, {`{"action":"probe"}`, "'entity'"}, {`{"action":"related","entity":""}`, "'entity'"}, {`{"action":"reason"}`, "'entities'"},
		{`{"action":"update"}`, "'fact_id'"}, {`{"action":"remove","fact_id":1.5}`, "1.5"}, {`{"action":"list","limit":"all"}`, "arguments"}, {`{"action":"update","fact_id":1,"trust_delta":true}`, "arguments"},
	} {
		if answer := call(t, p, "fact_store", c[0]); !strings.Contains(fmt.Sprint(answer["error"]), c[1]) {
			t.Errorf("%s: %v", c[0], answer)
		}
	}
	for _, c := range [][2]string{{`{"action":"helpful"}`, "'fact_id'"}, {`{"fact_id":1}`, "'action'"}, {`{"action":"helpful","fact_id":7}`, "fact_id 7 not found"}} {
		if answer := call(t, p, "fact_feedback", c[0]); !strings.Contains(fmt.Sprint(answer["error"]), c[1]) {
			t.Errorf("%s: %v", c[0], answer)
		}
	}
	if answer := call(t, p, "fly", `{}`); !strings.Contains(fmt.Sprint(answer["error"]), "Unknown tool") {
		t.Error(answer)
	}
}

func TestSearches(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	for _, action := range []string{"search", "probe", "related", "reason", "contradict", "list"} { // nothing yet
		if answer := call(t, p, "fact_store", `{"action":"`+action+`","query":"x y","entity":"x y","entities":["x y"]}`); answer["count"] != 0.0 || len(contents(answer)) > 0 {
			t.Error(action, answer)
		}
	}
	fill(t, p, "project", "Ada Lovelace maintains the parser", "Grace Hopper maintains the compiler", "Ada Lovelace reviews patches of Grace Hopper", "The parser is slow")
	fill(t, p, "user_pref", "Likes tea")
	for input, want := range map[string][]string{
		`{"action":"search","query":"who maintains the compiler?","limit":1}`:         {"Grace Hopper maintains the compiler"},
		`{"action":"search","query":"parser","category":"user_pref"}`:                 {},
		`{"action":"probe","entity":"ada lovelace","limit":2}`:                        {"Ada Lovelace maintains the parser", "Ada Lovelace reviews patches of Grace Hopper"},
		`{"action":"reason","entities":["Ada Lovelace","grace hopper"],"limit":1}`:    {"Ada Lovelace reviews patches of Grace Hopper"},
		`{"action":"related","entity":"tea","limit":1}`:                               {"Likes tea"},
		`{"action":"related","entity":"Grace Hopper","category":"project","limit":2}`: {"Grace Hopper maintains the compiler", "Ada Lovelace reviews patches of Grace Hopper"},
		`{"action":"list","category":"user_pref"}`:                                    {"Likes tea"},
	} {
		got := contents(call(t, p, "fact_store", input))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", input, got, want)
		}
	}
	raw, err := p.Call(t.Context(), provider.Scope{}, "fact_store", json.RawMessage(`{"action":"search","query":"tea"}`))
	if err != nil || !strings.Contains(raw, `"fts_rank":1,"score":`) || !strings.HasSuffix(raw, `}],"count":1}`) && !strings.HasPrefix(raw, `{"count":1`) {
		t.Error(raw, err)
	}
}

func TestContradict(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	if _, err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Names of one entity that have no words in common.
	if _, err := rawDB(t, filepath.Join(home, "memory_store.db")).Exec("INSERT INTO entities (name, aliases) VALUES ('Grand Harbour', 'Old Dock,West Quay,North Basin')"); err != nil {
		t.Fatal(err)
	}
	fill(t, p, "general", "Old Dock closes", "Grand Harbour floods", "West Quay opens", "North Basin freezes", "Grace Hopper sails")
	answer := call(t, p, "fact_store", `{"action":"contradict","category":"general"}`)
	pairs, _ := answer["results"].([]any)
	if len(pairs) == 0 || len(pairs) == 6 || answer["count"] != float64(len(pairs)) {
		t.Fatal(answer)
	}
	for _, pair := range pairs {
		pair := pair.(map[string]any)
		a, b := pair["fact_a"].(map[string]any), pair["fact_b"].(map[string]any)
		score := (1 - pair["content_similarity"].(float64)) / 2
		if a["fact_id"].(float64) >= b["fact_id"].(float64) || pair["entity_overlap"] != 1.0 || fmt.Sprint(pair["shared_entities"]) != "[grand harbour]" ||
			pair["contradiction_score"].(float64) < 0.3 || math.Abs(pair["contradiction_score"].(float64)-score) > 0.001 {
			t.Error(pair)
		}
		if _, ok := a["retrieval_count"]; ok || len(a) != 7 {
			t.Error(a)
		}
	}
	if answer := call(t, p, "fact_store", `{"action":"contradict","category":"tool"}`); answer["count"] != 0.0 {
		t.Error(answer)
	}
}

// Upstream compares with the vector of a category if there is one, so one that is out of
// date must not stay.
func TestVectorsOfCategoriesAreDeletedByChanges(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	fill(t, p, "project", "The parser is slow", "The compiler is fast")
	db := rawDB(t, filepath.Join(home, "memory_store.db"))
	for _, change := range []string{`{"action":"add","content":"z","category":"project"}`, `{"action":"update","fact_id":2,"content":"y"}`,
		`{"action":"update","fact_id":2,"category":"tool"}`, `{"action":"update","fact_id":2,"category":"project"}`, `{"action":"remove","fact_id":1}`} {
		if _, err := db.Exec("INSERT INTO memory_banks (bank_name, vector, dim) VALUES ('cat:project', x'00', 1024)"); err != nil {
			t.Fatal(err)
		}
		call(t, p, "fact_store", change)
		var banks int
		if err := db.QueryRow("SELECT count(*) FROM memory_banks").Scan(&banks); err != nil || banks != 0 {
			t.Error(change, banks, err)
		}
	}
}

func TestOlderFactsHaveLowerScores(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, `{"temporal_decay_half_life":30}`)
	fill(t, p, "general", "The old harbour opens at nine", "The new harbour opens at nine")
	db := rawDB(t, filepath.Join(home, "memory_store.db"))
	for id, want := range map[int]string{1: "The new", 2: "The old"} {
		if _, err := db.Exec("UPDATE facts SET updated_at = CASE fact_id WHEN ? THEN datetime('now', '-60 days') ELSE datetime('now') END", id); err != nil {
			t.Fatal(err)
		}
		if got := recall(t, p, "", "harbour opens nine"); len(got) != 2 || !strings.HasPrefix(got[0], want) {
			t.Error(got)
		}
	}
}

func FuzzTools(f *testing.F) {
	p := open(f, f.TempDir(), "")
	for _, s := range []string{`{"action":"add","content":"Ada Lovelace \"x\"","tags":"a"}`, `{"action":"search","query":"ada","limit":1e300,"min_trust":"NaN"}`, `{"action":"probe","entity":"a"}`,
		`{"action":"related","entity":"\u0000"}`, `{"action":"reason","entities":["","b"]}`, `{"action":"contradict","limit":-1}`, `{"action":"update","fact_id":1,"trust_delta":1e308,"content":"\ud800"}`,
		`{"action":"remove","fact_id":9223372036854775808}`, `{"action":"list","category":null}`, `{"action":"helpful","fact_id":1}`, `null`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		for _, tool := range p.About().Tools {
			if s, err := p.Call(t.Context(), provider.Scope{}, tool.Name, json.RawMessage(input)); err != nil || !json.Valid([]byte(s)) {
				t.Errorf("%s(%s): %q, %v", tool.Name, input, s, err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("HRR1aaaabbbb"))
	f.Add(holographic.Encode(holographic.Atom("x", 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := make(holographic.Vector, 2)
		if holographic.Decode(v, b) && math.IsNaN(holographic.Similarity(v, holographic.Atom("x", 2))) {
			t.Error(v)
		}
	})
}
