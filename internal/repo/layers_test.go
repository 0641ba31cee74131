package repo_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// allowedImports lists, for each directory, the directories whose packages it may
// import. The longest directory that contains a package applies. A directory may
// import itself, and any package may import those of baseLayer.
var allowedImports = map[string]string{
	"systemd":                      "",
	"internal/lazyregexp":          "",
	"internal/secret":              "",
	"internal/safehttp":            "",
	"internal/diskspace":           "",
	"internal/spawn":               "",
	"agent/cmdpolicy":              "agent/protected",
	"agent/protected":              "",
	"agent/speech":                 "",
	"agent/cmdreview":              "agent/llm",
	"agent/vision":                 "agent/llm",
	"agent/tools/delegate":         "agent",
	"gateway/erase":                "gateway/session",
	"gateway/export":               "agent/llm gateway/session",
	"gateway/title":                "agent/llm",
	"internal/sim":                 "internal/sim",
	"internal/release":             "internal/release",
	"internal/daemontest":          "internal/sim internal/daemontest",
	"internal/bench":               "internal/sim internal/daemontest",
	"internal/crashtest":           "internal/sim internal/daemontest",
	"gateway/chat":                 "",
	"gateway/lane":                 "",
	"gateway/markup":               "gateway/chat",
	"gateway/i18n":                 "",
	"gateway/media":                "gateway/chat gateway/i18n",
	"gateway/chatmigration":        "gateway/chat",
	"gateway/observe":              "gateway/chat agent/llm",
	"agent":                        "agent",
	"agent/llm":                    "agent/llm",
	"agent/llm/llmtest":            "agent/llm internal/sim/llm",
	"agent/llm/catalog":            "",
	"docs/examples":                "",
	"storage/index/sessionlibrary": "storage agent/tools/sessionsearch gateway/session",
	"agent/injection":              "",
	"agent/memory":                 "agent/injection",
	"agent/contextfile":            "agent/injection",
	"agent/skills":                 "agent/skills",
	"agent/engine":                 "agent agent/engine agent/llm agent/tool",
	"agent/tool":                   "agent/llm agent/tool",
	"agent/prompt":                 "agent/llm agent/prompt",
	"agent/tools":                  "agent/llm agent/tool agent/memory agent/skills agent/tools agent/protected",
	"hygiene":                      "agent agent/llm gateway/i18n gateway/session",
	"gateway":                      "gateway agent hygiene",
	"gateway/session":              "gateway/chat gateway/i18n",
	"gateway/access":               "gateway/chat gateway/access",
	"gateway/outbox":               "gateway/chat",
	"gateway/inbox":                "gateway/schedule gateway/chat gateway/session gateway/access gateway/outbox",
	"gateway/approval":             "agent/tool gateway/access gateway/active gateway/chat gateway/command gateway/delivery gateway/i18n gateway/inbox gateway/markup gateway/outbox gateway/schedule gateway/session",
	"gateway/active":               "agent/llm gateway/access gateway/chat gateway/inbox gateway/session",
	"gateway/usage":                "agent agent/llm gateway/active gateway/failure gateway/session",
	"gateway/schedule":             "gateway/i18n gateway/chat gateway/session gateway/access",
	"gateway/delivery":             "gateway/chat gateway/markup gateway/observe gateway/outbox gateway/lane",
	"gateway/command":              "gateway/i18n gateway/chat gateway/session gateway/access",
	"gateway/failure":              "agent agent/llm gateway/schedule gateway/i18n",
	"gateway/turn":                 "gateway/failure gateway/i18n gateway/schedule gateway/markup agent agent/prompt agent/llm hygiene gateway/chat gateway/session gateway/access gateway/inbox gateway/outbox gateway/command gateway/delivery gateway/lane gateway/observe gateway/active gateway/approval gateway/usage",
	"adapters":                     "gateway/chat gateway/markup gateway/i18n adapters",
	"adapters/adaptertest":         "gateway/chat gateway/markup gateway/session adapters",
	"storage":                      "storage agent/llm gateway/chat gateway/session gateway/access gateway/inbox gateway/outbox gateway/schedule",
	"storage/storagetest":          "gateway storage",
	"cmd":                          "agent hygiene gateway adapters storage systemd cmd internal",
	"cmd/internal/config":          "agent hygiene gateway adapters storage cmd/internal/config",
	"cmd/internal/admin":           "hygiene gateway adapters/console storage agent/prompt agent/llm cmd/internal/admin",

	"cmd/internal/setup":             "agent hygiene gateway adapters storage cmd/internal/config cmd/internal/setup cmd/internal/tui/text",
	"cmd/internal/setup/yamledit":    "",
	"cmd/internal/setup/atomicfiles": "",
}

// baseLayer lists the packages that any package may import.
const baseLayer = "internal/diskspace internal/lazyregexp internal/secret internal/safehttp internal/spawn"

func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// sources calls visit for each Go file of the module that is not a test.
func sources(t *testing.T, visit func(path, pkg string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case d.IsDir() && path == filepath.Join("internal", "interop"): // a module of its own
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		visit(path, filepath.ToSlash(filepath.Dir(path)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsRespectLayers(t *testing.T) {
	sources(t, func(path, pkg string) {
		best, ok := "", false
		for dir := range allowedImports {
			if under(pkg, dir) && len(dir) > len(best) {
				best, ok = dir, true
			}
		}
		if !ok {
			t.Errorf("%s: no layer is set for package %s", path, pkg)
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
	imports:
		for _, im := range f.Imports {
			p, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				t.Error(err)
			}
			p, inside := strings.CutPrefix(p, "hermesd/")
			if !inside {
				continue
			}
			for _, allowed := range strings.Fields(allowedImports[best] + " " + baseLayer) {
				if under(p, allowed) {
					continue imports
				}
			}
			t.Errorf("%s: package %s may not import %s", path, pkg, p)
		}
	})
}

func TestSDKsStayInTheirPackages(t *testing.T) {
	home := map[string]string{
		"github.com/go-telegram/bot":   "adapters/telegram",
		"github.com/bwmarrin/":         "adapters/discord",
		"github.com/slack-go/":         "adapters/slack",
		"go.etcd.io/bbolt":             "storage",
		"github.com/yuin/goldmark":     "gateway/markup",
		"github.com/spf13/cobra":       "cmd",
		"charm.land/":                  "cmd",
		"github.com/prometheus/":       "cmd",
		"go.opentelemetry.io/":         "cmd",
		"modernc.org/":                 "storage",
		"github.com/coreos/go-systemd": "systemd",
	}
	sources(t, func(path, pkg string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, im := range f.Imports {
			p, _ := strconv.Unquote(im.Path.Value)
			for lib, at := range home {
				if strings.HasPrefix(p, lib) && !under(pkg, at) {
					t.Errorf("%s imports %s, which belongs into %s", path, p, at)
				}
			}
		}
	})
}
