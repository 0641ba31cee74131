package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A separate line, or text in backquotes.
var commandLine = regexp.MustCompile("(?m)^(hermesd [^\n]+)$|`(hermesd [^`\n]+)`")

// spoken returns the command lines in a page; `a|b` counts as two.
func spoken(t *testing.T, page string) (all [][]string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range commandLine.FindAllStringSubmatch(string(raw), -1) {
		line := strings.ReplaceAll(m[1]+m[2], `\|`, "|")
		line, _, _ = strings.Cut(line, " | ") // into another program
		some := [][]string{nil}
		for word := range strings.FieldsSeq(line) {
			var next [][]string
			for _, before := range some {
				for w := range strings.SplitSeq(word, "|") {
					next = append(next, append(before[:len(before):len(before)], w))
				}
			}
			some = next
		}
		all = append(all, some...)
	}
	return all
}

// leaves calls visit for each command below cmd without subcommands.
func leaves(cmd *cobra.Command, visit func(*cobra.Command)) {
	subs := shown(cmd)
	for _, sub := range subs {
		leaves(sub, visit)
	}
	if len(subs) == 0 {
		visit(cmd)
	}
}

func TestEveryCommandIsInTheDocs(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "cli.md")
	named := map[string]bool{}
	for _, words := range spoken(t, page) {
		for i := range words {
			named[strings.Join(words[:i+1], " ")] = true
		}
	}
	leaves((&cli{}).root(), func(cmd *cobra.Command) {
		if !named[cmd.CommandPath()] {
			t.Errorf("docs/cli.md does not name `%s`", cmd.CommandPath())
		}
	})
}

// Text to be typed is unchanged in a rendered manual page, in every locale.
func TestManualPagesKeepWhatIsTyped(t *testing.T) {
	leaves((&cli{}).root(), func(cmd *cobra.Command) {
		page := manPage(cmd)
		if i := strings.IndexFunc(page, func(r rune) bool { return r >= '~' || r == '`' || r == '^' }); i >= 0 {
			t.Errorf("%s: %.20q", cmd.CommandPath(), page[i:])
		}
	})
	if got, want := roff("'x' ~/a… `b`\n.c\n'd \\e"), `\(aqx\(aq \(ti/a\[u2026] \(gab\(ga`+"\n\\&.c\n"+`\(aqd \ee`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The name of a command or a flag is followed by nothing, or by a placeholder in
// capitals or brackets.
func TestTheDocsNameOnlyCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, name := range []string{"README.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join("..", "..", name))
	}
	root := (&cli{}).root()
	for _, page := range pages {
		for _, words := range spoken(t, page) {
			line := strings.Join(words, " ")
			cmd, rest, err := root.Find(words[1:])
			if err != nil {
				t.Errorf("%s: `%s`: %v", page, line, err)
				continue
			}
			cmd.InitDefaultHelpFlag()
			for i, word := range rest {
				if word == "--" {
					break // what follows is an argument
				}
				flag, isFlag := strings.CutPrefix(strings.Trim(word, "[]."), "-")
				switch {
				case isFlag && known(cmd, flag):
				case isFlag:
					t.Errorf("%s: `%s`: there is no flag %s", page, line, word)
				case i == 0 && cmd.HasSubCommands():
					t.Errorf("%s: `%s`: there is no command %s", page, line, word)
				}
			}
		}
	}
}

func known(cmd *cobra.Command, flag string) bool {
	if long, ok := strings.CutPrefix(flag, "-"); ok {
		return cmd.Flag(long) != nil
	}
	return flag == "" || cmd.Flags().ShorthandLookup(flag) != nil // "-" alone is the input
}

// counted matches a number in front of a noun in the plural.
var counted = regexp.MustCompile(`%d (?:[a-z]+ ){0,2}[a-z]+s\b`)

// neverOne are parts of texts that it matches and whose number is never 1, or that give
// both forms.
var neverOne = []string{
	"%d tokens", "%d ms", "%d days", "fits %d sessions", "%d entries of %s are", "characters of", "wrong codes were", "larger than %d",
	"call %d begins", "it may have %d",
}

// TestCountsHaveForms finds texts of the command line and its services that would say
// "1 messages".
func TestCountsHaveForms(t *testing.T) {
	for _, dir := range []string{".", "../internal/doctor", "../internal/admin", "../internal/app", "../internal/tui", "../internal/tui/text", "../../gateway/access/pairing"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, src, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				l, ok := n.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(l.Value) // it was parsed
				if counted.MatchString(text) && !slices.ContainsFunc(neverOne, func(part string) bool { return strings.Contains(text, part) }) {
					t.Errorf("%s: %q", set.Position(l.Pos()), text)
				}
				return true
			})
		}
	}
}
