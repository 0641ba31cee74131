package i18n_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
)

func printer(t *testing.T, language string) i18n.Printer {
	t.Helper()
	p, err := i18n.For(language)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestZeroPrinterIsEnglish(t *testing.T) {
	for _, p := range []i18n.Printer{{}, printer(t, ""), printer(t, "en")} {
		if got, want := p.T("about %d tokens, %.1f %%, %v", 12345, 1.5, 90*time.Second), "about 12345 tokens, 1.5 %, 1m30s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := p.Translate("show 100 % of it"); got != "show 100 % of it" {
			t.Errorf("got %q", got)
		}
	}
}

func TestGerman(t *testing.T) {
	p := printer(t, "de")
	for _, tt := range []struct{ got, want string }{
		{p.T("Nothing is running."), "Gerade läuft nichts."},
		{p.T("- `%s` %s, %d messages", "id", "today", 1), "- `id` today, 1 Nachricht"},
		{p.T("- `%s` %s, %d messages", "id", "today", 12345), "- `id` today, 12.345 Nachrichten"},
		{p.T("- `%s` %s, %d messages", "id", "today", 0), "- `id` today, 0 Nachrichten"},
		{p.T("nobody has translated %s and %d", "this", 5), "nobody has translated this and 5"},
		{p.Translate("a row of a table"), "a row of a table"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestLocalizeError(t *testing.T) {
	p := printer(t, "de")
	disk := errors.New("disk full")
	inner := i18n.Errorf("files cannot be sent here")
	for _, tt := range []struct {
		err         error
		english, de string
	}{
		{inner, "files cannot be sent here", "hierher lassen sich keine Dateien schicken"},
		{disk, "disk full", "disk full"},
		{errors.Join(inner, disk), "files cannot be sent here\ndisk full", "hierher lassen sich keine Dateien schicken\ndisk full"},
		{silentWrapper{inner}, "files cannot be sent here", "hierher lassen sich keine Dateien schicken"},
		{fmt.Errorf("send: %w", inner), "send: files cannot be sent here", "send: files cannot be sent here"},
		{i18n.Errorf("It could not be deleted: %v.", inner), "It could not be deleted: files cannot be sent here.", "Es ließ sich nicht löschen: hierher lassen sich keine Dateien schicken."},
		{i18n.Errorf("It could not be deleted: %v.", disk), "It could not be deleted: disk full.", "Es ließ sich nicht löschen: disk full."},
	} {
		if got := tt.err.Error(); got != tt.english {
			t.Errorf("the error is %q, want %q", got, tt.english)
		}
		if got := (i18n.Printer{}).LocalizeError(tt.err); got != tt.english {
			t.Errorf("in English %q, want %q", got, tt.english)
		}
		if got := p.LocalizeError(tt.err); got != tt.de {
			t.Errorf("got %q, want %q", got, tt.de)
		}
	}
	if got := p.T("It could not be deleted: %v.", inner); got != "Es ließ sich nicht löschen: hierher lassen sich keine Dateien schicken." {
		t.Errorf("an error among the arguments: %q", got)
	}
	if !errors.Is(i18n.Errorf("It could not be deleted: %v.", disk), disk) {
		t.Error("what is among the arguments is not wrapped")
	}
	if got := p.T("Nothing has happened for %v. I give up after %v.", 90*time.Second, 3*time.Minute); got != "Seit 1m30s ist nichts passiert. Nach 3m0s gebe ich auf." {
		t.Errorf("times: %q", got)
	}
}

// silentWrapper wraps an error without changing its text.
type silentWrapper struct{ error }

func (s silentWrapper) Unwrap() error { return s.error }

func TestForUnknownLanguage(t *testing.T) {
	for _, name := range []string{"xx", "../words", "de.yaml", "/etc/passwd"} {
		if _, err := i18n.For(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestPrinterConcurrently(t *testing.T) {
	p := printer(t, "de")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				if got, want := p.T("nobody has translated %s and %d", "this", i), fmt.Sprintf("nobody has translated this and %d", i); got != want {
					t.Errorf("got %q, want %q", got, want)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestCatalogRepeatNoticeFits(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		mark := printer(t, strings.TrimSuffix(path, ".yaml")).Translate(outbox.RepeatNotice)
		if mark == "" || len(mark) > len(outbox.RepeatNotice) || strings.ContainsFunc(mark, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s: %q is longer than the room that each piece leaves, or not ASCII", path, mark)
		}
	}
}

func TestCatalogMenusAndButtonsFit(t *testing.T) {
	// The limits of the platforms in characters. Descriptions: Telegram 256, Discord
	// 100, 100 in the Slack manifest. Buttons: Discord 80, Slack 75. The smallest
	// ones apply.
	const help, label = 100, 75
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range append(paths, "en") {
		p := printer(t, strings.TrimSuffix(path, ".yaml"))
		menu := command.Menu(command.Localized(p, command.Specs()), access.Owner)
		if len(menu) < 30 {
			t.Fatalf("the menu has only %d commands", len(menu))
		}
		for _, it := range menu {
			if n := utf8.RuneCountInString(it.Help); n == 0 || n > help || strings.ContainsAny(it.Help, "\n\t") {
				t.Errorf("%s: /%s is described in %d characters, or not in one line: %q", path, it.Name, n, it.Help)
			}
		}
		for _, english := range []string{"what follows the command", "Ask, or give any command", "[command or question]", "Your agent"} {
			if n := utf8.RuneCountInString(p.Translate(english)); n > help {
				t.Errorf("%s: %q has %d characters", path, p.Translate(english), n)
			}
		}
		for _, english := range []string{"Allow once", "Deny", "For this conversation", "Always", "Delete it", "Keep it", "Restart", "Cancel"} {
			if n := utf8.RuneCountInString(p.Translate(english)); n > label {
				t.Errorf("%s: the button %q has %d characters", path, p.Translate(english), n)
			}
		}
	}
}

// entry is the translation of one sentence, as texts.
type entry struct {
	main  string
	forms []string // the plural forms; the singular ones need not contain the number
	one   []string
}

func file(t *testing.T, path string) map[string]entry {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var nodes map[string]any
	if err := yaml.Unmarshal(raw, &nodes); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]entry)
	for english, v := range nodes {
		switch v := v.(type) {
		case string:
			all[english] = entry{main: v}
		case map[string]any:
			var e entry
			for name, part := range v {
				if name == "text" {
					e.main, _ = part.(string)
					continue
				}
				f, ok := part.(map[string]any)
				one, _ := f["one"].(string)
				other, _ := f["other"].(string)
				if arg, _ := f["arg"].(int); !ok || arg < 1 || one == "" || other == "" {
					t.Errorf("%q: %s needs arg (from 1 on), one and other", english, name)
				}
				if !strings.Contains(v["text"].(string), "${"+name+"}") {
					t.Errorf("%q: its text does not name ${%s}", english, name)
				}
				e.forms, e.one = append(e.forms, other), append(e.one, one)
			}
			all[english] = e
		default:
			t.Errorf("%q has neither a text nor forms", english)
		}
	}
	return all
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z%])`)

// verbs adds the verb of each argument of text, counted from 1.
func verbs(text string, into map[int]string) error {
	next := 1
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[2] == "%" {
			continue
		}
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		if was, ok := into[next]; ok && was != m[2] {
			return fmt.Errorf("argument %d is %%%s and %%%s", next, was, m[2])
		}
		into[next] = m[2]
		next++
	}
	return nil
}

// explicit reports whether each verb of text has an explicit argument index.
func explicit(text string) bool {
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[2] != "%" && m[1] == "" {
			return false
		}
	}
	return true
}

// roots are the directories with sentences for users.
var roots = []string{"..", "../../hygiene", "../../adapters", "../../cmd/internal/app", "../../cmd/internal/admin"}

// collectSentences returns the sentences of the code, each with one position.
func collectSentences(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, root := range roots {
		err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return collectFrom(t, dir, all)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, file := range map[string]string{"contextfile": "contextfile.go", "engine/internal/compaction": "pass.go", "engine/plugin": "engine.go"} {
		if err := collectFrom(t, filepath.Join("../../agent", dir), all, file); err != nil {
			t.Fatal(err)
		}
	}
	for path, reason := range map[string]string{ // shown as the reason of an approval request
		"../../agent/cmdpolicy/table.txt": `(?m)^rule \S+ \S+ (.+)$`, "../../agent/protected/protected.go": `(?m)^\t\w+ += "(it changes .+)"$`,
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(reason).FindAllStringSubmatch(string(raw), -1)
		if len(found) < 8 {
			t.Fatalf("%s has only %d reasons", path, len(found))
		}
		for _, m := range found {
			all[m[1]] = path
		}
	}
	all[outbox.RepeatNotice] = "gateway/outbox"
	for _, s := range []chat.State{chat.Connecting, chat.Connected, chat.Retrying, chat.Failed} {
		all[string(s)] = "gateway/chat, the states of an account"
	}
	for _, s := range []schedule.OccurrenceState{schedule.Running, schedule.Ran, schedule.Skipped, schedule.Missed} {
		all[string(s)] = "gateway/schedule, the states of an occurrence"
	}
	for _, r := range []schedule.Result{schedule.OK, schedule.Failed, schedule.Pending} {
		all[string(r)] = "gateway/schedule, the results of runs"
	}
	var asked, done schedule.Job
	asked.State.ManualRunAt, done.State.Done = time.Now(), true
	for _, j := range []schedule.Job{{}, {Paused: true}, asked, done} {
		all[j.Status()] = "gateway/schedule, the states of a job"
	}
	return all
}

// collectFrom adds the sentences of one package, or of some of its files.
func collectFrom(t *testing.T, dir string, all map[string]string, only ...string) error {
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var parsed []*ast.File
	constants := make(map[string]ast.Expr)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || len(only) > 0 && !slices.Contains(only, filepath.Base(name)) {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i := range min(len(v.Names), len(v.Values)) {
					constants[v.Names[i].Name] = v.Values[i]
				}
			}
			return true
		})
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			var e ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if isSentence(n) {
					e = n.Args[0]
				}
			case *ast.KeyValueExpr: // the help of a command
				lit, said := n.Value.(*ast.BasicLit)
				if id, ok := n.Key.(*ast.Ident); ok && said && id.Name == "Help" && filepath.Base(dir) == "command" {
					e = lit
				}
			}
			if e == nil {
				return true
			}
			text, err := constantText(e, constants)
			if err != nil {
				t.Errorf("%s: %v", set.Position(e.Pos()), err)
				return true
			}
			all[text] = set.Position(e.Pos()).String()
			return true
		})
	}
	return nil
}

// isSentence reports whether the first argument of a call is a sentence.
func isSentence(n *ast.CallExpr) bool {
	if len(n.Args) == 0 || n.Ellipsis.IsValid() { // a forwarded sentence is found at its origin
		return false
	}
	if id, ok := n.Fun.(*ast.Ident); ok {
		return id.Name == "invalid" || id.Name == "instead" // of gateway/schedule, of Reader.Soul
	}
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch sel.Sel.Name {
	case "T", "Explain": // Explain of agent.Compaction
		return true
	case "N", "Errorf":
		in, ok := sel.X.(*ast.Ident)
		return ok && in.Name == "i18n"
	}
	return false
}

// shownArgs returns the expressions of a node that are shown to users: a text that is
// sent, put on a preview or used as a button label.
func shownArgs(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if x, ok := sel.X.(*ast.SelectorExpr); ok && isName(x.Sel, "opts") && sel.Sel.Name == "Say" {
			return nil // Options.Say of the app: the terminal of the operator
		}
		switch sel.Sel.Name {
		case "Say", "SendNotice", "notify", "endTooOld", "Note", "ShowStatus", "notices", "render", "Render":
			return n.Args
		}
	case *ast.CompositeLit:
		var of []ast.Expr
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && isName(kv.Key, "Label") || ok && isName(kv.Key, "Text") && isResult(n.Type) {
				of = append(of, kv.Value)
			}
		}
		return of
	}
	return nil
}

// isResult reports whether e is the type command.Result.
func isResult(e ast.Expr) bool {
	if sel, ok := e.(*ast.SelectorExpr); ok && isName(sel.X, "command") {
		e = sel.Sel
	}
	return isName(e, "Result")
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

var english = regexp.MustCompile(`[A-Za-z]{2,} [A-Za-z]{2,}|^[A-Z][a-z]+`)

// TestShownTextIsTranslated finds English literals that are sent without
// translation. It does not find text in variables.
func TestShownTextIsTranslated(t *testing.T) {
	places := 0
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if d.Name() == "adaptertest" {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				for _, e := range shownArgs(n) {
					places++
					literals(e, func(lit *ast.BasicLit) {
						t.Errorf("%s: %s is shown in no language but English", set.Position(lit.Pos()), lit.Value)
					})
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if places < 100 {
		t.Errorf("only %d places are found at which something is shown", places)
	}
}

// literals calls bad for each English text in e that is not translated.
func literals(e ast.Expr, bad func(*ast.BasicLit)) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !isSentence(n)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && english.MatchString(text) {
				bad(n)
			}
		}
		return true
	})
}

var errNotConstant = errors.New("a sentence must be a constant, so that it can be found")

// constantText returns the value of a constant string expression.
func constantText(e ast.Expr, of map[string]ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		x, err := constantText(e.X, of)
		if err != nil {
			return "", err
		}
		y, err := constantText(e.Y, of)
		return x + y, err
	case *ast.Ident:
		if v, ok := of[e.Name]; ok {
			return constantText(v, of)
		}
	}
	return "", errNotConstant
}

func TestCatalogIsComplete(t *testing.T) {
	code := collectSentences(t)
	if len(code) < 100 {
		t.Fatalf("only %d sentences are found in the code", len(code))
	}
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		has := file(t, path)
		for _, english := range slices.Sorted(maps.Keys(code)) {
			e, ok := has[english]
			if !ok && path == "en.yaml" {
				continue // it is used as it is
			}
			if !ok {
				t.Errorf("%s has nothing for %q (%s)", path, english, code[english])
				continue
			}
			compare(t, path, english, e)
		}
		for english := range has {
			if _, ok := code[english]; !ok {
				t.Errorf("%s has %q, which nothing says", path, english)
			}
		}
	}
}

var plural = regexp.MustCompile(`%d (?:[a-z]+ )?[a-z]+s\b`)

// neverOne are parts of sentences whose number is a limit above one, or the number of
// things of which there are several.
var neverOne = []string{
	"tokens", "characters", "files at most", "skills, targets", "crashed %d times", "these %d messages", "%d hours", "%d days", "%d is not from",
	"%d conversations fit", "pending requests", "chats of", "%d accounts", "%d jobs are called", "the server answers",
}

// TestNumbersHaveForms checks that a number in front of a noun has plural forms in each
// language, unless it cannot be one.
func TestNumbersHaveForms(t *testing.T) {
	en, de := file(t, "en.yaml"), file(t, "de.yaml")
	for text, at := range collectSentences(t) {
		if !plural.MatchString(text) || slices.ContainsFunc(neverOne, func(part string) bool { return strings.Contains(text, part) }) && len(en[text].forms) == 0 {
			continue
		}
		if len(en[text].forms) == 0 || len(de[text].forms) == 0 {
			t.Errorf("%s: %q has no form for one in en.yaml or de.yaml", at, text)
		}
	}
}

func TestEnglishForms(t *testing.T) {
	var p i18n.Printer
	for _, tt := range []struct{ got, want string }{
		{p.T("- `%s` %s, %d messages", "id", "today", 0), "- `id` today, 0 messages"},
		{p.T("- `%s` %s, %d messages", "id", "today", 1), "- `id` today, 1 message"},
		{p.T("- `%s` %s, %d messages", "id", "today", 12345), "- `id` today, 12345 messages"},
		{p.T("- now: %s, %d messages wait", "idle", 1), "- now: idle, 1 message waits"},
		{p.T("The conversation is deleted: %d messages, %d files. What a platform shows of it is the platform's; delete it there.", 2, 1),
			"The conversation is deleted: 2 messages, 1 file. What a platform shows of it is the platform's; delete it there."},
		{p.T("The %d commands that it runs in the background are ended.", 1), "The command that it runs in the background is ended."},
		{i18n.Errorf("%d minutes", 1).Error(), "1 minute"},
		{p.T("%v", i18n.Errorf("%d minutes", 1)), "1 minute"},
		{printer(t, "de").T("The %d commands that it runs in the background are ended.", 1), "Der Befehl, den es im Hintergrund laufen hat, wird beendet."},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// compare reports a translation whose arguments or whose leading or trailing white space
// differ from those of the sentence.
func compare(t *testing.T, path, english string, e entry) {
	t.Helper()
	want, got, one := map[int]string{}, map[int]string{}, map[int]string{}
	if err := verbs(english, want); err != nil {
		t.Errorf("%q: %v", english, err)
	}
	for _, text := range append([]string{e.main}, e.forms...) {
		if len(e.forms) > 0 && !explicit(text) {
			t.Errorf("%s: %q: where numbers have forms, each verb says its argument: %%[1]d", path, english)
		}
		if err := verbs(text, got); err != nil {
			t.Errorf("%s: %q: %v", path, english, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %q shows other arguments:\n%s", path, english, diff)
	}
	for _, text := range e.one {
		if err := verbs(text, one); err != nil || !explicit(text) {
			t.Errorf("%s: %q: the form for one: %v, or a verb does not say its argument", path, english, err)
		}
	}
	for i, v := range one {
		if want[i] != v {
			t.Errorf("%s: %q: the form for one shows argument %d as %%%s", path, english, i, v)
		}
	}
	for _, trim := range []string{"\n", " "} {
		if strings.HasSuffix(english, trim) != strings.HasSuffix(e.main, trim) || strings.HasPrefix(english, trim) != strings.HasPrefix(e.main, trim) {
			t.Errorf("%s: %q begins or ends with other white space", path, english)
		}
	}
}
