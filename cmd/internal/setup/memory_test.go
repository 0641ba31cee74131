package setup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/memory/provider"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/hindsight"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/mem0"
	"hermesd/internal/sim/memory/openviking"
	"hermesd/internal/sim/memory/retaindb"
	"hermesd/internal/sim/memory/supermemory"
)

const memoryKey = "key-of-the-memory"

// startMemory returns the URL of a simulated provider.
func startMemory(t *testing.T, s *memory.Server) string {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.URL
}

// interviewMemory runs an interview about the external memory and writes its plan.
func (p *harness) interviewMemory(who *scriptedAsker) error {
	p.t.Helper()
	plan, err := setup.InterviewMemory(p.t.Context(), p.loadState(), who)
	if err != nil || plan == nil {
		return err
	}
	return plan.Write()
}

// A keepingAsker keeps the questions as they were asked.
type keepingAsker struct {
	*scriptedAsker
	fields map[string]setup.Field
}

func (k keepingAsker) Ask(ctx context.Context, page setup.Page) error {
	for _, f := range page.Fields {
		k.fields[f.Title] = *f
	}
	return k.scriptedAsker.Ask(ctx, page)
}

// TestInterviewAsksForOwners: on each platform that is configured, with those that there are.
// Only what differs is written, and nobody who is an owner stops being one unless that is said.
func TestInterviewAsksForOwners(t *testing.T) {
	const telegram, discord = "Owners on Telegram", "Owners on Discord"
	const tokens = "model: {provider: demo}\nplatforms:\n  telegram:\n    token: " + botToken + "\n"
	const both = tokens + "    allow_admin_from: [\"42\"]\n  discord:\n    token: " + discordToken + "\n"
	for name, c := range map[string]struct {
		yaml, env string
		answers   map[string][]string
		now       map[string]string // the default of each question
		want      string            // what is added to yaml, without the memory
		told      string
	}{
		"as they are": {both, "", nil, map[string]string{telegram: "42", discord: ""}, "", "Owners: Telegram 42."},
		"one more platform": {
			both, "", map[string][]string{discord: {"112233445566778899"}}, map[string]string{telegram: "42", discord: ""},
			"    allow_admin_from: [\"112233445566778899\"]\n", "Owners: Telegram 42, Discord 112233445566778899. To this provider they are one person.",
		},
		"in the other order":   {both + "    allow_admin_from: [8, 7]\n", "", map[string][]string{discord: {"8, 7"}}, map[string]string{telegram: "42", discord: "7, 8"}, "", "Discord 8, Discord 7."},
		"no platform":          {"model: {provider: demo}\n", "", nil, map[string]string{}, "", "No owner is configured yet."},
		"one that is off":      {both + "    enabled: false\n", "", nil, map[string]string{telegram: "42"}, "", ""},
		"of access.owners":     {tokens + "access:\n  owners: [\"telegram:42\"]\n", "", nil, map[string]string{telegram: "42"}, "", "Owners: telegram:42."},
		"the only user":        {tokens, "TELEGRAM_ALLOWED_USERS=42\n", nil, map[string]string{telegram: "42"}, "", "Owners: 42."},
		"the only user stays":  {tokens, "TELEGRAM_ALLOWED_USERS=42\n", map[string][]string{telegram: {"42 43"}}, map[string]string{telegram: "42"}, "    allow_admin_from: [\"42\", \"43\"]\n", "Owners: Telegram 42, Telegram 43."},
		"an account of a name": {"model: {provider: demo}\nplatforms:\n  telegram:\n    accounts:\n      work: {token: \"" + botToken + "\", allow_admin_from: [42]}\n", "", nil, map[string]string{telegram: "42"}, "", ""},
		"with one more owner":  {"model: {provider: demo}\nplatforms:\n  telegram:\n    enabled: true\n    accounts: {work: {token: \"" + botToken + "\", allow_admin_from: [42]}}\n", "", map[string][]string{telegram: {"42, 43"}}, map[string]string{telegram: "42"}, "    allow_admin_from: [\"42\", \"43\"]\n", "Owners: Telegram 42, Telegram 43."},
	} {
		t.Run(name, func(t *testing.T) {
			p := homeWith(t, c.yaml, c.env)
			who := keepingAsker{&scriptedAsker{t: t, answers: c.answers}, map[string]setup.Field{}}
			plan, err := setup.InterviewMemory(t.Context(), p.loadState(), who)
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Write(); err != nil {
				t.Fatal(err)
			}
			now := map[string]string{}
			for _, title := range []string{telegram, discord, "Owners on Slack"} {
				if f, ok := who.fields[title]; ok {
					now[title] = f.Value
					if f.Check("@ann") == nil || f.Check("*") == nil || (f.Check("") == nil) != (f.Value == "") {
						t.Errorf("%s: a name, everybody or nobody can be the owner", title)
					}
				}
			}
			if text := plan.Text(); strings.Contains(text, "enabled") {
				t.Errorf("the plan is\n%s", text)
			}
			if d := cmp.Diff(c.now, now); d != "" {
				t.Error("questions differ (-want +got):\n" + d)
			}
			if d := cmp.Diff(c.yaml+c.want+"memory:\n  provider: holographic\n", p.text("config.yaml")); d != "" {
				t.Error("config.yaml differs (-want +got):\n" + d)
			}
			if !who.wasTold(c.told) {
				t.Errorf("heard\n%s", strings.Join(who.heard, "\n"))
			}
		})
	}
}

