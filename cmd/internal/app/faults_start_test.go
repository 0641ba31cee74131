package app_test

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/telegram"
	"hermesd/storage"
)

// startError returns the error with which the daemon does not start.
func (w *harness) startError(words ...string) error {
	w.Helper()
	_, err := w.build()
	if err == nil {
		w.Fatal("the daemon starts")
	}
	for _, s := range words {
		if !strings.Contains(err.Error(), s) {
			w.Errorf("the error does not say %q: %v", s, err)
		}
	}
	return err
}

// invalidConfig is a configuration with errors; the command line ends with the exit code
// that means not to restart.
func invalidConfig(config, account string, words ...string) func(*harness) {
	return func(w *harness) {
		w.writeConfig(config, account)
		w.requireConfigError(words...)
		w.writeConfig("", "")
		w.start()
	}
}

func (w *harness) requireConfigError(words ...string) {
	w.Helper()
	if err, ok := errors.AsType[*config.Error](w.startError(words...)); !ok {
		w.Errorf("it is no error of the configuration: %v", err)
	}
}

// path returns the path of a file in the home directory.
func (w *harness) path(name string) string { return filepath.Join(w.home, name) }

// must ends the test if an error occurs that is not part of it.
func (w *harness) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// spoilStore runs the daemon once, changes its store, checks that it does not start and
// why, and restores the store.
func spoilStore(change func([]byte) []byte, judge func(*harness, error)) func(*harness) {
	return func(w *harness) {
		w.start()
		w.askEcho("hello")
		w.stop()
		good, err := os.ReadFile(w.path("hermesd.db"))
		w.must(err)
		w.must(os.WriteFile(w.path("hermesd.db"), change(bytes.Clone(good)), 0o600))
		judge(w, w.startError("hermesd.db"))
		w.must(os.WriteFile(w.path("hermesd.db"), good, 0o600))
		w.start()
	}
}

func requireDamage(w *harness, err error) {
	if _, ok := errors.AsType[*storage.DamageError](err); !ok {
		w.Errorf("it is not said to be damage: %v", err)
	}
}

func startFaults() []fault {
	fine := []string{"echo: hello"}
	return []fault{
		{
			sentence: "an unknown key stops the start, with its place",
			cold:     true, play: invalidConfig("agnet:\n  name: x", "", "config.yaml:12:1", "agnet"),
		},
		{
			sentence: "a value of the wrong type stops the start, with its place",
			cold:     true, play: invalidConfig("agent:\n  max_turns: many", "", "config.yaml:13:14", "agent.max_turns"),
		},
		{
			sentence: "a config file that is no YAML stops the start, with its place",
			cold:     true, play: invalidConfig("agent: [", "", "config.yaml:"),
		},
		{
			sentence: "a platform that is switched on without a token stops the start, and the variable to set is named",
			cold:     true, play: invalidConfig("platforms:\n  telegram:\n    enabled: true", "none", "config.yaml:9:14", "TELEGRAM_BOT_TOKEN"),
		},
		{
			sentence: "a home that is a file stops the start",
			cold:     true, play: func(w *harness) {
				home := w.home
				w.home = w.path("config.yaml")
				w.requireConfigError("not a directory")
				w.home = home
				w.start()
			},
		},
		{
			sentence: "a home that cannot be written stops the start",
			cold:     true, play: func(w *harness) {
				w.must(os.Mkdir(w.path(storage.LockName), 0o700))
				if err, ok := errors.AsType[*storage.HomeError](w.startError(w.home)); !ok {
					w.Errorf("it is not said to be the home: %v", err)
				}
				w.must(os.Remove(w.path(storage.LockName)))
				w.start()
			},
		},
		{
			sentence: "a workspace that is a file stops the start, and leaves the home free",
			cold:     true, play: func(w *harness) {
				w.writeFile("workspace", "")
				w.startError("workspace", "not a directory")
				w.must(os.Remove(w.path("workspace")))
				w.start()
			},
		},
		{
			sentence: "a second daemon in the same home does not start, says who is there, and does not disturb the first",
			play: func(w *harness) {
				locked, ok := errors.AsType[*storage.LockedError](w.startError("in use"))
				if !ok || locked.PID != os.Getpid() {
					w.Errorf("it is not said who holds the home: %+v", locked)
				}
			},
		},
		{
			sentence: "a store of a newer version is left alone",
			cold:     true, shows: fine, ends: []string{"replied"},
			play: spoilStore(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("schema3"), []byte("schema9")) }, func(w *harness, err error) {
				if newer, ok := errors.AsType[*storage.NewerError](err); !ok || newer.Have != 9 {
					w.Errorf("it is not said to be newer: %v", err)
				}
			}),
		},
		{
			sentence: "a store that was cut short is said to be damaged",
			cold:     true, shows: fine, ends: []string{"replied"},
			play: spoilStore(func(b []byte) []byte { return b[:6*os.Getpagesize()] }, requireDamage),
		},
		{
			sentence: "a store of a few bytes is said to be damaged",
			cold:     true, shows: fine, ends: []string{"replied"},
			play: spoilStore(func(b []byte) []byte { return b[:100] }, requireDamage),
		},
		{
			sentence: "an empty store file is said to be damaged",
			cold:     true, shows: fine, ends: []string{"replied"},
			play: spoilStore(func(b []byte) []byte { return nil }, requireDamage),
		},
	}
}

