package repo_test

import (
	"maps"
	"regexp"
	"slices"
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
	"internal/backoff":             "",
	"internal/atomicfile":          "",
	"internal/shorten":             "",
	"internal/similar":             "",
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
	"gateway/erase":                "gateway/session gateway/store",
	"gateway/export":               "agent/llm gateway/session gateway/store",
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
	"gateway/chatmigration":        "gateway/chat gateway/store",
	"gateway/observe":              "gateway/chat agent/llm",
	"agent":                        "agent",
	"agent/llm":                    "agent/llm",
	"agent/llm/llmtest":            "agent/llm internal/sim/llm",
	"agent/llm/catalog":            "",
	"docs/examples":                "",
	"storage/index/sessionlibrary": "storage agent/llm agent/tools/sessionsearch gateway/chat gateway/session gateway/store",
	"agent/injection":              "",
	"agent/memory":                 "agent/injection",
	"agent/memory/provider":        "agent/memory/provider",
	"agent/contextfile":            "agent/injection",
	"agent/skills":                 "agent/skills",
	"agent/engine":                 "agent agent/engine agent/llm agent/tool",
	"agent/tool":                   "agent/llm agent/tool",
	"agent/prompt":                 "agent/llm agent/prompt",
	"agent/tools":                  "agent/llm agent/tool agent/memory agent/skills agent/tools agent/protected",
	"hygiene":                      "agent agent/llm gateway/i18n gateway/session",
	"gateway":                      "gateway agent hygiene",
	"gateway/session":              "agent/llm gateway/chat gateway/i18n",
	"gateway/admission":            "gateway/access gateway/chat gateway/command gateway/delivery gateway/i18n gateway/inbox gateway/outbox gateway/session",
	"gateway/access":               "gateway/chat gateway/access",
	"gateway/access/pairing":       "gateway/chat gateway/access gateway/store",
	"gateway/outbox":               "gateway/chat",
	"gateway/inbox":                "gateway/schedule gateway/chat gateway/session gateway/access gateway/outbox",
	"gateway/schedule":             "gateway/i18n gateway/chat gateway/session gateway/access",
	"gateway/store":                "gateway/inbox gateway/outbox gateway/session gateway/schedule gateway/chat agent/llm agent/prompt",
	"gateway/delivery":             "gateway/store gateway/accounts gateway/chat gateway/markup gateway/observe gateway/outbox gateway/lane",
	"gateway/command":              "gateway/i18n gateway/chat gateway/session gateway/access",
	"gateway/failure":              "agent agent/llm gateway/schedule gateway/i18n",
	"adapters":                     "gateway/chat gateway/markup gateway/i18n adapters",
	"adapters/adaptertest":         "gateway/chat gateway/markup gateway/session adapters",
	"storage":                      "storage agent/llm agent/prompt gateway/store gateway/chat gateway/session gateway/access gateway/inbox gateway/outbox gateway/schedule",
	"storage/storagetest":          "agent/llm gateway storage",
	"cmd":                          "agent hygiene gateway adapters storage systemd cmd internal",
	"cmd/internal/config":          "agent hygiene gateway adapters storage cmd/internal/config cmd/internal/platforms",
	"cmd/internal/platforms":       "gateway adapters",
	"cmd/internal/admin":           "agent/memory/provider hygiene gateway adapters/console storage agent/prompt agent/llm cmd/internal/admin",

	"cmd/internal/setup":             "agent hygiene gateway adapters storage cmd/internal/config cmd/internal/platforms cmd/internal/setup cmd/internal/tui/text",
	"cmd/internal/setup/yamledit":    "",
	"cmd/internal/setup/atomicfiles": "",

	"agent/memory/provider/providertest": "agent/memory/provider internal/sim/memory",
}

// baseLayer lists the packages that any package may import.
const baseLayer = "internal/atomicfile internal/backoff internal/diskspace internal/lazyregexp internal/secret internal/safehttp internal/shorten internal/similar internal/spawn"

