package access_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }

func TestGrantZeroIsInvalid(t *testing.T) {
	var g access.Grant
	if err := decode(`{"principal":{"p":"telegram","id":"7","l":3},"rule":"x","Rule":"x","Principal":{"l":3}}`, &g); err != nil {
		t.Fatal(err)
	}
	if g.Valid() || g.Rule() != "" || g.Principal().Level != access.Nobody {
		t.Errorf("a grant was made from JSON: %+v", g)
	}
	for i := range reflect.TypeFor[access.Grant]().NumField() {
		if f := reflect.TypeFor[access.Grant]().Field(i); f.IsExported() {
			t.Errorf("Grant.%s can be set from outside", f.Name)
		}
	}
}

// Package internal/repo checks who calls OperatorGrant.
func TestGrantOnlyFromCheck(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var makers []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if name, isName := lit0(lit); ok && isName && name == "Grant" && len(lit.Elts) > 0 {
					makers = append(makers, fn.Name.Name)
				}
				return true
			})
		}
	}
	if got := fmt.Sprint(makers); got != "[OperatorGrant Check Check]" {
		t.Errorf("grants are made in %s, want only in Check and OperatorGrant", got)
	}
}

func lit0(lit *ast.CompositeLit) (string, bool) {
	if lit == nil {
		return "", false
	}
	id, ok := lit.Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

// A grant is stored as its principal, in the form that older versions have stored, and
// what was read is not valid.
func TestGrantIsStoredAsPrincipal(t *testing.T) {
	c, err := access.New(access.Policy{Config: access.Config{Owners: []string{"7"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := c.Check(chat.Inbound{Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}, Sender: chat.Person{ID: "7"}})
	raw, err := json.Marshal(inbox.Entry{Grant: g})
	if want := `"by":{"p":"telegram","id":"7","l":3}`; err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	var e inbox.Entry
	if err := decode(string(raw), &e); err != nil {
		t.Fatal(err)
	}
	if e.Grant.Valid() || e.Grant.Principal() != g.Principal() || !g.Valid() {
		t.Errorf("got %+v", e.Grant)
	}
	if low := g.AtMost(access.Guest); !low.Valid() || low.Principal().Level != access.Guest || low.AtMost(access.Owner).Principal().Level != access.Guest {
		t.Errorf("lowered: %+v", low)
	}
}

// A Grant that is created in another package does not compile, nor does an entry with
// what was not checked.
func TestGrantForgedDoesNotCompile(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to compile with")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	compile := func(body string) (string, error) {
		dir := t.TempDir()
		src := filepath.Join(dir, "probe.go")
		overlay := filepath.Join(dir, "overlay.json")
		text := "package probe\n\nimport (\n\"hermesd/gateway/access\"\n\"hermesd/gateway/chat\"\n\"hermesd/gateway/inbox\"\n)\n\nvar _ chat.Inbound\nvar _ inbox.Entry\n\nfunc F(p access.Principal) any { " + body + " }\n"
		if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "gateway/access/probe/probe.go"): src}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(overlay, b, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), tool, "build", "-overlay", overlay, "-o", os.DevNull, "./gateway/access/probe")
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := compile("return access.Grant{}.Valid()"); err != nil {
		t.Fatalf("an honest program does not compile: %v\n%s", err, out)
	}
	for _, body := range []string{
		`return access.Grant{principal: p, rule: "mine"}`,
		`return access.Grant{p, "mine"}`,
		`var g access.Grant; g.rule = "mine"; return g`,
		`return inbox.Entry{Grant: p}`,
		`var in chat.Inbound; return inbox.Entry{Inbound: in, Grant: in.Sender}`,
		`var e inbox.Entry; e.Grant.Principal().Level = access.Owner; return e`,
		`return access.Grant(struct{ principal access.Principal; rule string }{p, "mine"})`,
	} {
		if out, err := compile(body); err == nil || !strings.Contains(out, "probe.go") {
			t.Errorf("%s: compiles, or fails for another reason: %v\n%s", body, err, out)
		}
	}
}