// countLogs counts the log lines that contain the words.
func (w *harness) countLogs(words string) (n int) {
	for _, l := range w.log.lines() {
		if l.has(words) {
			n++
		}
	}
	return n
}

func platformFaults() []fault {
	hook := &detour{}
	return []fault{
		{
			sentence: "without any token only the console speaks, and that is said",
			telegram: "none", cold: true, console: true, play: (*harness).start,
			logs: []string{"no platform is configured: only `hermesd chat` reaches the agent"},
		},
		{
			sentence: "a token that can be none keeps its platform down, and that is said in one line",
			cold:     true, console: true, telegram: "none",
			config: "platforms:\n  telegram:\n    token: nonsense",
			play:   (*harness).start,
			logs:   []string{"cannot run platform", "❌ telegram: token: this is not a bot token"},
		},
		{
			sentence: "a token that Telegram does not know (401) keeps its platform down, which is said once, and the console goes on",
			cold:     true, console: true, telegram: "none",
			config: "platforms:\n  telegram:\n    token: \"1234567:AAunknown\"\n    api_url: $API",
			play: func(w *harness) {
				w.start()
				w.waitHealth(chat.Failed, "Telegram does not know this bot token")
				w.waitLog("❌")
				if n := w.countLogs("cannot run platform"); n != 1 || w.countLogs("❌") != 1 {
					w.Errorf("said %d times", n)
				}
			},
			logs: []string{"cannot run platform", "❌"},
		},
		{
			sentence: "one account with a bad token does not disturb another account",
			cold:     true,
			telegram: "accounts:\n  second:\n    token: \"1234567:AAunknown\"\n    allow_from: [\"$ANN\"]\n",
			play: func(w *harness) {
				w.start()
				w.waitLog("❌")
			},
			logs: []string{"cannot run platform", "❌"},
		},
		{
			sentence: "a webhook whose port is in use is said, and works once the port is free",
			cold:     true, server: telegram.Options{Webhooks: hook},
			play: func(w *harness) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				w.must(err)
				defer func() { _ = l.Close() }() // closed twice in the end, or after a failure
				hook.to = l.Addr().String()
				w.writeConfig("", "webhook_url: https://hook.test/hermes\nwebhook_secret: abc\nwebhook_listen: "+hook.to+"\n")
				w.start()
				w.waitHealth(chat.Retrying, "address already in use")
				w.must(l.Close())
				w.waitConnected()
				w.waitFor("the webhook is registered", func() bool { return w.tg.Recorder().Counts().ByMethod["setwebhook"] > 0 })
			},
			logs: []string{"cannot serve webhook"},
		},
	}
}

// A detour redirects every request to one address.
type detour struct{ to string }

func (d *detour) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", d.to
	t := &http.Transport{DisableKeepAlives: true}
	return t.RoundTrip(r)
}
