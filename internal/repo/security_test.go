package repo_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// used returns in which packages an expression of a package's name is used, or a
// literal of its type.
func used(t *testing.T, name string, names ...string) []string {
	t.Helper()
	in := map[string]bool{}
	sources(t, func(file, pkg string) {
		if strings.HasPrefix(pkg, "internal/sim") || strings.HasPrefix(pkg, "docs/") {
			return // servers for tests, and examples
		}
		_, f := parse(t, file, 0)
		local := ""
		for _, i := range f.Imports {
			if strings.Trim(i.Path.Value, `"`) == name {
				local = path.Base(name)
				if i.Name != nil {
					local = i.Name.Name
				}
			}
		}
		if local == "" {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && len(lit.Elts) == 0 { // a zero value says nothing
				if _, ok := lit.Type.(*ast.SelectorExpr); ok && names[0] == "Principal" {
					return false
				}
			}
			var e ast.Expr
			switch n := n.(type) {
			case *ast.CompositeLit:
				e = n.Type
			case *ast.CallExpr:
				e = n.Fun
			}
			if s, ok := e.(*ast.SelectorExpr); ok {
				if id, ok := s.X.(*ast.Ident); ok && id.Name == local && slices.Contains(names, s.Sel.Name) {
					in[pkg] = true
				}
			}
			return true
		})
	})
	return slices.Sorted(maps.Keys(in))
}

// reasons compares packages with those that may, each with its reason.
func reasons(t *testing.T, what string, got []string, may map[string]string) {
	t.Helper()
	for _, pkg := range got {
		if may[pkg] == "" {
			t.Errorf("%s %s; give the reason here, or go by the package that may", pkg, what)
		}
	}
}

func TestHTTPClientsOnlyInListedPackages(t *testing.T) {
	got := used(t, "net/http", "Client", "Get", "Post", "Head", "PostForm")
	if !slices.Contains(got, "internal/safehttp") {
		t.Errorf("clients are made in %v: the dialer is not found", got)
	}
	reasons(t, "makes an HTTP client", got, map[string]string{
		"agent/llm/catalog":                    "asks the services of models, which the operator has named, about these",
		"internal/safehttp":                    "the dialer itself: what people and models name is fetched by it",
		"agent/llm/internal/apiclient":         "the provider that the operator has configured",
		"adapters/telegram":                    "the Bot API server that the operator has configured",
		"adapters/telegram/internal/apiclient": "the same",
		"adapters/discord":                     "files of Discord, over its transport",
		"adapters/discord/internal/apiclient":  "the API that the operator has configured",
		"adapters/slack/internal/apiclient":    "the API that the operator has configured",
		"cmd/internal/admin":                   "the control socket",
		"cmd/internal/doctor":                  "asks the configured places whether they answer",
		"cmd/internal/setup":                   "asks the servers that the operator has just named whether a key is theirs",
		"cmd/internal/tracing":                 "the collector that the operator has named",
		"internal/daemontest":                  "tests and measurements",
		"internal/bench":                       "tests and measurements",
		"internal/crashtest":                   "tests and measurements",
	})
}

func TestProcessesOnlyInListedPackages(t *testing.T) {
	got := used(t, "os/exec", "Command", "CommandContext", "Cmd")
	if !slices.Contains(got, "internal/spawn") {
		t.Errorf("processes are started in %v: the one package is not found", got)
	}
	reasons(t, "starts processes", got, map[string]string{
		"internal/spawn":            "the one place, with the sandbox and the environment",
		"systemd":                   "asks systemd about a unit; nothing of it comes from outside",
		"cmd/internal/service":      "systemctl and journalctl, for the operator",
		"internal/daemontest":       "tests and measurements",
		"internal/release":          "git, the go command and what it built, for those who make a release",
		"cmd/hermesd":               "hermesd-demo, in a release, for the operator",
		"cmd/internal/demo":         "the daemon itself, as a child of the demo",
		"cmd/internal/demo/picture": "the demo, for those who make its picture",
	})
}