// TestInterviewAsksForOwnersOnce: who has named the owner of a platform is not asked again.
func TestInterviewAsksForOwnersOnce(t *testing.T) {
	p := homeWith(t, "model: {provider: demo}\nplatforms:\n  telegram:\n    token: "+botToken+"\n", "")
	who := &scriptedAsker{t: t, answers: map[string][]string{
		"Which parts do you want to set up or change?": {"telegram, memory"}, "Who is the owner?": {"42"}, "Try it now?": {"go"}, "External memory (optional)": {"holographic"},
	}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if c, _ := p.load(); slices.Contains(who.asked, "Owners on Telegram") || !slices.Equal(c.Platforms.Telegram.AllowAdminFrom, []string{"42"}) || !who.wasTold("Owners: Telegram 42.") {
		t.Errorf("asked %q, owners %q", who.asked, c.Platforms.Telegram.AllowAdminFrom)
	}
}

// TestMemoryFlagsNameOwners: for a recall they are already those who are tried.
func TestMemoryFlagsNameOwners(t *testing.T) {
	s := mem0.New(mem0.Options{Own: true, Keys: []string{memoryKey}})
	url := startMemory(t, s.Server)
	p := homeWith(t, "model: {provider: demo}\nplatforms:\n  telegram:\n    token: "+botToken+"\n", "TELEGRAM_ALLOWED_USERS=42\n")
	owners := func(p chat.Platform, ids ...string) map[chat.Platform]*[]string {
		return map[chat.Platform]*[]string{p: &ids}
	}
	for want, ids := range map[string]map[chat.Platform]*[]string{
		"flag: --telegram-owner: \"ann\" is a user name, which can change hands: use the numeric id; the log and `hermesd why` show it when that person writes to the bot\n": owners(chat.Telegram, "42", "ann"),
		"flag: --discord-owner: Discord is not configured: `hermesd setup` does that\n":                                                                                      owners(chat.Discord, "7"),
	} {
		_, err := p.loadState().FromMemoryFlags(setup.MemoryFlags{Memory: setup.Memory{Provider: "mem0", URL: &url}, OwnerIDs: ids})
		if d := cmp.Diff(want, problems(t, err)); d != "" {
			t.Error("problems differ (-want +got):\n" + d)
		}
	}
	m, err := p.loadState().FromMemoryFlags(setup.MemoryFlags{Memory: setup.Memory{Provider: "mem0", URL: &url}, KeyFile: *p.file("k", memoryKey), OwnerIDs: owners(chat.Telegram, "43,42")})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.loadState().TryMemory(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	calls := s.Calls()
	if last := string(calls[len(calls)-1].Body); !strings.Contains(last, `"43"`) {
		t.Errorf("the recall is %s", last)
	}
	plan := p.write(setup.Answers{Memory: &m})
	if c, _ := p.load(); !slices.Equal(c.Platforms.Telegram.AllowAdminFrom, []string{"43", "42"}) || !strings.Contains(plan.Text(), "platforms.telegram.allow_admin_from: 43, 42") {
		t.Errorf("%q, %s", c.Platforms.Telegram.AllowAdminFrom, plan.Text())
	}
}

// TestInterviewSetsMemory: a wrong key is corrected; a setup that is aborted changes nothing.
func TestInterviewSetsMemory(t *testing.T) {
	s := openviking.New(openviking.Options{Keys: []string{memoryKey}, UserKeys: true})
	url := startMemory(t, s.Server)
	const yaml = "model: {provider: demo}\n# of us\nmemory:\n  scope: home # one\nplatforms:\n  telegram:\n    token: 1:old-token\n    allow_admin_from: [\"42\"]\n"
	for page := 1; ; page++ {
		p := homeWith(t, yaml, "OTHER=1\n")
		who := &scriptedAsker{t: t, quitsAt: page, answers: map[string][]string{
			"External memory (optional)":                          {"openviking"},
			"Address of the memory's server":                      {url + "/"},
			"Key of the memory":                                   {"another-key", memoryKey},
			"It did not work.":                                    {"correct"},
			"Whose words does it get?":                            {"members", "members"},
			"Does it get the entries of the built-in memory too?": {"no", "no"},
		}}
		err := p.interviewMemory(who)
		if who.wasTold(memoryKey) || who.wasTold("another-key") {
			t.Error("a key was told")
		}
		if err != nil {
			if left, _ := os.ReadDir(p.home); !errors.Is(err, setup.ErrAborted) || p.text("config.yaml") != yaml || p.text(".env") != "OTHER=1\n" || len(left) != 2 {
				t.Fatalf("quit at page %d: %v, %v", page, err, left)
			}
			continue
		}
		if page < 5 || !who.wasTold("✗ ") || !who.wasTold("✓ It answers ("+url) || !who.wasTold("a recall takes") || !who.wasTold("Owners: Telegram 42. To this provider they are one person.") {
			t.Errorf("after %d pages heard\n%s", page, strings.Join(who.heard, "\n"))
		}
		want := strings.Replace(yaml, "one\n", "one\n  provider: openviking\n  people: members\n  mirror: false\n", 1)
		if d := cmp.Diff(want, p.text("config.yaml")); d != "" {
			t.Error("config.yaml differs (-want +got):\n" + d)
		}
		if d := cmp.Diff("OTHER=1\nOPENVIKING_URL="+url+"\nOPENVIKING_API_KEY="+memoryKey+"\n", p.text(".env")); d != "" {
			t.Error(".env differs (-want +got):\n" + d)
		}
		break
	}
}

// TestInterviewRecommendsHolographic: it needs no answer, and its file is not made before
// anything is written. Then it can be taken out again.
func TestInterviewRecommendsHolographic(t *testing.T) {
	p := homeWith(t, "model: {provider: demo}\n", "")
	who := &scriptedAsker{t: t, answers: map[string][]string{"Does it store what messages state?": {"yes"}, "Write this?": {"quit"}}}
	if err := p.interviewMemory(who); !errors.Is(err, setup.ErrAborted) || p.text("memory_store.db") != "-" || !who.wasTold("✓ It answers ("+filepath.Join(p.home, "memory_store.db")) {
		t.Fatalf("%v, heard\n%s", err, strings.Join(who.heard, "\n"))
	}
	who = &scriptedAsker{t: t, answers: map[string][]string{"Does it store what messages state?": {"yes"}}}
	if err := p.interviewMemory(who); err != nil {
		t.Fatal(err)
	}
	c, _ := p.load()
	if c.Memory.Provider != "holographic" || !c.Plugins.Holographic.AutoExtract || slices.Contains(who.asked, "Key of the memory") {
		t.Errorf("%+v, asked %q", c.Memory, who.asked)
	}
	who = &scriptedAsker{t: t, answers: map[string][]string{"Which parts do you want to set up or change?": {"memory"}, "External memory (optional)": {"none"}}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if c, _ := p.load(); c.Memory.Provider != "" || !c.Plugins.Holographic.AutoExtract || !who.wasTold("memory     holographic") {
		t.Errorf("%+v, heard\n%s", c.Memory, strings.Join(who.heard, "\n"))
	}
}

// TestInterviewInsistsOnMemory: one that does not answer is written if the user goes on,
// one that cannot be used is not.
func TestInterviewInsistsOnMemory(t *testing.T) {
	p := newHome(t)
	who := &scriptedAsker{t: t, answers: map[string][]string{
		"Which model shall answer?": {"demo"}, "External memory (optional)": {"openviking"},
		"Address of the memory's server": {"http://127.0.0.1:1"}, "It did not work.": {"try", "go"},
	}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if c, _ := p.load(); c.Memory.Provider != "openviking" || p.text(".env") != "OPENVIKING_URL=http://127.0.0.1:1\n" {
		t.Errorf("%+v, .env is %s", c.Memory, p.text(".env"))
	}
	before := p.text("config.yaml")
	who = &scriptedAsker{t: t, answers: map[string][]string{
		"External memory (optional)": {"mem0", "none"}, "It did not work.": {"go"},
		"This would not be a valid configuration, so it is not written.": {"change"}, "Write this?": {"quit"},
	}}
	if err := p.interviewMemory(who); !errors.Is(err, setup.ErrAborted) || p.text("config.yaml") != before || !who.wasTold("there is no key") {
		t.Errorf("%v, heard\n%s", err, strings.Join(who.heard, "\n"))
	}
}

// TestMemoryIsWrittenWhereItIsRead sets an address and a key in homes with and without a
// file of the provider. Afterwards the provider must answer there.
func TestMemoryIsWrittenWhereItIsRead(t *testing.T) {
	own := func(url string) *string { return &url }
	keys := []string{memoryKey}
	for _, c := range []struct {
		name, provider   string
		server           *memory.Server
		yaml, env        string
		path, file, want string // the provider's file; URL is replaced
		wantYAML         string // a part
		wantEnv          string // URL is replaced
		key              secret.Value
	}{
		{name: "variables", provider: "mem0", server: mem0.New(mem0.Options{Own: true, Keys: keys}).Server, key: memoryKey, wantEnv: "MEM0_HOST=URL\nMEM0_API_KEY=" + memoryKey + "\n"},
		{
			name: "upstream's own mode and keys in its file", provider: "mem0", server: mem0.New(mem0.Options{Own: true, Keys: keys}).Server, key: memoryKey,
			path: "mem0.json", file: "{\n  \"mode\": \"oss\", \"oss\": {\"llm\": 1},\n  \"api_key\": \"old-key\",\n  \"host\": \"http://old\"\n}\n",
			want: "{\n  \"mode\": \"platform\", \"oss\": {\"llm\": 1},\n  \"api_key\": \"" + memoryKey + "\",\n  \"host\": \"URL\"\n}\n", wantEnv: "-",
		},
		{
			name: "a mode that only the file can change", provider: "hindsight", server: hindsight.New(hindsight.Options{Keys: keys}).Server, key: memoryKey,
			path: "hindsight/config.json", file: `{"bank_id": "b", "idle_timeout": 5}`, want: `{"mode": "local_external","bank_id": "b", "idle_timeout": 5}`,
			wantEnv: "HINDSIGHT_API_URL=URL\nHINDSIGHT_API_KEY=" + memoryKey + "\n",
		},
		{name: "no file, so a variable is the mode", provider: "hindsight", server: hindsight.New(hindsight.Options{}).Server, wantEnv: "HINDSIGHT_API_URL=URL\nHINDSIGHT_MODE=local_external\n"},
		{
			name: "a file in the home of the user", provider: "honcho", server: honcho.New(honcho.Options{Derive: 1, Think: 1, Keys: keys}).Server, key: memoryKey,
			path: "user/.honcho/config.json", file: "{\"baseUrl\":\"http://old\",\n\t\"apiKey\" : \"old\"}", want: "{\"baseUrl\":\"URL\",\n\t\"apiKey\" : \"" + memoryKey + "\"}", wantEnv: "-",
		},
		{
			name: "a section", provider: "retaindb", server: retaindb.New(retaindb.Options{}).Server, key: memoryKey,
			yaml: "memory:\n  retaindb:\n    base_url: http://old # here\n", wantYAML: "    base_url: URL # here\n", wantEnv: "RETAINDB_API_KEY=" + memoryKey + "\n",
		},
		{
			name: "a variable before a section", provider: "retaindb", server: retaindb.New(retaindb.Options{}).Server, key: memoryKey,
			env: "RETAINDB_BASE_URL=http://older\n", wantEnv: "RETAINDB_BASE_URL=URL\nRETAINDB_API_KEY=" + memoryKey + "\n",
		},
		{
			name: "an empty file", provider: "supermemory", server: supermemory.New(supermemory.Options{}).Server, key: memoryKey,
			path: "supermemory.json", file: "{}", want: "{}", wantEnv: "SUPERMEMORY_BASE_URL=URL\nSUPERMEMORY_API_KEY=" + memoryKey + "\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := startMemory(t, c.server)
			p := homeWith(t, c.yaml, c.env)
			p.env["HOME"] = filepath.Join(p.home, "user")
			if c.path != "" {
				if err := os.MkdirAll(filepath.Join(p.home, filepath.Dir(c.path)), 0o700); err != nil {
					t.Fatal(err)
				}
				p.put(c.path, c.file)
			}
			m := setup.Memory{Provider: c.provider, URL: own(url), Key: c.key}
			if trial, usable, err := p.loadState().TryMemory(t.Context(), m); err != nil || !usable || trial.Place != url || trial.Recall == 0 {
				t.Fatalf("%+v %v %v", trial, usable, err)
			}
			plan := p.write(setup.Answers{Memory: &m})
			if strings.Contains(plan.Text(), memoryKey) || strings.Contains(plan.Text(), "old-key") {
				t.Errorf("a key is in the plan:\n%s", plan.Text())
			}
			for name, want := range map[string]string{".env": c.wantEnv, c.path: c.want} {
				if want = strings.ReplaceAll(want, "URL=URL", "URL="+url); name != "" {
					want = strings.NewReplacer("HOST=URL", "HOST="+url, `"URL"`, `"`+url+`"`).Replace(want)
					if d := cmp.Diff(want, p.text(name)); d != "" {
						t.Errorf("%s differs (-want +got):\n%s", name, d)
					}
				}
			}
			if !strings.Contains(p.text("config.yaml"), strings.ReplaceAll(c.wantYAML, "URL", url)) {
				t.Errorf("config.yaml is\n%s", p.text("config.yaml"))
			}
			p.checkMemory(url)
			if plan := p.write(setup.Answers{Memory: &m}); len(plan.Changes) > 0 {
				t.Errorf("the same answers change %+v", plan.Changes)
			}
		})
	}
}

// TestTrialCopiesNoSecret: whenever a trial is killed, there is no file with a secret that
// nobody knows of.
func TestTrialCopiesNoSecret(t *testing.T) {
	url := startMemory(t, mem0.New(mem0.Options{Own: true, Keys: []string{memoryKey}}).Server)
	for _, name := range []string{"mem0", "holographic", "byterover"} {
		p := homeWith(t, "model: {provider: demo}\nplatforms:\n  telegram:\n    token: "+botToken+"\n", "BRV_API_KEY="+memoryKey+"\n")
		p.put("mem0.json", `{"api_key": "old-key", "host": "`+url+`"}`)
		tmp, opened := t.TempDir(), 0
		t.Setenv("TMPDIR", tmp)
		o := p.options()
		o.OpenMemory = func(name string, c *config.Config, r config.Report, home string, planned map[string][]byte) (provider.Provider, []string, error) {
			opened++
			if err := filepath.WalkDir(tmp, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					t.Errorf("%s: %s is there", name, path)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			return app.OpenMemoryProvider(name, c, r, home, planned)
		}
		s, err := setup.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		m := setup.Memory{Provider: name}
		if name == "mem0" {
			m.Key = memoryKey
		}
		_, usable, err := s.TryMemory(t.Context(), m)
		if !usable || err != nil && name != "byterover" { // which is not installed
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 || opened == 0 {
			t.Errorf("%s: %v left, %v", name, left, err)
		}
		if there, err := os.ReadDir(p.home); err != nil || len(there) != 3 {
			t.Errorf("%s: the home has %v, %v", name, there, err)
		}
	}
}

// TestTrialKeepsNewTokens: a trial of Honcho that has to replace its tokens, each of which
// can be used once, writes the new ones where they are read.
func TestTrialKeepsNewTokens(t *testing.T) {
	s := honcho.New(honcho.Options{Derive: 1, Think: 1})
	url := startMemory(t, s.Server)
	access, refresh, ends := s.Grant()
	s.EndAccess()
	p := homeWith(t, "model: {provider: demo}\n", "")
	p.put("honcho.json", fmt.Sprintf(`{"baseUrl": %q, "hosts": {"hermes": {"apiKey": %q, "oauth": {"refreshToken": %q, "expiresAt": %d, "clientId": "hermes-agent", "tokenEndpoint": "%s/oauth/token"}}}}`, url, access, refresh, ends.Unix(), url))
	m := setup.Memory{Provider: "honcho"}
	if _, _, err := p.loadState().TryMemory(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	p.write(setup.Answers{Memory: &m})
	p.checkMemory(url)
}

// checkMemory fails unless the provider that is configured answers at url.
func (p *harness) checkMemory(url string) {
	p.t.Helper()
	c, r := p.load()
	m, _, err := app.OpenMemoryProvider(c.Memory.Provider, c, r, p.home, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = m.Check(p.t.Context())
	if err := errors.Join(err, m.Close()); err != nil || m.About().Place != url {
		p.t.Errorf("at %s: %v", m.About().Place, err)
	}
}

func TestMemoryFlagsReportProblems(t *testing.T) {
	p := newHome(t)
	p.env["SPACED"] = "a key"
	address, cloud := "ftp://x", ""
	for _, c := range []struct {
		flags setup.MemoryFlags
		want  string
	}{
		{setup.MemoryFlags{Memory: setup.Memory{Provider: "holographic", URL: &address}, KeyFile: *p.file("k", "key")}, "flag: --api-key-env: holographic takes no key here\nflag: --url: holographic has no address\n"},
		{setup.MemoryFlags{Memory: setup.Memory{Provider: "mem0", URL: &address}, KeyVariable: "SPACED"}, "flag: --api-key-env: there is a space or a control character in it\nflag: --url: want an address such as http://127.0.0.1:8888\n"},
		{setup.MemoryFlags{Memory: setup.Memory{Provider: "openviking", URL: &cloud}}, "flag: --url: openviking has no cloud\n"},
		{setup.MemoryFlags{Memory: setup.Memory{Provider: "mem0", URL: &address}}, "flag: --url: want an address such as http://127.0.0.1:8888\n"},
	} {
		_, err := p.loadState().FromMemoryFlags(c.flags)
		if d := cmp.Diff(c.want, problems(t, err)); d != "" {
			t.Error("problems differ (-want +got):\n" + d)
		}
	}
	m, err := p.loadState().FromMemoryFlags(setup.MemoryFlags{Memory: setup.Memory{Provider: "mem0", URL: &cloud}, KeyFile: *p.file("k", memoryKey+"\n")})
	if err != nil || m.Key != memoryKey {
		t.Errorf("%v", err)
	}
}

func TestEveryMemoryProviderCanBeSetUp(t *testing.T) {
	if d := cmp.Diff(app.MemoryProviders(), slices.Sorted(slices.Values(setup.MemoryProviders()))); d != "" {
		t.Error(d)
	}
}
