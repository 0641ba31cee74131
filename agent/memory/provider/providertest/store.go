package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func describes(s *subject) {
	a := s.Provider.About()
	if a.Name == "" || a.Label == "" || a.Place == "" || utf8.RuneCountInString(a.Header) > 600 {
		s.t.Errorf("incomplete: %+v", a)
	}
	local := a.Name == "holographic" || a.Name == "byterover" // their place says it
	if !local && (a.Owner == "") != a.PerID {
		s.t.Errorf("the owner is %q, each of their ids a person: %v", a.Owner, a.PerID)
	}
	if a.NoTools && len(a.Tools) > 0 {
		s.t.Errorf("tools in a mode without tools: %+v", a.Tools)
	}
	if again := s.Provider.About(); !reflect.DeepEqual(a, again) {
		s.t.Errorf("first %+v, then %+v", a, again)
	}
	if n := s.calls(); n != 0 {
		s.t.Errorf("%d calls were made", n)
	}
	for _, tool := range a.Tools {
		var schema struct {
			Type       string
			Properties map[string]struct{ Type any }
			Required   []string
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || schema.Properties == nil {
			s.t.Errorf("schema of %s: %v, %s", tool.Name, err, tool.Schema)
		}
		for _, name := range schema.Required {
			if _, ok := schema.Properties[name]; !ok {
				s.t.Errorf("%s requires %s, which is no property", tool.Name, name)
			}
		}
		if !toolName.MatchString(tool.Name) || tool.Description == "" || !json.Valid([]byte(s.o.Inputs[tool.Name])) {
			s.t.Errorf("tool %q: description %q, input %q", tool.Name, tool.Description, s.o.Inputs[tool.Name])
		}
	}
	if h, err := s.Provider.Check(s.t.Context()); err != nil || h != s.o.Health {
		s.t.Errorf("check: %v, %+v", err, h)
	}
}

func recallsTurn(s *subject) {
	s.store(Turn(1, Owner("one"), teaText))
	s.store(Turn(2, Other("two"), coffeeText))
	if s.Provider.About().NoRecall {
		s.t.Skip("the mode has no recall")
	}
	for _, test := range []struct {
		of, query string
		scope     provider.Scope
		want      bool
	}{
		{"the owner", "jasmine", Owner("three"), true},
		{"the owner", "espresso", Owner("three"), false},
		{"another person", "espresso", Other("four"), true},
		{"another person", "jasmine", Other("four"), false},
	} {
		if got := s.recalled(test.scope, test.query, test.query); got != test.want {
			s.t.Errorf("%s: %s recalled: %v", test.of, test.query, got)
		}
	}
	for word, scope := range map[string]provider.Scope{"espresso": Owner("three"), "jasmine": Other("four")} {
		text, err := s.Provider.Standing(s.t.Context(), scope)
		if err != nil || strings.Contains(strings.ToLower(text), word) {
			s.t.Errorf("known of one person: %q, %v; %s is of another", text, err, word)
		}
	}
}

func recallsFact(s *subject) {
	scope := Owner("one")
	r := s.store(Added(1, scope, fruitText))
	if s.Provider.About().NoRecall {
		s.t.Skip("the mode has no recall")
	}
	if !s.recalled(scope, "papaya", "papaya") {
		s.t.Fatal("not recalled")
	}
	if s.recalled(Other("two"), "papaya", "papaya") {
		s.t.Error("recalled for another person")
	}
	removed := Added(2, scope, fruitText)
	removed.Kind, removed.Fact.ID = provider.Removed, r.ID
	s.sync(removed)
	s.sync(removed) // it is gone, which is what was asked for
	time.Sleep(s.o.Settle)
	if s.recalled(scope, "papaya", "papaya") && !s.o.KeepsFacts {
		s.t.Error("recalled after it was removed")
	}
}

func forgets(s *subject) {
	s.store(Turn(1, Owner("one"), teaText))
	s.store(Turn(2, Other("two"), coffeeText))
	a := s.Provider.About()
	for i, e := range []provider.Event{{Scope: Owner("one")}, {Scope: Owner("")}} {
		e.Key, e.Kind, e.At = key(10+i), provider.Forget, time.Now()
		s.sync(e)
		s.sync(e)
	}
	time.Sleep(s.o.Settle)
	if a.NoRecall {
		s.t.Skip("the mode has no recall")
	}
	if s.recalled(Owner("three"), "jasmine", "jasmine") && a.Cannot == "" {
		s.t.Error("recalled after it was forgotten")
	}
	if !s.recalled(Other("three"), "espresso", "espresso") {
		s.t.Error("forgotten with that of another person")
	}
}

func storesOnce(s *subject) {
	for word, e := range map[string]provider.Event{"jasmine": Turn(1, Owner("one"), teaText), "papaya": Added(2, Owner("one"), fruitText)} {
		s.sync(e)
		s.repeat(e)
		time.Sleep(s.o.Settle)
		s.repeat(e)
		s.counted(e, word, 3)
	}
}

func storesBatch(s *subject) {
	b := s.Provider.About().Batch
	if b.Turns == 0 {
		return
	}
	e := Turn(1, Owner("one"), teaText)
	for i := range b.Turns - 2 {
		e.Messages = append(e.Messages, Turn(2, Owner("one"), fmt.Sprintf("What is %d?", i)).Messages...)
	}
	e.Messages = append(e.Messages, Turn(3, Owner("one"), fruitText).Messages...)
	s.store(e)
	s.repeat(e)
	time.Sleep(s.o.Settle)
	for _, word := range []string{"jasmine", "papaya"} {
		s.counted(e, word, 2)
		if !s.Provider.About().NoRecall && !s.recalled(Owner("two"), word, word) {
			s.t.Errorf("%s is not recalled", word)
		}
	}
}

// counted checks how many copies are stored of an event that was sent up to some times.
func (s *subject) counted(e provider.Event, word string, sent int) {
	s.t.Helper()
	if s.Count == nil {
		return
	}
	if s.Provider.About().Exact {
		sent = 1
	}
	if n := s.Count(word); n > sent || n < 1 && !(s.o.End && e.Kind == provider.Turn) {
		s.t.Errorf("%s: %d copies are stored, want at most %d", e.Kind, n, sent)
	}
}

func knowsWhatIsMissing(s *subject) {
	for _, e := range []provider.Event{Turn(1, Owner("one"), teaText), Added(2, Owner("one"), fruitText)} {
		stored, err := s.Provider.Synced(s.t.Context(), e, provider.Receipt{})
		if stored || err != nil && !errors.Is(err, provider.ErrUnknown) {
			s.t.Errorf("%s: %v, %v", e.Kind, stored, err)
		}
	}
	if s.Provider.About().NoRecall {
		return
	}
	if s.recalled(Owner("one"), "jasmine", "jasmine") {
		s.t.Error("recalled what nobody said")
	}
}

func storesAnyLength(s *subject) {
	long := Turn(1, Owner("one"), strings.Repeat("jasmine é 世界 ", 4000))
	long.Messages[1].Text = strings.Repeat("x", 60_000)
	s.store(long)
	short := Turn(2, Owner("one"), teaText)
	short.Messages = short.Messages[:1]
	s.store(short)
	empty := Turn(3, Owner("one"), "")
	empty.Messages[1].Text = " "
	s.sync(empty)
	empty.Key, empty.Messages = key(4), nil
	s.sync(empty)
}

func storesToolUses(s *subject) {
	e := Turn(1, Owner("one"), teaText)
	e.Tools = []provider.ToolUse{
		{ID: "call_1", Name: "read_file", Input: `{"path":"basket.txt"}`, Output: "The basket has a quince."},
		{ID: "call_2", Name: "read_file", Input: `{"path":"cut off…`, Output: "There is no such file.", Failed: true},
	}
	s.sync(e)
	s.repeat(e)
	if s.Count == nil {
		return
	}
	want := 0
	if s.Provider.About().ToolUses {
		want = 1
		silent := e
		silent.Key, silent.Messages = key(2), nil // the model has said nothing
		silent.Tools = []provider.ToolUse{{ID: "call_3", Name: "read_file", Output: "The basket has a medlar."}}
		s.sync(silent)
		if n := s.Count("medlar"); n != 1 {
			s.t.Errorf("a result without messages is stored %d times", n)
		}
	}
	if n := s.Count("quince"); n != want {
		s.t.Errorf("a result is stored %d times, want %d", n, want)
	}
}

var idProperty = regexp.MustCompile(`"(\w+_)?(id|uri)s?":\{`)

func changesOnlyTheirs(s *subject) {
	for _, tool := range s.Provider.About().Tools {
		if s.o.ByID[tool.Name] == "" && tool.Writes && !tool.Owners && idProperty.Match(tool.Schema) {
			s.t.Errorf("%s changes what it names by an ID, and ByID has no input of it", tool.Name)
		}
	}
	if len(s.o.ByID) == 0 || s.Count == nil {
		return
	}
	ids := []string{s.store(Added(1, Owner("one"), fruitText)).ID}
	others := []string{s.store(Added(2, Other("two"), coffeeText)).ID}
	items, err := s.Provider.Recall(s.t.Context(), Owner("one"), fruitText)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	if items, err = s.Provider.Recall(s.t.Context(), Other("two"), coffeeText); err != nil {
		s.t.Fatal(err)
	}
	for _, i := range items {
		others = append(others, i.ID)
	}
	call := func(scope provider.Scope, ids []string) {
		for tool, input := range s.o.ByID {
			for _, id := range ids {
				if id == "" {
					continue
				}
				if _, err := s.Provider.Call(s.t.Context(), scope, tool, json.RawMessage(strings.ReplaceAll(input, "ID", id))); err != nil {
					s.t.Errorf("%s: %v", tool, err)
				}
			}
		}
	}
	call(Other("two"), ids)
	if n := s.Count(fruitText); n != 1 {
		s.t.Errorf("%d copies are left after calls of another person", n)
	}
	if !slices.ContainsFunc(others, func(id string) bool { return slices.Contains(ids, id) }) { // numbers of their own
		if !s.recalled(Other("two"), coffeeText, "espresso") {
			s.t.Fatal("what another person has is not there")
		}
		call(Owner("one"), others)
		if !s.recalled(Other("two"), coffeeText, "espresso") {
			s.t.Error("calls of the owner have deleted what another person has")
		}
	}
	call(Owner("one"), ids)
	if n := s.Count(fruitText); n != 0 {
		s.t.Errorf("%d copies are left after calls of the person", n)
	}
}

func standingIsShort(s *subject) {
	for i := range 8 {
		s.sync(Added(i, Owner("one"), fmt.Sprintf("I prefer fruit %d%s.", i, strings.Repeat(" and apple", 80))))
	}
	time.Sleep(s.o.Settle)
	text, err := s.Provider.Standing(s.t.Context(), Owner("one"))
	if n := utf8.RuneCountInString(text); err != nil || n > 4000 || strings.TrimSpace(text) != text {
		s.t.Errorf("%d characters, %v", n, err)
	}
}

func runsConcurrently(s *subject) {
	var wg sync.WaitGroup
	for i := range 4 {
		scope := Owner(fmt.Sprintf("s%d", i))
		if i%2 == 1 {
			scope = Other(fmt.Sprintf("s%d", i))
		}
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := s.Provider.Check(ctx); return err },
			func(ctx context.Context) error { _, err := s.Provider.Standing(ctx, scope); return err },
			func(ctx context.Context) error { _, err := s.Provider.Recall(ctx, scope, "jasmine"); return err },
			func(ctx context.Context) error { _, err := s.Provider.Sync(ctx, Turn(i, scope, teaText)); return err },
		} {
			wg.Go(func() {
				if err := call(s.t.Context()); err != nil {
					s.t.Errorf("at the same time as others: %v", err)
				}
			})
		}
	}
	wg.Wait()
}