func TestPrincipalsOnlyInListedPackages(t *testing.T) {
	reasons(t, "says who somebody is", used(t, "hermesd/gateway/access", "Principal"), map[string]string{
		"gateway/schedule": "the operator, as the author of a job that no person has made",
	})
}

// All other grants are made by access.Check.
func TestGrantsOfTheOperatorOnlyInListedPackages(t *testing.T) {
	reasons(t, "authorizes somebody in the name of the operator", used(t, "hermesd/gateway/access", "OperatorGrant"), map[string]string{
		"gateway/cron": "jobs that the operator has made at the machine",
	})
}

// What people and models name is opened below a root that no path and no link
// leads out of. The packages that open files otherwise have their names from the
// operator, or made them themselves.
func TestFilesOnlyInListedPackages(t *testing.T) {
	got := append(used(t, "os", "Open", "OpenFile", "Create", "CreateTemp", "ReadFile", "WriteFile", "OpenRoot", "ReadDir"),
		used(t, "hermesd/internal/atomicfile", "Create", "Replace")...)
	if !slices.Contains(got, "agent/tools/files") {
		t.Errorf("files are opened in %v: the tools are not found", got)
	}
	got = slices.DeleteFunc(got, func(pkg string) bool { // these serve the operator at the machine, or keep what they have named themselves
		top, _, _ := strings.Cut(pkg, "/")
		return top == "storage" || top == "internal" || top == "cmd" && pkg != "cmd/internal/app"
	})
	reasons(t, "opens files", got, map[string]string{
		"agent/tools/files":                 "the root of the workspace: what models name goes by it",
		"agent/tools/terminal":              "/proc: which ports the processes that it has started listen on",
		"agent/contextfile":                 "roots of the home and of the workspace",
		"agent/skills":                      "roots of the folders with skills, and their cache",
		"cmd/internal/app":                  "roots of the workspace and the media cache, for what answers attach; outputs of jobs under names that lead nowhere",
		"agent/memory":                      "two files of fixed names",
		"agent/memory/provider/holographic": "creates the database that the operator has named, or one under the identity of a person, which has letters, digits, - and _ only",
		"agent/memory/provider/honcho":      "honcho.json of upstream, at three fixed places",
		"agent/memory/provider/retaindb":    "SOUL.md of the home",
		"agent/memory/provider/settings":    "the settings of a provider, at fixed places or where the operator has said",
		"agent/memory/provider/openviking":  "the file of OpenViking that the operator has named",
		"agent/memory/provider/byterover":   "directories of projects: the owner's, and those of people under their identities, which have letters, digits, - and _ only",
		"agent/prompt":                      "the prefill file that the operator has named",
		"agent/engine/plugin":               "programs that the operator has put into the home",
		"adapters/httpapi":                  "its key",
		"adapters/adaptertest":              "payloads that tests play; no program contains it",
		"adapters/internal/attachment":      "files of the media cache, by the name that the cache gave them",
		"agent/llm/internal/apiclient":      "the same",
		"agent/speech":                      "the same, and recordings that it makes there",
		"agent/vision":                      "the same",
		"gateway/media":                     "the media cache itself",
		"gateway/input":                     "files of the media cache, by the name that the cache gave them",
	})
}

// Secrets are masked where log lines leave, so there is one such place.
func TestLogSinkOnlyInListedPackages(t *testing.T) {
	got := append(used(t, "go.uber.org/zap/zapcore", "NewCore", "AddSync", "Lock"), used(t, "go.uber.org/zap", "New", "NewProduction", "NewDevelopment")...)
	if len(got) == 0 {
		t.Error("the sink is not found")
	}
	reasons(t, "writes logs", got, map[string]string{"cmd/hermesd": "the one sink, which masks secrets"})
	words := []string{"Print", "Printf", "Println", "Fatal", "Fatalf", "Info", "Warn", "Error", "Debug", "New", "Default"}
	reasons(t, "logs by another library", append(used(t, "log", words...), used(t, "log/slog", words...)...), map[string]string{
		"adapters/httpapi":                   "net/http wants such a logger; its lines go to ours, or nowhere",
		"adapters/slack":                     "slack-go wants such a logger; its lines go nowhere",
		"adapters/slack/internal/connection": "the same",
	})
}
