package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/telegram"
)

// A whoHarness is a harness with Honcho, an owner, a member, a guest and a group of all
// three, who share its session.
type whoHarness struct {
	*harness
	server *honcho.Server
	chats  map[string]*telegram.Chat
	people map[string]*telegram.User
}

// newWhoHarness returns a harness with settings of the section memory.
func newWhoHarness(t *testing.T, settings string) whoHarness {
	t.Helper()
	w := newFormatHarness(t, "", strings.NewReplacer(), llm.Options{})
	s := honcho.New(honcho.Options{Derive: soon, Think: soon})
	w.must(s.Start())
	t.Cleanup(s.Close)
	w.writeFile("honcho.json", `{"baseUrl":"`+s.URL+`","apiKey":"a-key","recallSync":true}`)
	bob, eve := w.tg.AddUser(telegram.Person{FirstName: "Bob"}), w.tg.AddUser(telegram.Person{FirstName: "Eve"})
	w.writeConfig(fmt.Sprintf("access:\n  owners: [$ANN]\n  allow_from: [\"%d\"]\ngroup_sessions_per_user: false\nmemory:\n  provider: honcho\n  recall_wait: 5s\n%s", bob.ID(), settings), "allow_all: true\n")
	group := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann, bob, eve}, Admins: []*telegram.Bot{w.bot}})
	return whoHarness{
		w, s,
		map[string]*telegram.Chat{"ann": w.chat, "bob": bob.Chat(w.bot), "eve": eve.Chat(w.bot), "group": group},
		map[string]*telegram.User{"ann": w.ann, "bob": bob, "eve": eve, "group": w.ann},
	}
}

func (w whoHarness) turn(who, text string) {
	w.Helper()
	w.chats[who].Say(w.people[who], text)
	w.waitTextIn(w.chats[who], text)
	w.waitFor("an answer to "+text, func() bool {
		return slices.ContainsFunc(w.chats[who].FromBots(), func(m telegram.Message) bool {
			return strings.Contains(m.Text, "echo: ") && strings.Contains(m.Text, text)
		})
	})
	w.waitEnded()
}

// told reports whether a call to Honcho contains words.
func (w whoHarness) told(words string) bool {
	for _, c := range w.server.Calls() {
		if strings.Contains(string(c.Body)+c.Path+c.Query.Encode(), words) {
			return true
		}
	}
	return false
}

