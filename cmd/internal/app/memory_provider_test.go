package app_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/agent/tool"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/brv"
	"hermesd/internal/sim/memory/hindsight"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/mem0"
	"hermesd/internal/sim/memory/openviking"
	"hermesd/internal/sim/memory/retaindb"
	"hermesd/internal/sim/memory/supermemory"
	"hermesd/internal/sim/telegram"
)

// soon is how long simulated providers take for what takes longer in reality.
const soon = time.Millisecond

// A memoryProvider is one of the memory providers with its server.
type memoryProvider struct {
	name   string
	server func() *memory.Server        // nil: it has none
	files  func(w *harness, url string) // writes its configuration
	config string                       // more of config.yaml; URL is replaced
	env    map[string]string            // URL is replaced
}

func allMemoryProviders() []memoryProvider {
	return []memoryProvider{
		{
			name: "honcho", server: func() *memory.Server { return honcho.New(honcho.Options{Derive: soon, Think: soon}).Server },
			files: func(w *harness, url string) {
				w.writeFile("honcho.json", `{"baseUrl":"`+url+`","apiKey":"key-of-honcho","recallSync":true}`)
			},
		},
		{
			name: "mem0", server: func() *memory.Server { return mem0.New(mem0.Options{Own: true, Extract: soon}).Server },
			files: func(w *harness, url string) {
				w.writeFile("mem0.json", `{"host":"`+url+`","api_key":"key-of-mem0","user_id":"the-owner"}`)
			},
		},
		{
			name: "hindsight", server: func() *memory.Server {
				return hindsight.New(hindsight.Options{Extract: soon, Consolidate: soon}).Server
			},
			files: func(w *harness, url string) {
				w.must(os.MkdirAll(w.path("hindsight"), 0o700))
				w.writeFile("hindsight/config.json", `{"mode":"local_external","api_url":"`+url+`","recall_sync":true}`)
			},
		},
		{
			name: "byterover",
			files: func(w *harness, _ string) {
				for _, e := range brv.Install(w.T).Environment() {
					name, value, _ := strings.Cut(e, "=")
					w.env[name] = value
				}
			},
		},
		{name: "holographic", config: "plugins:\n  hermes-memory-store:\n    auto_extract: true\n"},
		{
			name: "openviking", server: func() *memory.Server { return openviking.New(openviking.Options{Extract: soon}).Server },
			env: map[string]string{"OPENVIKING_URL": "URL"},
		},
		{
			name: "retaindb", server: func() *memory.Server { return retaindb.New(retaindb.Options{Visible: soon}).Server },
			env: map[string]string{"RETAINDB_API_KEY": "key-of-retaindb", "RETAINDB_BASE_URL": "URL"},
		},
		{
			name: "supermemory", server: func() *memory.Server { return supermemory.New(supermemory.Options{Process: soon}).Server },
			files: func(w *harness, url string) { w.writeFile("supermemory.json", `{"base_url":"`+url+`"}`) },
			env:   map[string]string{"SUPERMEMORY_API_KEY": "key-of-supermemory"},
		},
	}
}

// newProviderHarness returns a harness with a provider: Ann is an owner, Bob a member.
func newProviderHarness(t *testing.T, p memoryProvider, more string) (w *harness, bob *telegram.User, bobChat *telegram.Chat, server *memory.Server) {
	t.Helper()
	w = newFormatHarness(t, "", strings.NewReplacer(), llm.Options{Reply: func(r llm.Request) llm.Reply { return llm.Reply{Text: "done: " + r.Newest()} }})
	bob = w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	url := ""
	if p.server != nil {
		server = p.server()
		w.must(server.Start())
		t.Cleanup(server.Close)
		url = server.URL
	}
	w.env = map[string]string{}
	for name, value := range p.env {
		w.env[name] = strings.ReplaceAll(value, "URL", url)
	}
	if p.files != nil {
		p.files(w, url)
	}
	w.writeConfig(fmt.Sprintf("access:\n  owners: [$ANN]\n  allow_from: [\"%d\"]\nmemory:\n  provider: %s\n%s%s", bob.ID(), p.name, more, p.config), "")
	return w, bob, bob.Chat(w.bot), server
}

// recalls reports whether the newest request to the model has words in its recalled text.
func (w *harness) recalls(words string) bool {
	w.Helper()
	for _, m := range w.newestRequest().Messages {
		for _, b := range m.Blocks {
			if _, block, ok := strings.Cut(b.Text, "<memory-context>"); ok && strings.Contains(block, words) {
				return true
			}
		}
	}
	return false
}

// TestWhatIsSaidIsRecalledInALaterConversation says a fact in one conversation and asks
// for it in later ones, of the same person and of another one, with each provider.
func TestWhatIsSaidIsRecalledInALaterConversation(t *testing.T) {
	t.Parallel()
	for _, p := range allMemoryProviders() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w, bob, bobChat, _ := newProviderHarness(t, p, "  people: members\n  recall_wait: 5s\n")
			w.start()
			w.waitConnected()
			w.say("I prefer my bicycle Zephyr to walking.")
			w.waitText("done: I prefer my bicycle Zephyr to walking.")
			for try := 0; ; try++ {
				if try%2 == 0 { // some recall for the next message of a conversation
					w.say("/new")
				}
				ask := fmt.Sprintf("What do you know about my bicycle, try %d?", try)
				w.say(ask)
				w.waitText("done: " + ask)
				if w.recalls("Zephyr") {
					break
				}
				if w.ctx.Err() != nil {
					t.Fatalf("it is not recalled; the log: %v", w.log.lines())
				}
				time.Sleep(50 * time.Millisecond)
			}
			if n := w.checkToolset(); n == 0 {
				t.Error("the provider has no tools")
			}
			for range 2 {
				bobChat.Say(bob, "What do you know about my bicycle Zephyr?")
				w.waitTextIn(bobChat, "done: What do you know about my bicycle Zephyr?")
				if w.recalls("prefer") {
					t.Error("another person's memory is recalled")
				}
			}
			w.stop()
			for _, r := range w.model.Requests() {
				if strings.Contains(r.System, "<memory-context>") || strings.Contains(r.System, "Zephyr") && !strings.Contains(r.System, "bicycle") {
					t.Error("recalled text is in the cached prompt")
				}
			}
			w.checkKeyIsMasked(p.name)
		})
	}
}

