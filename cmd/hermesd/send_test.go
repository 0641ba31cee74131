//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The real program sends messages on all platforms, from an argument, from standard
// input and from a file, and reports dead letters by its exit code.
func TestSendReachesEachPlatform(t *testing.T) {
	t.Parallel()
	c := settle(t, filepath.Join(t.TempDir(), "home"), 1, "")
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	c.answered(c.say("hello", ""))
	report := filepath.Join(t.TempDir(), "report.txt")
	if err := os.WriteFile(report, []byte("all is well\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []string
	for l := range strings.Lines(c.ask("send", "--list")) {
		if name, _, _ := strings.Cut(l, " "); strings.Contains(name, ":") {
			all = append(all, name)
		}
	}
	if len(all) != 3 {
		t.Fatalf("known are %q", all)
	}
	cmd := c.command("send", strings.Join(all, ","), "-", "--file", report)
	cmd.Stdin = strings.NewReader("The disk is _full_.\n")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), " is sent to ") != 6 {
		t.Errorf("%v: %s", err, out)
	}
	for _, m := range []string{c.Direct[0].FromBots()[1].Text, c.Discord.Direct[0].Visible(c.Discord.Bot.User())[1], c.Slack.Direct[0].FromBots()[1].Shown()} {
		if !strings.Contains(m, "The disk is ") {
			t.Errorf("a chat shows %q", m)
		}
	}
	if m := c.Direct[0].FromBots()[2]; m.Media == nil || m.Media.Name != "report.txt" {
		t.Errorf("Telegram shows %+v", m)
	}
	c.People[0].Block(c.Bot, true)
	cmd = c.command("send", all[0]+","+all[1]+","+all[2], "hello")
	out, err = cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitFailed || strings.Count(string(out), " is sent to ") != 2 || !strings.Contains(string(out), "is given up, not sent to telegram:") {
		t.Errorf("%v: %s", err, out)
	}
	if err := c.Stop(patience); err != nil {
		t.Error(err)
	}
}
