package gateway_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// idOfLevel holds one user of each level, matching levelChecker.
var idOfLevel = map[access.Level]string{access.Guest: "9", access.Member: "8", access.Owner: "7"}

// levelChecker returns a checker that allows everyone as a guest; 8 is a member and 7
// the owner.
func levelChecker(t *testing.T) *access.Checker {
	t.Helper()
	c, err := access.New(access.Policy{
		Config:   access.Config{Owners: []string{"7"}},
		Accounts: map[chat.Account]access.AccountRules{account: {AllowAll: true, AllowFrom: []string{"8"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func levelTooLowText(name string, need, has access.Level) string {
	return fmt.Sprintf("You cannot use /%s: it requires level %s, yours is %s.", name, need, has)
}

// Each command of the table is sent by a user of each level, as text and as a button:
// users of a lower level get a denial, and nothing else happens. The button of another
// user does not bypass the check.
func TestLevelsOfCommandsAreEnforced(t *testing.T) {
	for has, id := range idOfLevel {
		t.Run(has.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t)
				w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("Yes.") }
				w.configure = func(o *gatewaytest.Options) {
					o.Access = levelChecker(t)
					o.Host = &fakeHost{restart: func() { t.Error("it restarted") }}
				}
				w.start()
				defer w.stop()
				w.sendText(id, "hello")
				w.advance(time.Second)
				table := w.gw.Commands().All()
				for _, c := range table {
					if c.Level <= has {
						continue
					}
					for _, name := range append([]string{c.Name}, c.Aliases...) {
						w.expectRefusedText(id, "/"+name, levelTooLowText(c.Name, c.Level, has))
						w.expectRefusedText(id, "/"+strings.ToUpper(name)+"@bot on off all now", levelTooLowText(c.Name, c.Level, has))
					}
					press := w.newMessage(id, "/"+c.Name+" now")
					press.Kind = chat.Callback
					w.expectRefused(press, levelTooLowText(c.Name, c.Level, has))
				}
				for _, c := range table {
					if c.Level <= has && c.Name != "pause" { // it would block the other cases
						seen := len(w.adapter.visible(id))
						w.sendText(id, "/"+c.Name)
						w.advance(time.Second)
						for _, text := range w.adapter.visible(id)[seen:] {
							if text == levelTooLowText(c.Name, c.Level, has) {
								t.Errorf("/%s is refused to a person of level %s", c.Name, has)
							}
						}
					}
				}
			})
		})
	}
}

func (w *harness) expectRefusedText(by, text, want string) {
	w.expectRefused(w.newMessage(by, text), want)
}

// expectRefused accepts in and checks that want is the only message sent.
func (w *harness) expectRefused(in chat.Inbound, want string) {
	w.t.Helper()
	seen := len(w.adapter.visible(""))
	w.accept(in)
	w.advance(time.Second)
	if got := w.adapter.visible("")[seen:]; len(got) != 1 || got[0] != want {
		w.t.Errorf("%q by %s says %q, want %q", in.Text, in.Sender.ID, got, want)
	}
}

// A countingTool counts its runs.
type countingTool struct {
	name string
	ran  int
}

func (c *countingTool) Spec() tool.Spec {
	return tool.Spec{Tool: llm.Tool{Name: c.name, Description: "counts", Schema: []byte(`{"type":"object"}`)}, Effect: tool.Pure}
}

func (c *countingTool) Run(context.Context, tool.Call) (string, error) { c.ran++; return "done", nil }

// checkToolLevel allows tools by level only.
func checkToolLevel(_ session.Record, by access.Principal, name string) error {
	if need := access.ToolLevel(name); by.Level < need {
		return fmt.Errorf("%s is for people of level %s; who asks is %s", name, need, by.Level)
	}
	return nil
}

// addLevelTools adds a tool of each name in the table, and one that is not in it; the
// model calls all of them whenever a message contains "use".
func (w *harness) addLevelTools() map[string]*countingTool {
	all := map[string]*countingTool{}
	for _, name := range append(slices.Sorted(maps.Keys(access.ToolLevels())), "brand_new") {
		all[name] = &countingTool{name: name}
		w.tools = append(w.tools, all[name])
	}
	w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		if !strings.Contains(r.Newest(), "use") {
			return llmtest.Say("Done.")
		}
		var a llmtest.Answer
		for _, name := range slices.Sorted(maps.Keys(all)) {
			a.Calls = append(a.Calls, llmtest.Call{Name: name})
		}
		return a
	}
	w.configure = func(o *gatewaytest.Options) { o.Access, o.CheckTool = levelChecker(w.t), checkToolLevel }
	return all
}

