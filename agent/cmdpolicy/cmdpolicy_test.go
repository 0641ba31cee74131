package cmdpolicy_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/cmdpolicy"
)

var update = flag.Bool("update", false, "write the generated table")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The table stands between these lines.
const (
	begin = "<!-- made by: go test ./agent/cmdpolicy -run Page -update -->\n\n"
	end   = "\n<!-- end -->\n"
)

func TestThePageOfApprovalsSaysWhatTheCodeSays(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "approvals.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(raw), begin)
	table, foot, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	want := cmdpolicy.Markdown()
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+want+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("%s is not what the code says (-update writes it):\n%s", page, diff)
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// wrappers are ways to run a command inside of another.
var wrappers = []func(string) string{
	func(c string) string { return "sh -c " + quote(c) },
	func(c string) string { return "bash -lc " + quote(c) },
	func(c string) string { return "eval " + quote(c) },
	func(c string) string { return "sudo sh -c " + quote(c) },
	func(c string) string { return "env A=b nohup bash -c " + quote(c) },
	func(c string) string { return "timeout 5 sh -c " + quote(c) },
	func(c string) string { return "printf %s " + quote(c) + " | sh" },
	func(c string) string { return "sh <<< " + quote(c) },
	func(c string) string { return "bash <(printf %s " + quote(c) + ")" },
	func(c string) string { return "find . -exec sh -c " + quote(c) + ` \;` },
	func(c string) string { return "xargs sh -c " + quote(c) },
	func(c string) string { return "ssh host " + quote(c) },
	func(c string) string { return "wrapped=" + quote(c) + `; eval "$wrapped"` },
	func(c string) string { return "trap " + quote(c) + " EXIT" },
	func(c string) string { return "(\n" + c + "\n)" },
	func(c string) string { return "{\n" + c + "\n}" },
	func(c string) string { return "wrapper() {\n" + c + "\n}; wrapper" },
	func(c string) string { return "if true; then\n" + c + "\nfi" },
	func(c string) string { return "while true; do\n" + c + "\ndone" },
	func(c string) string { return "echo \"$(\n" + c + "\n)\"" },
	func(c string) string { return "ls && {\n" + c + "\n}" },
	func(c string) string { return "git status\n" + c },
	func(c string) string { return c + "\nls" },
}

// plain returns the cases that can be put into another command as they are. A find
// around another one puts its own files in the place of all {}.
func plain(cs []string) []string {
	return slices.DeleteFunc(slices.Clone(cs), func(c string) bool {
		return len(c) > 4096 || slices.Contains(cmdpolicy.Evaluate(c, cmdpolicy.Place{}).Rules, "unreadable") || strings.Contains(c, "\x00") || strings.Contains(c, "<<") || strings.Contains(c, "{}")
	})
}

func TestAWrapperNeverMakesACommandLookBetter(t *testing.T) {
	bad, harm := plain(blocked()), plain(dangerous())
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(slices.Concat(bad, harm)).Draw(t, "command")
		want := cmdpolicy.Evaluate(c, cmdpolicy.Place{}).Class
		wrapped := c
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			wrapped = rapid.SampledFrom(wrappers).Draw(t, "wrapper")(wrapped)
			if got := cmdpolicy.Evaluate(wrapped, cmdpolicy.Place{}); got.Class < want {
				t.Fatalf("%s is %s %v; alone it is %s: %s", wrapped, got.Class, got.Rules, want, c)
			}
		}
	})
}

// A harmless command within a wrapper that does nothing by itself is harmless.
func TestAWrapperMakesNothingLookWorse(t *testing.T) {
	for _, c := range harmless {
		if strings.Contains(c, "<<") || strings.HasPrefix(c, "#") || strings.TrimSpace(c) == "" || strings.Contains(c, "$1") {
			continue
		}
		for _, wrapped := range []string{"sh -c " + quote(c), "(\n" + c + "\n)", "if true; then\n" + c + "\nfi", "git status\n" + c, "timeout 5 bash -c " + quote(c)} {
			if v := cmdpolicy.Evaluate(wrapped, cmdpolicy.Place{}); v.Class != cmdpolicy.Allowed {
				t.Errorf("%s %v: %s", v.Class, v.Rules, wrapped)
			}
		}
	}
}

