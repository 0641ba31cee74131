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

var update = flag.Bool("update", false, "write the golden manifest")

const page = "../../../docs/platforms.md"

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The page names the command that prints the manifest, and the permissions on Discord.
func TestPlatformsManifestAndPermissions(t *testing.T) {
	const golden = "testdata/slack-manifest.json"
	want := demo.Manifest() + "\n"
	if *update {
		if err := os.WriteFile(filepath.FromSlash(golden), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, golden)); diff != "" {
		t.Errorf("%s is not what the code says (-update writes it):\n%s", golden, diff)
	}
	for _, part := range []string{"`hermesd setup --slack-manifest`", fmt.Sprintf("permissions=%d`", demo.Permissions)} {
		if !strings.Contains(read(t, page), part) {
			t.Errorf("%s lacks %s", page, part)
		}
	}
}

// Each example of a configuration is loaded together with the tokens.
func TestPlatformsPageExamplesAreValid(t *testing.T) {
	var dotenv strings.Builder
	blocks := regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```").FindAllStringSubmatch(read(t, page), -1)
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
	if seen < 5 {
		t.Errorf("only %d examples", seen)
	}
}
