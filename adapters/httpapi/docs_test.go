package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

// examples are the commands of a page with what they print.
func examples(t *testing.T, page string) (list [][2]string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```\n")
	for _, m := range block.FindAllStringSubmatch(string(raw), -1) {
		list = append(list, [2]string{m[1], m[2]})
	}
	if n := strings.Count(string(raw), "```sh\n"); n != len(list) || n == 0 {
		t.Fatalf("%d of %d commands have an output", len(list), n)
	}
	return list
}

// TestTheExamplesOfThePageWork runs docs/http.md with curl, as it stands, against
// an API on a free port of this machine.
func TestTheExamplesOfThePageWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, func(_ *httpapi.Config, o *httpapi.Options) {
		o.Listen = func(string, string) (net.Listener, error) { return l, nil }
		o.Accounts = func() map[chat.Account]chat.Health {
			return map[chat.Account]chat.Health{{Platform: chat.Telegram}: {State: chat.Connected, LastContact: time.Now()}}
		}
	})
	orders := 0
	d.answers(func(in chat.Inbound) {
		text := map[string]string{"What time is it?": "It is noon.", "Count to three.": "One, two, three.", "Hello": "Hi."}[in.Text]
		switch in.Text {
		case "Count to three.":
			_ = d.says(in, chat.PurposePreview, "One, two")
			<-time.After(200 * time.Millisecond)
		case "Order one coffee.":
			orders++
			text = fmt.Sprintf("Ordered (%d so far).", orders)
		}
		if err := d.says(in, chat.PurposeAnswer, text); err != nil {
			t.Errorf("%q: %v", in.Text, err)
		}
	})
	home := t.TempDir()
	for name, content := range map[string]string{
		".hermes/http.key": key + "\n",
		".curlrc":          fmt.Sprintf("connect-to = \"127.0.0.1:8642:%s\"\nnoproxy = \"*\"\n", l.Addr()),
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range examples(t, filepath.Join("..", "..", "docs", "http.md")) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", e[0])
		cmd.Env = append(os.Environ(), "HOME="+home, "CURL_HOME="+home)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", e[0], err, out)
			continue
		}
		got := strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
		want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(e[1])), "…", "(?s:.*?)")
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s\nprints\n%s\nand not\n%s", e[0], got, e[1])
		}
	}
}
