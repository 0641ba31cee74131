package demo_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/demo"
)

var update = flag.Bool("update", false, "write the generated manifest")

const (
	page  = "../../../docs/platforms.md"
	begin = "<!-- made by: go test ./cmd/internal/demo -run Platforms -update -->\n"
	end   = "\n<!-- end -->\n"
)

func read(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPlatformsPageHasManifestAndPermissions(t *testing.T) {
	text := read(t)
	head, rest, ok1 := strings.Cut(text, begin)
	got, foot, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("there is no place for the manifest")
	}
	want := "\n```json\n" + demo.Manifest() + "\n```\n"
	if *update {
		if err := os.WriteFile(filepath.FromSlash(page), []byte(head+begin+want+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the manifest is not what the code says (-update writes it):\n%s", diff)
	}
	if n := fmt.Sprintf("permissions=%d`", demo.Permissions); !strings.Contains(text, n) {
		t.Errorf("the address that invites the bot lacks %s", n)
	}
}

// Each example of a configuration is loaded together with the tokens.
func TestPlatformsPageExamplesAreValid(t *testing.T) {
	var dotenv strings.Builder
	blocks := regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```").FindAllStringSubmatch(read(t), -1)
	for _, b := range blocks {
		if b[1] == "sh" {
			dotenv.WriteString(b[2])
		}
	}
	seen := 0
	for _, b := range blocks {
		if b[1] != "yaml" {
			continue
		}
		seen++
		home := t.TempDir()
		for name, content := range map[string]string{"config.yaml": b[2], ".env": dotenv.String()} {
			if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
		if err != nil || len(report.Warnings) > 0 {
			t.Errorf("%s\n%v %v", b[2], err, report.Warnings)
			continue
		}
		if n := len(c.Accounts()); n < 3 {
			t.Errorf("%d accounts are connected by tokens for three", n)
		}
	}
	if seen < 6 {
		t.Errorf("only %d examples", seen)
	}
}
