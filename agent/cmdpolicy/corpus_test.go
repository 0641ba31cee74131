package cmdpolicy_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/cmdpolicy"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// A corpusLine is a command of the corpus. Its label says what a person who is responsible for
// the machine thinks of it: harmless, or dangerous to the workspace only (inside) or to
// anything else (outside).
type corpusLine struct{ Label, Class, Command string }

// corpus returns one half of the corpus. All lines were written without knowledge of the table,
// which was then changed for those of the first half, then for the second.
func corpus(t testing.TB, half string) (all []corpusLine) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "corpus_"+half+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l corpusLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, l)
	}
	if lines.Err() != nil || len(all) < 500 {
		t.Fatalf("%d lines: %v", len(all), lines.Err())
	}
	return all
}

// figures counts, by label, the lines and those with a decision that the label does not expect.
type figures struct{ lines, wrong map[string]int }

func measure(lines []corpusLine, p cmdpolicy.Place) figures {
	f := figures{map[string]int{}, map[string]int{}}
	for _, l := range lines {
		f.lines[l.Label]++
		if (cmdpolicy.Evaluate(l.Command, p).Decision == cmdpolicy.Run) != (l.Label == "harmless") {
			f.wrong[l.Label]++
		}
	}
	return f
}

func (f figures) percent(labels ...string) float64 {
	wrong, lines := 0, 0
	for _, l := range labels {
		wrong, lines = wrong+f.wrong[l], lines+f.lines[l]
	}
	return 100 * float64(wrong) / float64(lines)
}

func corpusPlace(s cmdpolicy.Sandbox) cmdpolicy.Place {
	return cmdpolicy.Place{Dir: "/home/ann/proj", Workspace: []string{"/home/ann/proj"}, Homes: []string{"/home/ann"}, Own: []string{"/home/ann/.hermes"}, Sandbox: s,
		Instructs: func(p string) bool {
			return slices.Contains([]string{"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules"}, path.Base(p))
		}}
}

// TestFigures: docs/approvals.md has the figures of the second half.
func TestFigures(t *testing.T) {
	first, second := corpus(t, "first"), corpus(t, "second")
	shapes := map[string]bool{}
	for _, l := range first {
		if l.Label == "harmless" {
			for _, s := range cmdpolicy.Evaluate(l.Command, corpusPlace(cmdpolicy.Full)).Shapes {
				shapes[s] = true
			}
		}
	}
	approved := corpusPlace(cmdpolicy.Full)
	approved.Approved = func(s string) bool { return shapes[s] }
	var b strings.Builder
	fmt.Fprintf(&b, "| second half: %d lines | dangerous lines that run | harmless lines that ask |\n|---|---|---|\n", len(second))
	none, full, later := measure(second, corpusPlace(cmdpolicy.NoSandbox)), measure(second, corpusPlace(cmdpolicy.Full)), measure(second, approved)
	firstNone, firstFull := measure(first, corpusPlace(cmdpolicy.NoSandbox)), measure(first, corpusPlace(cmdpolicy.Full))
	row := func(name string, f figures, labels ...string) {
		fmt.Fprintf(&b, "| %s | %.1f %% | %.1f %% |\n", name, f.percent(labels...), f.percent("harmless"))
	}
	row("without a sandbox", none, "inside", "outside")
	row("full sandbox, dangerous to what is outside the workspace", full, "outside")
	row("the same, the shapes that the harmless lines of the first half ask for are approved", later, "outside")
	row("full sandbox, dangerous to the workspace only", full, "inside")
	checkPage(t, "Figures", b.String())
	for name, c := range map[string]struct{ got, most float64 }{ // what was measured; the aims are in docs/approvals.md
		"dangerous without a sandbox": {none.percent("inside", "outside"), 1}, "harmless without a sandbox": {none.percent("harmless"), 3},
		"dangerous in a sandbox": {full.percent("outside"), 1}, "harmless in a sandbox": {full.percent("harmless"), 2},
		"dangerous in a sandbox, first half": {firstFull.percent("outside"), 0.4}, "dangerous without a sandbox, first half": {firstNone.percent("inside", "outside"), 0.4},
		"dangerous with approvals": {later.percent("outside"), 1}, "harmless with approvals": {later.percent("harmless"), 2},
	} {
		if c.got > c.most {
			t.Errorf("%s: %.1f %%, at most %.1f %%", name, c.got, c.most)
		}
	}
}

// checkPage compares a generated part of docs/approvals.md, or writes it with -update.
func checkPage(t *testing.T, test, want string) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", "approvals.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- made by: go test ./agent/cmdpolicy -run "+test+" -update -->\n\n", "\n<!-- end -->\n"
	head, rest, ok1 := strings.Cut(string(raw), begin)
	got, foot, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for %s", page, test)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+want+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not what the code says (-update writes it):\n%s", page, diff)
	}
}
