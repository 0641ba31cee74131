package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What an answer may attach, by the text that the user reads.
func TestAttachSendsOnlyWorkspaceFiles(t *testing.T) {
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
		before := len(w.tg.Ledger().Calls("sendDocument"))
		w.say("attach " + c.path)
		if c.refused == "" {
			w.waitFor("the file "+c.path, func() bool { return len(w.tg.Ledger().Calls("sendDocument")) == before+1 })
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
		if n := len(w.tg.Ledger().Calls("sendDocument")); n != before {
			t.Errorf("%s was sent", c.path)
		}
	}
}