// Each tool of the table is called for a user of each level.
func TestLevelsOfToolsAreEnforced(t *testing.T) {
	for has, id := range idOfLevel {
		t.Run(has.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t)
				all := w.addLevelTools()
				w.start()
				defer w.stop()
				w.sendText(id, "use them")
				w.advance(time.Minute)
				for name, c := range all {
					if may := access.ToolLevel(name) <= has; may != (c.ran == 1) || c.ran > 1 {
						t.Errorf("%s ran %d times for a person of level %s", name, c.ran, has)
					}
				}
				if all["brand_new"].ran > 0 != (has == access.Owner) {
					t.Error("a tool that is in no table is not for owners alone")
				}
			})
		})
	}
}

// In a shared conversation, waiting messages of several users become one input, with
// the lowest of their levels.
func TestLevelsMergedInputHasLowestLevel(t *testing.T) {
	for name, order := range map[string][]string{
		"the owner last": {"9", "7"}, "the owner first and last": {"7", "9", "7"}, "a member in between": {"7", "9", "8"}, "the owner alone": {"7", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t)
				all := w.addLevelTools()
				hold := make(chan struct{})
				use := w.model.Default
				w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
					a := use(r)
					a.Wait = hold
					return a
				}
				w.start()
				defer w.stop()
				least := access.Owner
				for i, id := range order {
					for level, who := range idOfLevel {
						if who == id {
							least = min(least, level)
						}
					}
					in := w.newMessage(id, fmt.Sprintf("use them, I say for the %dth time", i))
					in.Address.Kind, in.Address.Chat, in.Address.Thread = chat.Thread, "-100", "5"
					w.accept(in)
					w.advance(100 * time.Millisecond)
				}
				close(hold)
				w.advance(time.Minute)
				said := w.transcript()[0].Text()
				for i := range order {
					if !strings.Contains(said, fmt.Sprintf("the %dth time", i)) {
						t.Fatalf("the input is %q", said)
					}
				}
				for name, c := range all {
					if may := access.ToolLevel(name) <= least; may != (c.ran > 0) {
						t.Errorf("%s, which requires level %s, ran %d times for a %s", name, access.ToolLevel(name), c.ran, least)
					}
				}
			})
		})
	}
}

// eventKinds returns the values of the constants of type chat.EventKind.
func eventKinds(t *testing.T) (out []chat.EventKind) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("chat", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == reflect.TypeFor[chat.EventKind]().Name() {
				out = append(out, chat.EventKind(strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)))
			}
			return true
		})
	}
	if len(out) < 4 {
		t.Fatalf("only %v", out)
	}
	return out
}