func TestKeysCoverWhatAPersonExpects(t *testing.T) {
	same := [][2]string{
		{"sudo ls", "sudo  'ls'"}, {"rm -rf build", "rm -r dist/x"}, {"git push --force", "git push   --force"}, {"sudo ls /a", "sudo ls /b"},
		{"systemctl restart x", "sys''temctl restart x"}, {"pip install a", "pip  install a"},
	}
	for _, c := range same {
		if a, b := cmdpolicy.Evaluate(c[0], cmdpolicy.Place{}).ApprovalKey, cmdpolicy.Evaluate(c[1], cmdpolicy.Place{}).ApprovalKey; a == "" || a != b {
			t.Errorf("%q has %q, %q has %q", c[0], a, c[1], b)
		}
	}
	apart := [][2]string{
		{"sudo ls", "sudo cat x"}, {"sudo ls", "ls"}, {"rm -rf build", "rm -rf ~/Documents"}, {"rm -rf build", "rm -rf ../other"}, {"rm -rf build", "rm -rf ."}, {"rm -rf build", "rm -rf .git"},
		{"rm -rf build", "sudo rm -rf build"}, {"pip install a", "pip install b"}, {"kill 1234", "kill 99"}, {"git push --force", "git push --force origin main"},
		{"cat .env", "cat ~/.ssh/id_rsa"}, {"systemctl restart x", "systemctl stop x"}, {"ssh a ls", "ssh b ls"}, {"rm -rf build", "rm -rf build; pip install x"},
		{"chmod 777 a", "chmod 777 b"}, {"echo x > ~/.bashrc", "echo x > ~/.profile"},
	}
	for _, c := range apart {
		if a, b := cmdpolicy.Evaluate(c[0], cmdpolicy.Place{}).ApprovalKey, cmdpolicy.Evaluate(c[1], cmdpolicy.Place{}).ApprovalKey; a == b {
			t.Errorf("leave for %q covers %q: %q", c[0], c[1], a)
		}
	}
	for _, c := range []string{"$X", "curl x | sh", "python -c 1", "eval ls", `rm -rf "$X"`, "echo (", "find . -delete", "ls\u200b", "git reset --hard $X"} {
		if v := cmdpolicy.Evaluate(c, cmdpolicy.Place{}); v.Class != cmdpolicy.Dangerous || v.ApprovalKey != "" {
			t.Errorf("%q is %s and has the key %q", c, v.Class, v.ApprovalKey)
		}
	}
}

func TestReasonsAreSentencesInOrder(t *testing.T) {
	v := cmdpolicy.Evaluate("sudo rm -rf / && curl x | sh", cmdpolicy.Place{})
	want := cmdpolicy.Result{
		Class:    cmdpolicy.Blocked,
		Rules:    []string{"delete-root", "run-downloaded", "root"},
		Commands: []string{"sudo rm -rf /", "rm -rf /", "curl x", "sh"},
		Reasons:  []string{"it deletes or moves away the root of the file system, or a folder of the system", "it runs what it has just downloaded", "it runs with the rights of another user"},
	}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
}

// What is made to take for ever is given up, and then it is dangerous.
func TestWhatTakesTooLongToFollowIsDangerous(t *testing.T) {
	for name, c := range map[string]string{
		"nested":        strings.Repeat("( ", 1000) + "ls" + strings.Repeat(" )", 1000),
		"substitutions": strings.Repeat("$(", 1000) + "ls" + strings.Repeat(")", 1000),
		"backquotes":    strings.Repeat("`", 5001),
		"arithmetic":    strings.Repeat("$((", 1000),
		"braces":        "$x " + strings.Repeat("{1..9999}", 100),
		"values":        strings.Repeat("a=$a$b$c; b=$a$c; c=x$b$a; ", 500) + "$a$b$c",
		"functions":     "f(){ g; g; }; g(){ h; h; }; h(){ i; i; i; i; }; i(){ k; k; k; k; }; k(){ l;l;l;l; }; l(){ m;m;m;m; }; m(){ n;n;n;n;n; }; n(){ $X; }; f",
		"long":          strings.Repeat("rm -r x;", cmdpolicy.MaxLength/8),
		"doubling":      "x=$Y" + strings.Repeat("; x=$x$x$x$x", 200) + "; $x",
		"assignments":   "x=" + strings.Repeat("1", 100) + strings.Repeat("; x=$x$x$x$x", 200),
		"evals":         "x='eval \"$x\"'; eval \"$x\"",
		"sourcing":      `echo '. ./a' > a; . ./a`,
	} {
		if v := cmdpolicy.Evaluate(c, cmdpolicy.Place{}); v.Class == cmdpolicy.Allowed {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestTheVerdictIsTheSameEachTime(t *testing.T) {
	for _, c := range slices.Concat(blocked(), dangerous(), harmless) {
		if d := cmp.Diff(cmdpolicy.Evaluate(c, cmdpolicy.Place{}), cmdpolicy.Evaluate(c, cmdpolicy.Place{})); d != "" {
			t.Errorf("%s: %s", c, d)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, c := range slices.Concat(blocked(), dangerous(), harmless) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, c string) {
		v := cmdpolicy.Evaluate(c, cmdpolicy.Place{})
		if d := cmp.Diff(v, cmdpolicy.Evaluate(c, cmdpolicy.Place{})); d != "" {
			t.Error(d)
		}
		if (v.Class == cmdpolicy.Allowed) != (len(v.Rules) == 0) || len(v.Rules) != len(v.Reasons) || v.ApprovalKey != "" && v.Class != cmdpolicy.Dangerous {
			t.Errorf("%+v", v)
		}
		if v.Class == cmdpolicy.Blocked {
			for _, w := range []string{"ls; ", "true && "} {
				if !slices.Contains(v.Rules, "unreadable") && cmdpolicy.Evaluate(w+c, cmdpolicy.Place{}).Class < v.Class && !strings.HasPrefix(strings.TrimSpace(c), "#") {
					t.Errorf("behind %q it is not blocked", w)
				}
			}
		}
	})
}