// TestWhoseWordsAreRememberedAndRecalled searches all that Honcho was sent, and all that
// the model was sent, for what each person has said.
func TestWhoseWordsAreRememberedAndRecalled(t *testing.T) {
	t.Parallel()
	everyone := []string{"ann", "bob", "eve", "group"}
	for _, c := range []struct {
		settings string
		used     []string // whose memory is used
	}{
		{"", []string{"ann"}},
		{"  people: members\n", []string{"ann", "bob"}},
		{"  people: everyone\n", []string{"ann", "bob", "eve"}},
		{"  rooms: true\n", []string{"ann", "group"}},
	} {
		t.Run(c.settings, func(t *testing.T) {
			t.Parallel()
			w := newWhoHarness(t, c.settings)
			w.start()
			w.waitConnected()
			for _, who := range everyone {
				w.turn(who, who+" says: the bicycle is the canary-"+who)
			}
			for _, who := range everyone {
				for try := 0; ; try++ {
					w.turn(who, fmt.Sprintf("%s asks: what do you know of the bicycle, try %d", who, try))
					if !slices.Contains(c.used, who) || w.recalls("canary-"+who) {
						break
					}
					if w.ctx.Err() != nil {
						w.fatal("what " + who + " says is not recalled")
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			w.stop()
			for _, who := range everyone {
				if used, told := slices.Contains(c.used, who), w.told("canary-"+who); used != told {
					t.Errorf("%s: Honcho was told: %v, want %v", who, told, used)
				}
			}
			for n, r := range w.model.Requests() {
				i := slices.IndexFunc(everyone, func(who string) bool {
					return strings.Contains(r.Newest(), who+" says") || strings.Contains(r.Newest(), who+" asks")
				})
				if i < 0 {
					continue // for a title
				}
				text := requestText(r.Request)
				if !slices.Contains(c.used, everyone[i]) && (strings.Contains(text, "<memory-context>") || strings.Contains(text, "# Honcho memory")) {
					t.Errorf("request %d of %s has recalled text", n, everyone[i])
				}
				for _, other := range everyone {
					if other != everyone[i] && strings.Contains(text, "canary-"+other) {
						t.Errorf("request %d of %s has words of %s", n, everyone[i], other)
					}
				}
			}
		})
	}
}

// TestAMemberBecomesAnOwner: what a member has said stays under their identity of then, and
// the owner is told so without a restart.
func TestAMemberBecomesAnOwner(t *testing.T) {
	t.Parallel()
	w := newWhoHarness(t, "  people: members\n")
	w.start()
	w.waitConnected()
	bob := fmt.Sprint(w.people["bob"].ID())
	w.turn("bob", "the bicycle is the canary-bob")
	w.waitFor("it is stored", func() bool { return w.told("canary-bob") && len(w.queue()) == 0 })
	earlier := func() []string { return w.app.Pipeline().Control().Status().Memory.Earlier }
	if got := earlier(); len(got) != 0 {
		t.Errorf("of a member: %q", got)
	}
	w.writeFile("config.yaml", strings.Replace(w.readFile("config.yaml"), "owners: [", "owners: ["+bob+", ", 1))
	if s := w.app.Reload(t.Context()); !slices.Contains(s.Applied, "access.owners") {
		t.Errorf("%+v", s)
	}
	if got := earlier(); !slices.Equal(got, []string{"telegram-" + bob}) {
		t.Errorf("of an owner: %q", got)
	}
	w.say("/memory")
	w.waitText("what owners said before they were owners: telegram-" + bob + "; hermesd memory forget --person NAME deletes it there")
	w.waitEnded()
}

// requestText returns all texts of a request.
func requestText(r llm.Request) string {
	text := r.System
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			text += "\n" + b.Text
		}
	}
	return text
}

// TestScheduledPromptsAndSubAgentsUseNoMemory: scheduled prompts of an owner recall if they
// are allowed to; sub-agents never do.
func TestScheduledPromptsAndSubAgentsUseNoMemory(t *testing.T) {
	t.Parallel()
	for _, recall := range []bool{false, true} {
		t.Run(fmt.Sprint("cron_recall ", recall), func(t *testing.T) {
			t.Parallel()
			w := newWhoHarness(t, fmt.Sprintf("  cron_recall: %v\n", recall))
			w.start()
			w.waitConnected()
			w.turn("ann", "the bicycle is the canary-ann")
			w.waitFor("it is stored", func() bool { return w.told("canary-ann") })
			w.say(use("cronjob", `{"action":"create","schedule":"every 5h","prompt":"tell of the bicycle","name":"news"}`))
			w.waitText("result: Created.")
			w.say(use("delegate_task", `{"goal":"find the bicycle"}`))
			w.waitText("completed (")
			w.waitEnded()
			w.say("/cron run news")
			w.waitText("echo: tell of the bicycle")
			w.waitEnded()
			w.waitFor("nothing waits", func() bool { return len(w.queue()) == 0 })
			w.stop()
			if w.told("echo: tell of the bicycle") || w.told(`"content":"tell of the bicycle`) {
				t.Error("Honcho was told of a scheduled prompt")
			}
			if w.told(`"content":"Task: find the bicycle`) {
				t.Error("Honcho was told of a sub-agent's task")
			}
			runs, children := 0, 0
			for _, r := range w.model.Requests() {
				text := requestText(r.Request)
				switch has := strings.Contains(text, "canary-ann"); {
				case strings.Contains(r.Newest(), "Task: find the bicycle"):
					children++
					if has || strings.Contains(text, "<memory-context>") || strings.Contains(text, "# Honcho memory") {
						t.Errorf("a sub-agent recalls:\n%s", text)
					}
					for _, tool := range r.Tools {
						if strings.HasPrefix(tool.Name, "honcho_") || tool.Name == "memory_recall" {
							t.Errorf("a sub-agent may use %s", tool.Name)
						}
					}
				case strings.HasSuffix(strings.TrimSpace(r.Newest()), "tell of the bicycle"):
					runs++
					if has != recall {
						t.Errorf("a scheduled prompt recalls: %v", has)
					}
				}
			}
			if runs == 0 || children == 0 {
				t.Errorf("%d requests of the scheduled prompt, %d of the sub-agent", runs, children)
			}
		})
	}
}