// Whatever kind of event an unauthorized user causes, in any chat: nothing of it waits,
// runs, is answered or is stored. Kinds added later are covered as well.
func TestLevelsUnauthorizedEventsHaveNoEffect(t *testing.T) {
	full := func(in *chat.Inbound) { // everything that an event can contain
		in.Text = "/stop canary"
		in.Files = []chat.File{{Kind: chat.Photo, Ref: "canary", Name: "canary"}}
		in.ReplyTo = &chat.Quote{ID: "1", Text: "canary"}
		in.EditedKey = "7:1"
		in.HasEarlierMessages = true
		in.Part = &chat.Part{Group: "text"}
		in.Addressed = true
	}
	kinds := map[string]func(*chat.Inbound){}
	for _, e := range eventKinds(t) {
		kinds[string(e)] = func(in *chat.Inbound) { in.Kind = e }
	}
	kinds["a reaction, which is no event yet"] = func(in *chat.Inbound) { in.Kind = "reaction" }
	kinds["media"] = func(in *chat.Inbound) { in.Text = "" }
	for name, change := range kinds {
		for _, place := range []chat.Kind{chat.DM, chat.Group, chat.Thread, chat.Channel} {
			t.Run(name+" in a "+string(place), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newHarness(t, llmtest.Say("Yes."))
					w.start()
					defer w.stop()
					w.sendText("7", "hello")
					w.advance(time.Second)
					in := w.newMessage("666", "")
					full(&in)
					change(&in)
					in.Address.Kind = place
					w.accept(in)
					w.advance(time.Minute)
					if got := w.outcome(in.IdempotencyKey); !strings.HasPrefix(got, "silent(") {
						t.Errorf("it ends as %s", got)
					}
					chains, err := w.store.MessageHistory(t.Context(), in.IdempotencyKey)
					if err != nil {
						t.Fatal(err)
					}
					e := chains[0].Entry
					if kept := fmt.Sprintf("%+v", e); strings.Contains(kept, "canary") || e.Lane != "" || e.Grant.Principal().Level != access.Nobody {
						t.Errorf("kept of it: %s", kept)
					}
					if lanes, rows := w.unfinished(); len(lanes)+len(rows) > 0 {
						t.Errorf("open: %v, %v", lanes, rows)
					}
					if got := w.adapter.visible(""); len(got) != 1 || len(w.model.Requests()) != 1 {
						t.Errorf("visible %q after %d requests", got, len(w.model.Requests()))
					}
					if got := strings.Join(w.adapter.callbackAnswers, ""); got != "" {
						t.Errorf("their press is answered with %q", got)
					}
				})
			})
		}
	}
}

// No function of the gateway's packages makes an inbox entry but createEntry, which checks
// access, input.Repeat, which repeats what an authorized user asked for, and entryFor,
// which checks the creator of a scheduled prompt; and only Accept offers entries to the
// store.
func TestLevelsEntriesAreCreatedInKnownFuncs(t *testing.T) {
	makers, offers := map[string]bool{}, map[string]bool{}
	walkFuncs(t, ".", func(name string, n ast.Node) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == reflect.TypeFor[inbox.Entry]().Name() && len(n.Elts) > 0 {
				makers[name] = true
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Accept" {
				offers[name] = true
			}
		}
	})
	if got := slices.Sorted(maps.Keys(makers)); !slices.Equal(got, []string{"Decide", "Repeat", "entryFor"}) {
		t.Errorf("entries are created in %v; every sender must be checked", got)
	}
	if got := slices.Sorted(maps.Keys(offers)); !slices.Equal(got, []string{"Accept"}) {
		t.Errorf("entries are accepted in %v", got)
	}
}

// walkFuncs visits every node of every function in the packages under dir.
func walkFuncs(t *testing.T, dir string, visit func(name string, n ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				ast.Inspect(fn, func(n ast.Node) bool {
					visit(fn.Name.Name, n)
					return true
				})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever a platform delivers, a user cannot edit the message of another user.
func TestEditByAnotherSenderIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		hold := make(chan struct{})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "Yes.", Wait: hold} }
		w.configure = func(o *gatewaytest.Options) { o.Access, o.Mode = levelChecker(t), "queue" }
		w.start()
		defer w.stop()
		in := func(by, text string) chat.Inbound {
			m := w.newMessage(by, text)
			m.Address.Kind, m.Address.Chat, m.Address.Thread = chat.Thread, "-100", "5"
			return m
		}
		w.accept(in("7", "first"))
		waits := in("7", "the owner's words")
		w.accept(waits)
		w.advance(time.Second)
		edit := in("9", "the guest's words")
		edit.Kind, edit.EditedKey = chat.Edit, waits.IdempotencyKey
		w.accept(edit)
		close(hold)
		w.advance(time.Minute)
		if got := w.outcome(edit.IdempotencyKey); got != "silent(edit_too_late)" {
			t.Errorf("the edit ends as %s", got)
		}
		if got := w.transcript()[2].Text(); !strings.Contains(got, "the owner's words") {
			t.Errorf("the model reads %q", got)
		}
	})
}