// checkKeyIsMasked sends the key of a provider as a message: neither the log nor the
// model may get it.
func (w *harness) checkKeyIsMasked(name string) {
	w.Helper()
	if name == "holographic" || name == "openviking" || name == "hindsight" || name == "byterover" { // without a key here
		return
	}
	w.start()
	w.waitConnected()
	w.say("my key is key-of-" + name + ", keep it")
	w.waitText("done: my key is")
	for _, r := range w.model.Requests() {
		if strings.Contains(string(r.Body), "key-of-"+name) {
			w.Error("the key of the provider is in a request to the model")
		}
	}
	w.stop()
	if n := w.countLogs("key-of-" + name); n > 0 {
		w.Errorf("the key is in %d lines of the log", n)
	}
}

// checkToolset checks that tools of the newest request that are not built in are in the
// toolset memory, and returns their number.
func (w *harness) checkToolset() (n int) {
	w.Helper()
	for _, t := range w.newestRequest().Tools {
		if _, ok := access.ToolLevels()[t.Name]; ok {
			continue
		}
		if n++; !slices.Contains(tool.Toolsets()["memory"], t.Name) {
			w.Errorf("%s is not in the toolset memory", t.Name)
		}
	}
	return n
}

// TestTheStartDoesWithoutAnImpossibleProvider: it is in the log, in the status, and once
// in the owner's chat.
func TestTheStartDoesWithoutAnImpossibleProvider(t *testing.T) {
	t.Parallel()
	w, _, _, _ := newProviderHarness(t, memoryProvider{name: "mem0", files: func(w *harness, _ string) { w.writeFile("mem0.json", `{"mode":"oss"}`) }}, "")
	w.start()
	w.waitConnected()
	for _, text := range []string{"hello one", "hello two"} {
		w.say(text)
		w.waitText("done: " + text)
	}
	told := 0
	for _, m := range w.chat.FromBots() {
		if strings.Contains(m.Text, "mode oss runs only inside Python") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the owner is told %d times", told)
	}
	w.say("/memory")
	w.waitText("External memory")
	w.stop()
	if w.countLogs("mode oss runs only inside Python") == 0 {
		t.Error("it is not in the log")
	}
}

// TestToolUsesAreToldWhereTheyAreWanted: OpenViking gets the calls of tools of a turn with
// their results, if the configuration says so.
func TestToolUsesAreToldWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	for _, p := range allMemoryProviders() {
		if p.name != "openviking" && p.name != "mem0" {
			continue
		}
		for _, more := range []string{"", "  sync_tools: true\n"} {
			t.Run(p.name+more, func(t *testing.T) {
				t.Parallel()
				w, _, _, server := newProviderHarness(t, p, more)
				w.replaceModel(w.modelReply)
				w.start()
				w.waitConnected()
				args := `{"action":"add","target":"memory","content":"The bicycle is blue."}`
				w.say(use("memory", args))
				w.waitEndedWith(args)
				var body string
				w.waitFor("the turn is told", func() bool {
					for _, c := range server.Calls() {
						if (strings.HasSuffix(c.Path, "/messages/batch") || strings.HasSuffix(c.Path, "/memories")) && strings.Contains(string(c.Body), `"assistant"`) {
							body = string(c.Body)
						}
					}
					return body != ""
				})
				want := more != "" && p.name == "openviking"
				if got := strings.Contains(body, `"tool_name":"memory","tool_input":`+args) && strings.Contains(body, `"tool_status":"completed"`) && strings.Contains(body, `"tool_output":"`); got != want || strings.Contains(body, "tool_") != want {
					t.Errorf("told: %s", body)
				}
				w.stop()
			})
		}
	}
}

// TestHonchoReadsItsSectionLast: address and time limit of config.yaml count where
// nothing else has them, under both names of upstream.
func TestHonchoReadsItsSectionLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ section, variable, place string }{
		{"{base_url: 'http://section:1'}", "", "http://section:1"},
		{"{base_url: 'http://section:1', request_timeout: 7.5}", "http://variable:1", "http://variable:1"},
		{"{}", "", "https://api.honcho.dev"},
	} {
		w := newHarness(t, fault{})
		w.writeConfig("memory:\n  provider: honcho\nhoncho: "+c.section, "")
		cfg, report, err := config.Load(config.Options{Home: w.home, Env: func(name string) (string, bool) {
			value := map[string]string{"HONCHO_API_KEY": "a-key", "HONCHO_BASE_URL": c.variable, "HOME": w.home}[name]
			return value, value != ""
		}})
		w.must(err)
		if len(report.Warnings) > 0 || strings.Contains(c.section, "7.5") && cfg.Honcho.Timeout != 7.5 {
			t.Errorf("%s: %v, %+v", c.section, report.Warnings, cfg.Honcho)
		}
		p, _, err := app.OpenMemoryProvider("honcho", cfg, report, w.home, nil)
		w.must(err)
		if got := p.About().Place; got != c.place {
			t.Errorf("%s: %s", c.section, got)
		}
		w.must(p.Close())
	}
}
