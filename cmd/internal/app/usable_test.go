package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
)

// TestTheStartDoesWithoutWhatCannotBeUsed: the start says it once and goes on, and
// config check and doctor say the same.
func TestTheStartDoesWithoutWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		put    map[string]string // files in the home; a name that ends in / is a directory
		want   string            // "" if nothing is wrong
	}{
		"an unknown engine":          {"context:\n  engine: zipper\n", nil, `context.engine: there is no context engine "zipper"; known are compressor, lcm: the engine compressor is used`},
		"a path":                     {"context:\n  engine: ../../up\n", nil, "there is no context engine"},
		"an engine without manifest": {"context:\n  engine: mine\n", map[string]string{"plugins/context_engine/mine/": ""}, "is not a context engine: there is no plugin.yaml"},
		"an engine without program":  {"context:\n  engine: mine\n", map[string]string{"plugins/context_engine/mine/plugin.yaml": "name: mine\ncommand: [./run.sh]\n"}, "the context engine cannot run"},
		"an engine that is no program": {"context:\n  engine: mine\n",
			map[string]string{"plugins/context_engine/mine/plugin.yaml": "name: mine\ncommand: [./run.sh]\n", "plugins/context_engine/mine/run.sh": "x"}, "the context engine cannot run"},
		"an engine that is there": {"context:\n  engine: mine\n",
			map[string]string{"plugins/context_engine/mine/plugin.yaml": "name: mine\ncommand: [sh, run.sh]\n", "plugins/context_engine/mine/run.sh": shelf}, ""},
		"lcm":                            {"context:\n  engine: lcm\n", nil, ""},
		"no prefill file":                {"agent:\n  prefill_messages_file: none.json\n", nil, "agent.prefill_messages_file: prefill messages: "},
		"a broken prefill file":          {"agent:\n  prefill_messages_file: p.json\n", map[string]string{"p.json": "[{"}, "no messages are sent ahead of conversations"},
		"a prefill file":                 {"agent:\n  prefill_messages_file: p.json\n", map[string]string{"p.json": `[{"role":"system","content":"x"}]`}, ""},
		"a file as a workspace":          {"terminal:\n  cwd: f/sub\n", map[string]string{"f": "x"}, "tools work in "},
		"a workspace in a file":          {"terminal:\n  cwd: f\n", map[string]string{"f": "x"}, "is not a directory"},
		"a workspace to be made":         {"terminal:\n  cwd: a/b/c\n", nil, ""},
		"a search with a password":       {"web:\n  search:\n    provider: searxng\n    base_url: http://me:pass@127.0.0.1:1\n", nil, "the agent cannot search the web"},
		"speech without a model":         {"stt:\n  base_url: http://127.0.0.1:1/v1\n  model: ''\n", nil, "voice messages are not written down"},
		"speech without a voice":         {"tts:\n  voice: ''\n  base_url: http://127.0.0.1:1/v1\n", nil, "there is no /voice"},
		"speech that is off":             {"stt:\n  enabled: false\n  base_url: http://127.0.0.1:1/v1\n  model: ''\n", nil, ""},
		"a broken models.json":           {"", map[string]string{"models.json": "{"}, "models.json: decode model table: unexpected EOF: the file is ignored"},
		"a models.json with other keys":  {"", map[string]string{"models.json": `{"contexts":{}}`}, "the file is ignored"},
		"a models.json that is a folder": {"", map[string]string{"models.json/": ""}, "the file is ignored"},
		"a models.json":                  {"", map[string]string{"models.json": `{"context":{"m":9000}}`}, ""},
		"tools for OpenViking only":      {"memory:\n  provider: holographic\n  sync_tools: true\n", nil, "memory.sync_tools: Holographic has no use for calls of tools: they are not sent"},
		"a memory inside Python":         {"memory:\n  provider: mem0\n", map[string]string{"mem0.json": `{"mode":"oss"}`}, "memory.provider: this mode cannot be used here: Mem0 mode oss runs only inside Python: start its server and set host, or set mode platform. Nothing was deleted"},
		"a memory without its key":       {"memory:\n  provider: retaindb\n", nil, "RETAINDB_API_KEY is missing"},
		"a memory with a broken file":    {"memory:\n  provider: honcho\n", map[string]string{"honcho.json": "{"}, "is not a JSON object"},
		"a memory":                       {"memory:\n  provider: holographic\n", nil, ""},
		"enforcement":                    {"agent:\n  tool_use_enforcement: [auto, gpt]\n", nil, "auto is used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && strings.Contains(name, "program") {
				t.Skip("modes of files")
			}
			w := newHarness(t, fault{})
			w.writeConfig(c.config, "")
			for file, text := range c.put {
				if strings.HasSuffix(file, "/") {
					w.must(os.MkdirAll(w.path(file), 0o700))
					continue
				}
				w.must(os.MkdirAll(filepath.Dir(w.path(file)), 0o700))
				w.writeFile(file, text)
			}
			cfg, report, err := config.Load(config.Options{Home: w.home, Env: func(string) (string, bool) { return "", false }})
			w.must(err)
			_, problems := app.Usable(cfg, report, w.home)
			var text string
			for _, p := range problems {
				text += p.String() + "\n"
				if p.File == "" || p.Line == 0 && filepath.Base(p.File) != "models.json" {
					t.Errorf("no place: %+v", p)
				}
			}
			if strings.Contains(text, c.want) == (c.want == "" && text != "") || strings.Count(text, "\n") > 1 {
				t.Errorf("said: %q, want %q", text, c.want)
			}
			w.start()
			w.waitConnected()
			w.askEcho("hello")
			said := 0
			for _, l := range w.log.lines() {
				if len(problems) > 0 && strings.Contains(l.text, problems[0].Text) {
					said++
				}
			}
			if said != len(problems) {
				t.Errorf("the start says it %d times", said)
			}
		})
	}
}

// TestAccountsThatStayDownAreNamed: what keeps the start from building an adapter is also
// said without a start.
func TestAccountsThatStayDownAreNamed(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.writeFile("config.yaml", `model: {provider: demo}
platforms:
  telegram:
    token: nonsense
  discord:
    token: a.b.c
    allow_mentions: [here]
    accounts:
      good: {token: a.b.c}
      bad:
        token: a.b.c
        allowed_chats: [general]
`)
	cfg, report, err := config.Load(config.Options{Home: w.home, Env: func(string) (string, bool) { return "", false }})
	w.must(err)
	var got []string
	for _, p := range app.Down(cfg, report) {
		got = append(got, fmt.Sprint(p.Line, " ", p.Key, ": ", p.Text))
	}
	want := []string{
		`7 platforms.discord.allow_mentions: "here" is none of everyone, roles, nobody and no_reply: the platform stays down`,
		`9 platforms.discord.accounts.good: allow_mentions: "here"`,
		`12 platforms.discord.accounts.bad.allowed_chats: "general" is not a channel id`,
		`4 platforms.telegram.token: this is not a bot token`,
	}
	if len(got) != 4 {
		t.Errorf("%d problems: %s", len(got), strings.Join(got, "\n"))
	}
	for _, text := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, text) }) {
			t.Errorf("not said: %s\n%s", text, strings.Join(got, "\n"))
		}
	}
}
