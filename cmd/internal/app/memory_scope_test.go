package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// A memoryHarness is a harness with an owner, a member, a guest and a group of all three,
// who share its session. Everyone makes the agent store a memory.
type memoryHarness struct {
	*harness
	speakers map[string]*telegram.Chat
	people   map[string]*telegram.User
}

func newMemoryHarness(t *testing.T, scope string) memoryHarness {
	t.Helper()
	keeper := func(r llm.Request) llm.Reply {
		_, who, _ := strings.Cut(r.Newest(), "keep ")
		if len(r.Results()) > 0 {
			return llm.Reply{Text: "done: " + who}
		}
		return llm.Reply{Calls: []llm.Call{{Name: "memory", Args: fmt.Sprintf(`{"action":"add","content":"kept by %s"}`, who)}}}
	}
	w := newFormatHarness(t, "", strings.NewReplacer(), llm.Options{Reply: keeper})
	bob, eve := w.tg.AddUser(telegram.Person{FirstName: "Bob"}), w.tg.AddUser(telegram.Person{FirstName: "Eve"})
	w.writeConfig(fmt.Sprintf("access:\n  owners: [$ANN]\n  allow_from: [\"%d\"]\ngroup_sessions_per_user: false\nmemory:\n  scope: %s", bob.ID(), scope), "allow_all: true\n")
	group := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann, bob, eve}, Admins: []*telegram.Bot{w.bot}})
	return memoryHarness{
		w,
		map[string]*telegram.Chat{"ann": w.chat, "bob": bob.Chat(w.bot), "eve": eve.Chat(w.bot), "group": group},
		map[string]*telegram.User{"ann": w.ann, "bob": bob, "eve": eve, "group": w.ann},
	}
}

// TestMemoriesStayOutOfOtherUsersRequests searches every request for the content of
// memories, and checks whose memories are stored.
func TestMemoriesStayOutOfOtherUsersRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope string
		reads map[string]string // by sender: the folder whose memories the requests contain
		keeps map[string]string // by sender: the folder in which memories are stored; other senders are denied
	}{
		{"home", map[string]string{"ann": "."}, map[string]string{"ann": "."}},
		{"platform", map[string]string{"ann": "telegram"}, map[string]string{"ann": "telegram"}},
		{"user", map[string]string{"ann": "telegram/ann", "bob": "telegram/bob"}, map[string]string{"ann": "telegram/ann", "bob": "telegram/bob", "eve": "telegram/eve"}},
	} {
		t.Run(c.scope, func(t *testing.T) {
			t.Parallel()
			w := newMemoryHarness(t, c.scope)
			at := func(place string) string {
				for who, u := range w.people {
					place = strings.Replace(place, "/"+who, fmt.Sprint("/", u.ID()), 1)
				}
				return w.path("memories/" + place)
			}
			places := []string{".", "telegram", "telegram/ann", "telegram/bob"}
			for _, p := range places {
				w.must(os.MkdirAll(at(p), 0o700))
				for _, f := range []string{"MEMORY.md", "USER.md"} {
					w.must(os.WriteFile(filepath.Join(at(p), f), []byte("canary <"+p+"> in "+f), 0o600))
				}
			}
			w.start()
			w.waitConnected()
			for _, who := range []string{"ann", "bob", "eve", "group"} {
				w.speakers[who].Say(w.people[who], "keep "+who)
				w.waitTextIn(w.speakers[who], "done: "+who)
			}
			w.stop()
			w.checkCanaries(places, c.reads)
			for _, r := range w.model.Requests() {
				_, who, _ := strings.Cut(r.Newest(), "keep ")
				if got := r.Results(); len(got) > 0 && strings.HasPrefix(got[0].Text, "Not run: there is no tool") == (c.keeps[who] != "") {
					t.Errorf("%s is told %q", who, got[0].Text)
				}
			}
			kept := map[string]string{}
			for who := range w.people {
				for _, p := range append(places, "telegram/eve") {
					if raw, _ := os.ReadFile(filepath.Join(at(p), "MEMORY.md")); strings.Contains(string(raw), "kept by "+who) {
						kept[who] += p
					}
				}
			}
			if fmt.Sprint(kept) != fmt.Sprint(c.keeps) {
				t.Errorf("kept at %v, not at %v", kept, c.keeps)
			}
		})
	}
}

// checkCanaries reports memories in requests that must not contain them, and those
// missing from requests that must.
func (w memoryHarness) checkCanaries(places []string, reads map[string]string) {
	w.Helper()
	rs := w.model.Requests()
	if len(rs) != 8 {
		w.Errorf("%d requests", len(rs))
	}
	for n, r := range rs {
		_, who, _ := strings.Cut(r.Newest(), "keep ")
		for _, p := range places {
			for _, f := range []string{"MEMORY.md", "USER.md"} {
				mine := reads[who] == p
				if has := strings.Contains(r.System, "canary <"+p+"> in "+f); has != mine {
					w.Errorf("request %d of %s: %s of %q is there: %t", n, who, f, p, has)
				}
			}
		}
		for _, m := range r.Messages {
			for _, b := range m.Blocks {
				if reads[who] == "" && strings.Contains(b.Text, "canary") {
					w.Errorf("request %d of %s: a tool tells %q", n, who, b.Text)
				}
			}
		}
	}
}
