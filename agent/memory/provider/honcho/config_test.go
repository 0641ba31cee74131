package honcho_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/honcho"
)

// write makes the files of a home, by path, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for path, text := range files {
		path = filepath.Join(home, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestPlaces(t *testing.T) {
	const file, key = "h/honcho.json", "HONCHO_API_KEY"
	for _, test := range []struct {
		name    string
		files   map[string]string
		env     []string
		section string
		place   string
		err     string // a part of it
	}{
		{"a key", nil, []string{key, "k"}, "", "https://api.honcho.dev", ""},
		{"nothing", nil, nil, "", "", "set HONCHO_API_KEY"},
		{"own server of the environment", nil, []string{"HONCHO_BASE_URL", "http://10.0.0.5:8000/v3/"}, "", "http://10.0.0.5:8000", ""},
		{"old name of it", nil, []string{"HONCHO_URL", "http://a:1"}, "", "http://a:1", ""},
		{"config.yaml", nil, nil, `{"base_url":"http://b:1","timeout":5}`, "http://b:1", ""},
		{"environment local", nil, []string{key, "k", "HONCHO_ENVIRONMENT", "local"}, "", "http://localhost:8000", ""},
		{"root before environment", map[string]string{file: `{"baseUrl":"http://root:1"}`}, []string{"HONCHO_BASE_URL", "http://env:1"}, `{"base_url":"http://b:1"}`, "http://root:1", ""},
		{"endpoint before root", map[string]string{file: `{"baseUrl":"http://root:1","endpoint":{"baseUrl":"http://end:1"}}`}, nil, "", "http://end:1", ""},
		{"host before root", map[string]string{file: `{"endpoint":{"baseUrl":"http://end:1"},"baseUrl":"http://root:1","hosts":{"hermes":{"baseUrl":"http://host:1"}}}`}, nil, "", "http://host:1", ""},
		{"an empty value says nothing", map[string]string{file: `{"apiKey":"k","baseUrl":"http://root:1","hosts":{"hermes":{"baseUrl":"","apiKey":null}}}`}, nil, "", "http://root:1", ""},
		{"the home first", map[string]string{file: `{"baseUrl":"http://1:1"}`, ".hermes/honcho.json": `{"baseUrl":"http://2:1"}`}, nil, "", "http://1:1", ""},
		{"then ~/.hermes", map[string]string{".hermes/honcho.json": `{"baseUrl":"http://2:1"}`, ".honcho/config.json": `{"baseUrl":"http://3:1"}`}, nil, "", "http://2:1", ""},
		{"then ~/.honcho", map[string]string{".honcho/config.json": `{"baseUrl":"http://3:1","other":1}`}, nil, "", "http://3:1", ""},
		{"switched off", map[string]string{file: `{"apiKey":"k","enabled":false}`}, nil, "", "", "enabled: false"},
		{"no JSON", map[string]string{file: `{"apiKey":`}, nil, "", "", "not a JSON object"},
		{"a wrong URL", map[string]string{file: `{"baseUrl":"localhost:8000"}`}, nil, "", "", "not an http or https URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := write(t, test.files)
			s := provider.Source{Secrets: new(secret.Masker), Home: filepath.Join(home, "h"), Getenv: env(append(test.env, "HOME", home)...)}
			if test.section != "" {
				s.Section = []byte(test.section)
			}
			p, warnings, err := honcho.Open(s)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || len(warnings) > 0 || p.About().Place != test.place {
				t.Errorf("%q, %v, %+v", warnings, err, p)
			}
		})
	}
}