func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

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
		allowed := strings.Fields(allowedImports[best] + " " + baseLayer)
		for _, name := range imports(t, path) {
			p, inside := strings.CutPrefix(name, "hermesd/")
			if inside && !slices.ContainsFunc(allowed, func(dir string) bool { return under(p, dir) }) {
				t.Errorf("%s: package %s may not import %s", path, pkg, p)
			}
		}
	})
}

// stays matches the packages to which ARCHITECTURE.md confines a dependency.
var (
	stays  = regexp.MustCompile("Stays? in ((?:`[^`]+`(?:, | and )?)+)")
	quoted = regexp.MustCompile("`([^`]+)`")
)

// TestSDKsStayInTheirPackages checks the sentences "Stays in …" of ARCHITECTURE.md
// against the imports.
func TestSDKsStayInTheirPackages(t *testing.T) {
	places := map[string][]string{}
	for _, line := range lines(t, "ARCHITECTURE.md") {
		cells := strings.Split(line, "|")
		m := stays.FindStringSubmatch(line)
		if len(cells) < 4 || m == nil {
			continue
		}
		for _, module := range quoted.FindAllStringSubmatch(cells[1], -1) {
			for _, dir := range quoted.FindAllStringSubmatch(m[1], -1) {
				places[module[1]] = append(places[module[1]], dir[1])
			}
		}
	}
	for module, want := range map[string]int{"github.com/go-telegram/bot": 1, "github.com/bwmarrin/discordgo": 1, "github.com/slack-go/slack": 1, "go.etcd.io/bbolt": 1, "modernc.org/sqlite": 3} {
		if n := len(places[module]); n != want {
			t.Errorf("ARCHITECTURE.md names %d packages in which %s stays, want %d", n, module, want)
		}
	}
	sources(t, func(path, pkg string) {
		for _, name := range imports(t, path) {
			for module, dirs := range places {
				if under(name, module) && !slices.ContainsFunc(dirs, func(dir string) bool { return under(pkg, dir) }) {
					t.Errorf("%s imports %s, which stays in %s", path, name, strings.Join(dirs, ", "))
				}
			}
		}
	})
}

// listed reports whether a package is in the table of layers: not what only one folder
// uses, nor tests and what they need.
func listed(pkg string) bool {
	own := strings.TrimPrefix(pkg, "cmd/internal/")
	support := []string{"docs", "internal/sim", "internal/bench", "internal/release"}
	return !strings.Contains(own, "/internal/") && !strings.HasSuffix(pkg, "test") &&
		!slices.ContainsFunc(support, func(dir string) bool { return under(pkg, dir) })
}

// layers returns the packages of each layer, sorted. The layer of a package is one above
// the highest that it imports.
func layers(t *testing.T) (all [][]string) {
	imported := map[string][]string{}
	sources(t, func(file, pkg string) {
		imported[pkg] = append(imported[pkg], imports(t, file)...)
	})
	layerOf := map[string]int{}
	var find func(pkg string) int
	find = func(pkg string) int {
		if _, ok := layerOf[pkg]; !ok {
			n := 0
			for _, name := range imported[pkg] {
				if p, inside := strings.CutPrefix(name, "hermesd/"); inside {
					n = max(n, find(p)+1)
				}
			}
			layerOf[pkg] = n
		}
		return layerOf[pkg]
	}
	for _, pkg := range slices.Sorted(maps.Keys(imported)) {
		if !listed(pkg) {
			continue
		}
		n := find(pkg)
		for len(all) <= n {
			all = append(all, nil)
		}
		all[n] = append(all[n], "`"+pkg+"`")
	}
	return all
}

func TestDocsArchitecturePage(t *testing.T) {
	var rows [][]string
	for n, packages := range slices.Backward(layers(t)) {
		rows = append(rows, []string{strconv.Itoa(n), strings.Join(packages, ", ")})
	}
	requireTables(t, "ARCHITECTURE.md", table([]string{"layer", "packages"}, rows...))
	if n := len(lines(t, "ARCHITECTURE.md")); n > 200 {
		t.Errorf("ARCHITECTURE.md has %d lines, more than 200", n)
	}
}
