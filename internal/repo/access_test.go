package repo_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
)

// kinds returns the values of the constants of type chat.EventKind, in order.
func kinds(t *testing.T) (out []chat.EventKind) {
	t.Helper()
	_, f := parse(t, "gateway/chat/chat.go", 0)
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == reflect.TypeFor[chat.EventKind]().Name() {
				out = append(out, chat.EventKind(strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)))
			}
		}
		return true
	})
	return out
}

// table returns a Markdown table.
func table(head []string, rows ...[]string) string {
	var b strings.Builder
	for _, cells := range append([][]string{head, slices.Repeat([]string{"---"}, len(head))}, rows...) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// accessLists returns the lists of docs/access.md that are generated, in order.
func accessLists() []string {
	var allow, deny, tools strings.Builder
	for _, r := range gatewaytest.AllowRules() {
		fmt.Fprintf(&allow, "- `%s` (%s): %s\n", r.Name, r.Level, r.Description)
	}
	for _, r := range gatewaytest.DenyRules() {
		fmt.Fprintf(&deny, "- `%s`: %s\n", r.Name, r.Description)
	}
	names := map[access.Level][]string{}
	for name, level := range access.ToolLevels() {
		names[level] = append(names[level], "`"+name+"`")
	}
	for _, l := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&tools, "- %s: %s\n", l, strings.Join(slices.Sorted(slices.Values(names[l])), " "))
	}
	return []string{allow.String(), deny.String(), tools.String()}
}

const (
	opening = "<!-- made by: go test ./internal/repo -run Docs -update -->\n"
	closing = "<!-- end -->\n"
)

func TestDocsAccessPage(t *testing.T) {
	const name = "docs/access.md"
	requireTables(t, name, accessLists()...)
	page := string(read(t, name))
	limits := fmt.Sprintf("%d open codes per platform, one per user in %d minutes; %d wrong codes", pairing.MaxPending, int(pairing.CodeInterval.Minutes()), pairing.MaxWrongCodes)
	for _, want := range []string{limits, "`" + pairing.RuleOffered + "`", "`" + pairing.RuleRecent + "`", "`" + pairing.RuleFull + "`", "`" + pairing.RuleLocked + "`"} {
		if !strings.Contains(page, want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
	for _, kind := range kinds(t) {
		if !strings.Contains(page, "\n| `"+string(kind)+"` |") {
			t.Errorf("%s does not say what an event of kind %q does", name, kind)
		}
	}
}

// Toolsets with tools that hermesd does not have are named by skills of upstream Hermes only.
func TestDocsToolsets(t *testing.T) {
	sets, levels := tool.Toolsets(), access.ToolLevels()
	own := maps.Clone(levels)
	var list strings.Builder
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		if _, ok := levels[sets[set][0]]; !ok {
			continue
		}
		fmt.Fprintf(&list, "- `%s`: `%s`\n", set, strings.Join(sets[set], "` `"))
		if set != tool.Small {
			maps.DeleteFunc(own, func(name string, _ access.Level) bool { return slices.Contains(sets[set], name) })
		}
	}
	fmt.Fprintf(&list, "- `%s`: the tool of that name\n", strings.Join(slices.Sorted(maps.Keys(own)), "`, `"))
	requireTables(t, "docs/platforms.md", list.String())
}

// requireTables compares the generated tables of a page with what the code says, or
// writes them with -update.
func requireTables(t *testing.T, name string, tables ...string) {
	t.Helper()
	parts := strings.Split(string(read(t, name)), opening)
	if len(parts) != len(tables)+1 {
		t.Fatalf("%s has %d places for %d tables", name, len(parts)-1, len(tables))
	}
	for i, made := range tables {
		_, rest, ok := strings.Cut(parts[i+1], closing)
		if !ok {
			t.Fatalf("%s: the end of table %d is missing", name, i+1)
		}
		parts[i+1] = made + closing + rest
	}
	requirePage(t, name, strings.Join(parts, opening))
}

// requirePage compares a page with what the code says, or writes it with -update.
func requirePage(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, name)), want); diff != "" {
		t.Errorf("%s is not what the code says (go test ./internal/repo -run Docs -update):\n%s", name, diff)
	}
}