func TestModes(t *testing.T) {
	for file, want := range map[string]provider.About{
		`{}`:                       {Mode: "hybrid"},
		`{"recallMode":"auto"}`:    {Mode: "hybrid"},
		`{"recallMode":"context"}`: {Mode: "context", NoTools: true},
		`{"recallMode":"tools","recallSync":true}`:                                            {Mode: "tools", Wait: true, NoRecall: true},
		`{"recallMode":"tools","hosts":{"hermes":{"recallMode":"hybrid","recallSync":true}}}`: {Mode: "hybrid", Wait: true},
	} {
		a := open(t, file, nil, "HONCHO_API_KEY", "k").About()
		got := provider.About{Mode: a.Mode, Wait: a.Wait, NoRecall: a.NoRecall, NoTools: a.NoTools}
		if d := cmp.Diff(want, got); d != "" || len(a.Tools) == 0 != want.NoTools {
			t.Errorf("%s: %s, %d tools", file, d, len(a.Tools))
		}
	}
}

func TestWarnings(t *testing.T) {
	home := write(t, map[string]string{"honcho.json": `{"apiKey":"k","writeFrequency":5,"dialecticDepth":2,"queryRewrite":true,"environment":"moon","sesions":{},"hosts":{"hermes":{"recalMode":"x"}}}`})
	_, warnings, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: env("HOME", home)})
	text := strings.Join(warnings, "\n")
	if err != nil || len(warnings) != 5 || !strings.Contains(text, `"recalMode" is unknown`) || !strings.Contains(text, `"sesions" is unknown`) || !strings.Contains(text, "dialecticDepth") || !strings.Contains(text, `"moon"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// sent returns the path of the last call and its key after a turn was stored.
func sent(t *testing.T, s *sim.Server, p provider.Provider, scope provider.Scope) memory.Call {
	t.Helper()
	if _, err := p.Sync(t.Context(), turn("1", scope, "Hello.")); err != nil {
		t.Fatal(err)
	}
	calls := s.Calls()
	return calls[len(calls)-1]
}

func turn(key string, s provider.Scope, text string) provider.Event {
	now := time.Now()
	return provider.Event{Key: key, Kind: provider.Turn, Scope: s, At: now, Messages: []provider.Message{{Role: "user", Text: text, At: now}, {Role: "assistant", Text: "Noted.", At: now}}}
}

func TestWorkspacesPeersAndSessions(t *testing.T) {
	chat := provider.Scope{UserID: "843", Session: "c1", Key: "agent-main-telegram-dm-843", Platform: "telegram", Chat: "843"}
	with := func(f func(*provider.Scope)) provider.Scope { s := chat; f(&s); return s }
	for _, test := range []struct {
		name, file, profile string
		scope               provider.Scope
		workspace, session  string
		user, ai            string
	}{
		{"nothing set", `{}`, "", chat, "hermes", chat.Key, "843", "hermes"},
		{"set", `{"workspace":"w s","aiPeer":"bot"}`, "", chat, "w-s", chat.Key, "843", "bot"},
		{"a profile", `{"hosts":{"hermes":{"aiPeer":"no"},"hermes_work":{"aiPeer":"yes"}}}`, "work", chat, "hermes_work", chat.Key, "843", "yes"},
		{"old form of a profile", `{"hosts":{"hermes.work":{"aiPeer":"yes"}}}`, "work", chat, "hermes-work", chat.Key, "843", "yes"},
		{"pinned", `{"peerName":"ann","pinUserPeer":true,"userPeerAliases":{"843":"x"}}`, "", chat, "hermes", chat.Key, "ann", "hermes"},
		{"pinned by the old name", `{"peerName":"ann","pinPeerName":true}`, "", chat, "hermes", chat.Key, "ann", "hermes"},
		{"an alias", `{"peerName":"ann","userPeerAliases":{"843":"ann b"}}`, "", chat, "hermes", chat.Key, "ann-b", "hermes"},
		{"aliases of the host replace those of the root", `{"userPeerAliases":{"843":"x"},"hosts":{"hermes":{"userPeerAliases":{"1":"y"}}}}`, "", chat, "hermes", chat.Key, "843", "hermes"},
		{"a prefix", `{"runtimePeerPrefix":"telegram_"}`, "", chat, "hermes", chat.Key, "telegram_843", "hermes"},
		{"a prefix that is no ID", `{"runtimePeerPrefix":"tg:"}`, "", chat, "hermes", chat.Key, "tg-843-5bdf549c", "hermes"},
		{"no ID of a user", `{"peerName":"ann"}`, "", with(func(s *provider.Scope) { s.UserID = "" }), "hermes", chat.Key, "ann", "hermes"},
		{"nobody", `{}`, "", with(func(s *provider.Scope) { s.UserID = "" }), "hermes", chat.Key, "user-telegram-843", "hermes"},
		{"another person", `{"peerName":"ann","pinUserPeer":true}`, "", with(func(s *provider.Scope) { s.Person = "bob" }), "hermes", chat.Key, "bob", "hermes"},
		{"a key with other letters", `{}`, "", with(func(s *provider.Scope) { s.Key = "matrix:!room:x" }), "hermes", "matrix-room-x", "843", "hermes"},
		{"a long key", `{}`, "", with(func(s *provider.Scope) { s.Key = strings.Repeat("k", 120) }), "hermes", strings.Repeat("k", 91) + "-64fa0bb8", "843", "hermes"},
		{"prefixes", `{"sessionAiPeerPrefix":true,"sessionPeerPrefix":true,"peerName":"ann"}`, "", chat, "hermes", "hermes-" + chat.Key, "843", "hermes"},
		{"no key", `{"sessionPeerPrefix":true,"peerName":"ann"}`, "", with(func(s *provider.Scope) { s.Key = "" }), "hermes", "ann-c1", "843", "hermes"},
		{"no session", `{}`, "", with(func(s *provider.Scope) { s.Key, s.Session = "", "" }), "hermes", "hermes", "843", "hermes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, sim.Options{})
			home := write(t, map[string]string{"honcho.json": test.file})
			p, _, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Profile: test.profile, HTTP: s.Client(), Getenv: env("HOME", home, "HONCHO_BASE_URL", s.URL, "HONCHO_API_KEY", "k")})
			if err != nil {
				t.Fatal(err)
			}
			call := sent(t, s, p, test.scope)
			if want := "/v3/workspaces/" + test.workspace + "/sessions/" + test.session + "/messages"; call.Path != want {
				t.Errorf("sent to %s, want %s", call.Path, want)
			}
			got := s.Messages(test.workspace, test.session)
			if len(got) != 2 || got[0].Peer != test.user || got[1].Peer != test.ai {
				t.Errorf("messages %+v, want those of %s and %s", got, test.user, test.ai)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	s := newServer(t, sim.Options{})
	for file, want := range map[string]string{
		`{"apiKey":"root","hosts":{"hermes":{"apiKey":"host"}}}`: "host",
		`{"apiKey":"root"}`:                "root",
		`{}`:                               "env",
		`{"baseUrl":"http://127.0.0.1:9"}`: "local",
		`{"baseUrl":"http://192.168.1.2:9","apiKey":"own"}`: "own",
	} {
		p := open(t, file, s.Client(), "HONCHO_API_KEY", "env", "HONCHO_BASE_URL", s.URL)
		if got := sent(t, s, p, provider.Scope{UserID: "1", Key: "k"}).Key; got != want {
			t.Errorf("%s: key %q", file, got)
		}
	}
}

func TestTimeLimitOfTheConfiguration(t *testing.T) {
	for file, want := range map[string]time.Duration{`{"timeout":"2.5"}`: 2500 * time.Millisecond, `{"requestTimeout":3,"hosts":{"hermes":{}}}`: 3 * time.Second, `{}`: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, sim.Options{})
			s.Inject(memory.Fault{Delay: time.Hour, Times: -1})
			p := open(t, file, s.Client(), "HONCHO_API_KEY", "k", "HONCHO_BASE_URL", s.URL, "HONCHO_TIMEOUT", "7")
			start := time.Now()
			if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Down || time.Since(start) != want {
				t.Errorf("%s: %v after %v", file, err, time.Since(start))
			}
		})
	}
}
