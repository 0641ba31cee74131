package app_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/internal/sim/telegram"
)

// What an answer may attach, by the text that the user reads.
func TestAttachSendsOnlyWorkspaceFiles(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	work := w.path("workspace")
	w.must(os.MkdirAll(filepath.Join(work, "sub"), 0o700))
	for name, text := range map[string]string{"plan.txt": "the plan", "sub/more.txt": "more", "empty.txt": ""} {
		w.must(os.WriteFile(filepath.Join(work, name), []byte(text), 0o600))
	}
	w.must(os.WriteFile(filepath.Join(work, "large.bin"), nil, 0o600))
	w.must(os.Truncate(filepath.Join(work, "large.bin"), 51<<20)) // sparse: uses no disk space
	w.must(os.Symlink(w.path("config.yaml"), filepath.Join(work, "link.txt")))
	w.must(os.Symlink(w.home, filepath.Join(work, "up")))
	w.start()
	for _, c := range []struct{ path, refused string }{
		{filepath.Join(work, "plan.txt"), ""},
		{"sub/more.txt", ""},
		{w.path("config.yaml"), "only files in"},
		{"../config.yaml", "only files in"},
		{work + "/../config.yaml", "only files in"},
		{filepath.Join(work, "link.txt"), "only files in"},
		{filepath.Join(work, "up", "config.yaml"), "only files in"},
		{"/etc/passwd", "only files in"},
		{filepath.Join(work, "none.txt"), "there is no such file"},
		{filepath.Join(work, "empty.txt"), "it is empty"},
		{filepath.Join(work, "sub"), "it is not a file"},
		{"large.bin", "the file has 51 MB and at most 50 MB can be taken"},
	} {
		before := len(w.tg.Recorder().Calls("sendDocument"))
		w.say("attach " + c.path)
		if c.refused == "" {
			w.waitFor("the file "+c.path, func() bool { return len(w.tg.Recorder().Calls("sendDocument")) == before+1 })
			continue
		}
		w.waitFor("a refusal of "+c.path, func() bool {
			seen := w.chat.FromBots()
			last := ""
			if len(seen) > 0 {
				last = seen[len(seen)-1].Text
			}
			return strings.Contains(last, c.path) && strings.Contains(last, c.refused)
		})
		if n := len(w.tg.Recorder().Calls("sendDocument")); n != before {
			t.Errorf("%s was sent", c.path)
		}
	}
}

// A guest gets no file of the workspace, and nobody gets what was sent in another
// conversation. A guest can have back what they sent in the same turn.
func TestAttachAsksWhoMayRead(t *testing.T) {
	w := newHarness(t, fault{config: onlyOwner, telegram: "allow_all: true"})
	secret := filepath.Join(w.path("workspace"), "plan.txt")
	w.must(os.MkdirAll(filepath.Dir(secret), 0o700))
	w.must(os.WriteFile(secret, []byte("the plan"), 0o600))
	w.start()
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	his := bob.Chat(w.bot)
	sent := []byte("bob's own text")
	received := filepath.Join(w.path("cache"), "media", fmt.Sprintf("%x.txt", sha256.Sum256(sent)))
	want := 0
	attach := func(c *telegram.Chat, p telegram.Post, path, refused string) {
		t.Helper()
		p.Text = "attach " + path
		c.Post(p)
		if refused == "" {
			want++
			w.waitFor("the file "+path, func() bool { return len(w.tg.Recorder().Calls("sendDocument")) == want })
			return
		}
		w.waitFor("a refusal: "+refused, func() bool {
			seen := c.FromBots()
			return len(seen) > 0 && strings.Contains(seen[len(seen)-1].Text, refused)
		})
		if n := len(w.tg.Recorder().Calls("sendDocument")); n != want {
			t.Errorf("%s was sent", path)
		}
	}
	attach(his, telegram.Post{From: bob}, secret, "may not read files of the workspace")
	attach(w.chat, telegram.Post{From: w.ann}, secret, "")
	attach(his, telegram.Post{From: bob, Media: &telegram.Media{Kind: telegram.Document, Name: "a.txt", MIME: "text/plain", Data: sent}}, received, "")
	attach(his, telegram.Post{From: bob}, received, "not received in this conversation")
	attach(w.chat, telegram.Post{From: w.ann}, received, "not received in this conversation")
}