func toolsAnswer(s *subject) {
	for _, tool := range s.Provider.About().Tools {
		result, err := s.Provider.Call(s.t.Context(), Owner("one"), tool.Name, json.RawMessage(s.o.Inputs[tool.Name]))
		if err != nil || result == "" || !utf8.ValidString(result) {
			s.t.Errorf("%s: %q, %v", tool.Name, result, err)
		}
	}
}

func toolsRefuse(s *subject) {
	names := []string{"no_such_tool", ""}
	for _, tool := range s.Provider.About().Tools {
		names = append(names, tool.Name)
	}
	for _, name := range names {
		for _, input := range []string{"", "[]", `"x"`, "{", `{"query":{"a":1},"content":7,"conclusion":[1],"peer":5,"action":{}}`} {
			before := s.calls()
			result, err := s.Provider.Call(s.t.Context(), Owner("one"), name, json.RawMessage(input))
			if err == nil && result == "" {
				s.t.Errorf("%s(%s): nothing is said", name, input)
			}
			understood := json.Valid([]byte(input)) && bytes.HasPrefix([]byte(input), []byte("{"))
			if name == "no_such_tool" && (err == nil && !errorText(result) || s.calls() != before) {
				s.t.Errorf("%s(%s): %q, %d calls", name, input, result, s.calls()-before)
			}
			if !understood && input != "" && err == nil && !errorText(result) {
				s.t.Errorf("%s(%s): %q", name, input, result)
			}
		}
	}
}
