package main

import (
	"os"
	"path/filepath"
	"regexp"
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
