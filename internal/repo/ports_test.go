package repo_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxPort is the number of methods that a port of the store may have.
const maxPort = 8

// embedded are the interfaces outside of gateway/store that ports embed: their readers
// cannot import it.
var embedded = []string{"gateway/chat.Memory", "gateway/schedule.Store"}

// portTypes are the types of other packages that methods of the ports take and return:
// records, their names and their queries. Each other type is in gateway/store, so that a
// store can be written from there.
var portTypes = strings.Fields("context.Context json.RawMessage time.Duration time.Time chat.Account chat.Address inbox.Entry inbox.Lane ledger.Record " +
	"llm.Message outbox.ID outbox.Query outbox.Row outbox.Settlement prompt.Prefix session.Deleted session.ID session.Key session.Query session.Record session.Span")

// foreign matches the names of types of other packages.
var foreign = regexp.MustCompile(`\b[a-z]+\.[A-Z]\w*`)

// A method is one that an interface declares itself.
type method struct {
	name, doc string
	types     string // of parameters and results
}

// methodsOf returns the methods that an interface declares, and the interfaces that it
// embeds.
func methodsOf(t *testing.T, set *token.FileSet, it *ast.InterfaceType) (own []method, embeds []string) {
	for _, f := range it.Methods.List {
		fn, ok := f.Type.(*ast.FuncType)
		if !ok {
			embeds = append(embeds, exprText(t, set, f.Type))
			continue
		}
		var types []string
		for _, list := range []*ast.FieldList{fn.Params, fn.Results} {
			if list == nil {
				continue
			}
			for _, p := range list.List {
				for range max(1, len(p.Names)) {
					types = append(types, strings.ReplaceAll(exprText(t, set, p.Type), "store.", ""))
				}
			}
		}
		own = append(own, method{f.Names[0].Name, f.Doc.Text() + f.Comment.Text(), strings.Join(types, ", ")})
	}
	return own, embeds
}

func exprText(t *testing.T, set *token.FileSet, n ast.Node) string {
	t.Helper()
	var b bytes.Buffer
	if err := format.Node(&b, set, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// interfaces calls visit for each interface type that has a name.
func interfaces(t *testing.T, visit func(name string, own []method, embeds []string)) {
	sources(t, func(path, pkg string) {
		set, f := parse(t, path, parser.ParseComments)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					if it, ok := ts.Type.(*ast.InterfaceType); ok {
						own, embeds := methodsOf(t, set, it)
						visit(pkg+"."+ts.Name.Name, own, embeds)
					}
				}
			}
		}
	})
}

// suiteSource returns the source of the suite that every store must pass.
func suiteSource(t *testing.T) string {
	var all strings.Builder
	sources(t, func(path, pkg string) {
		if pkg == "storage/storagetest" {
			all.Write(read(t, path))
		}
	})
	return all.String()
}

// A port has few methods, no two have one in common, the suite of stores calls each, and an
// interface elsewhere that repeats one says of which port it is a view.
func TestPortsOfTheStore(t *testing.T) {
	const dir = "gateway/store."
	outside := map[string][]method{}
	ports := map[string][]method{}
	embeds := map[string][]string{}
	interfaces(t, func(name string, own []method, also []string) {
		switch {
		case name == dir+"Store": // all ports
		case strings.HasPrefix(name, dir):
			ports[name], embeds[name] = own, also
		default:
			outside[name] = own
		}
	})
	portOf := map[string]string{}
	typesOf := map[string]string{}
	for port := range ports {
		methods := ports[port]
		for _, e := range embeds[port] {
			if e = "gateway/" + e; !slices.Contains(embedded, e) {
				t.Errorf("%s embeds %s", port, e)
			}
			methods = append(methods, outside[e]...)
		}
		if len(methods) == 0 || len(methods) > maxPort {
			t.Errorf("%s has %d methods, at most %d are allowed", port, len(methods), maxPort)
		}
		for _, m := range methods {
			if other := portOf[m.name]; other != "" {
				t.Errorf("%s and %s both have %s", port, other, m.name)
			}
			portOf[m.name], typesOf[m.name] = port, m.types
			if slices.Contains(embeds[port], "schedule.Store") {
				continue // its types are those of schedule
			}
			for _, name := range foreign.FindAllString(m.types, -1) {
				if !slices.Contains(portTypes, name) {
					t.Errorf("%s of %s has a %s, which is neither of gateway/store nor a record", m.name, port, name)
				}
			}
		}
	}
	suite := suiteSource(t)
	for name, port := range portOf {
		if name != "Backup" && !strings.Contains(suite, "."+name+"(") { // see storagetest.Upkeep
			t.Errorf("storage/storagetest does not call %s of %s", name, port)
		}
	}
	if len(ports) < 8 {
		t.Errorf("%d ports found", len(ports))
	}
	for name, methods := range outside {
		if slices.Contains(embedded, name) {
			continue
		}
		for _, m := range methods {
			if port := portOf[m.name]; port != "" && m.name != "Close" && m.types == typesOf[m.name] && !strings.Contains(m.doc, "store.") {
				t.Errorf("%s repeats %s of %s: it must embed it, or its comment say which it is and why", name, m.name, port)
			}
		}
	}
}
