package repo_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/gateway/command"
)

var update = flag.Bool("update", false, "write the generated pages")

func TestDocsCommandsPage(t *testing.T) {
	page := filepath.Join("docs", "commands.md")
	got := command.NewTable(command.Builtin()...).Markdown()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the code says (go test ./internal/repo -run Docs -update):\n%s", page, diff)
	}
}
