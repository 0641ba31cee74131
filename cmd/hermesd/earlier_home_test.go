package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// earlierHome returns a home directory as the daemon of November 2026 left it
// after a SIGKILL during a turn; see storage/bolt.
func earlierHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	packed, err := os.Open(filepath.Join("..", "..", "storage", "bolt", "testdata", "store-schema3.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	store, err := io.ReadAll(r)
	// The killed turn and its message are older than the defaults allow.
	config := "model:\n  provider: demo\n  demo_pause: 0s\n  context_length: 16000\ngateway:\n  max_waiting: 100\n  auto_continue_freshness: 876000h\nbacklog:\n  max_age: 876000h\n"
	if err := errors.Join(err, os.WriteFile(filepath.Join(home, "hermesd.db"), store, 0o600), os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	return home
}

// exported returns a conversation as `sessions export` prints it.
func exported(t *testing.T, home, session string) string {
	t.Helper()
	u := start(t, home, "sessions", "export", session, "--format", "jsonl")
	if code := <-u.code; code != 0 {
		t.Fatalf("exit code %d: %s", code, u.errs)
	}
	return u.out.String()
}

// The digests are of what the daemon that wrote the home exported from it.
func TestEarlierHomeExportsTheSameConversations(t *testing.T) {
	t.Parallel()
	home := earlierHome(t)
	for session, want := range map[string]string{
		"20261124_182624_77857abd":          "e90fc090094dbd11e8fe589e9bd3134d45673cba4e0e1b1d4220df21647e07d1",
		"20261124_182624_d98afee7":          "cbffc2c73e31771751286d313a58bc0ca90a4388ff678b45af98963aa06c2c12",
		"20261124_182624_e7aa1ea3":          "6ee8fb6c6785d5fa7bfbe6d287491f9a019bfa189058b3379bac569a9ca60ec0",
		"20261124_182626_d6aa014c":          "0f22ee881aba502289ed15aeb371600cc4509c2dbb03453b27068b94e6bdda8b",
		"20261124_182816_888e48fe":          "9aaf3af2c0aba7158fa26200d1c221179d9d70d1a0f0a691afc150fa7b84274c",
		"cron_3a145216d6f6_20261124_182634": "6b1adccbee0ecf418f116d8102651667d47b428fa2b6c274ebfe5c8e46dd773a",
	} {
		text := exported(t, home, session)
		if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is exported as\n%s", session, text)
		}
	}
}

func TestEarlierHomeAnswersTheInterruptedMessageOnce(t *testing.T) {
	t.Parallel()
	home := earlierHome(t)
	u := start(t, home, "run")
	c := client(t, home)
	const session = "20261124_182816_888e48fe"
	var text string
	until(t, "the interrupted message is answered", func() bool {
		text = exported(t, home, session)
		return strings.Contains(text, "You said: “what did we plan?”")
	})
	if n := strings.Count(text, "You said: “what did we plan?”"); n != 1 {
		t.Errorf("it is answered %d times:\n%s", n, text)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	u.signals <- os.Interrupt
	if code := <-u.code; code != 0 {
		t.Errorf("exit code %d: %s", code, u.errs)
	}
}
