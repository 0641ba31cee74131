package cmdpolicy_test

import (
	"os"
	"strings"
	"testing"

	"hermesd/agent/cmdpolicy"
)

// places are the places of testdata/places.txt.
func places() map[string]cmdpolicy.Place {
	ann := []string{"/home/ann"}
	own := func(home string) []string {
		var out []string
		for _, n := range []string{".env", "config.yaml", "hermesd.db", "http.key", "memories"} {
			out = append(out, home+"/"+n)
		}
		return append(out, home)
	}
	return map[string]cmdpolicy.Place{
		"inner":   {Dir: "/home/ann/.hermes/workspace", Workspace: []string{"/home/ann/.hermes/workspace"}, Homes: ann, Own: own("/home/ann/.hermes")},
		"sub":     {Dir: "/home/ann/.hermes/workspace/sub", Workspace: []string{"/home/ann/.hermes/workspace"}, Homes: ann, Own: own("/home/ann/.hermes")},
		"outer":   {Dir: "/home/ann/proj", Homes: ann, Own: own("/home/ann/.hermes")},
		"service": {Dir: "/srv/bot/work", Workspace: []string{"/srv/bot/work", "/var/bot/work"}, Readable: []string{"/srv/bot/cache/media"}, Homes: []string{"/var/lib/bot"}, Own: own("/srv/bot")},
		"data":    {Dir: "/srv/bot", Workspace: []string{"/srv/bot"}, Homes: []string{"/var/lib/bot"}, Own: own("/srv/bot")},
		"home":    {Dir: "/home/ann", Homes: ann, Own: own("/home/ann/.hermes")},
		"hooks":   {Dir: "/home/ann/proj/.git/hooks", Workspace: []string{"/home/ann/proj"}, Homes: ann, Own: own("/home/ann/.hermes")},
	}
}

// TestCommandsAreJudgedWhereTheyRun: a relative name has the result of the absolute name.
func TestCommandsAreJudgedWhereTheyRun(t *testing.T) {
	raw, err := os.ReadFile("testdata/places.txt")
	if err != nil {
		t.Fatal(err)
	}
	results := map[cmdpolicy.Decision]string{cmdpolicy.Run: "allow", cmdpolicy.Ask: "ask", cmdpolicy.Block: "block"}
	for n, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, "\t", 3)
		p, ok := places()[f[0]]
		if len(f) != 3 || !ok {
			t.Fatalf("line %d: %q is no case", n+1, line)
		}
		r := cmdpolicy.Evaluate(f[2], p)
		want, known := strings.CutPrefix(f[1], "(")
		want = strings.TrimSuffix(want, ")")
		switch got := results[r.Decision]; {
		case known && got == want:
			t.Errorf("line %d: it is found now; remove the parentheses: %s", n+1, line)
		case !known && got != want:
			t.Errorf("line %d: %s: got %s %v", n+1, line, got, r.Rules)
		}
	}
}
