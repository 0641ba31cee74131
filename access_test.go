package hermesd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
)

// eventEffects maps each event kind to its description and to the effect of an
// event of an authorized sender.
func eventEffects() map[chat.EventKind][2]string {
	return map[chat.EventKind][2]string{
		chat.Message:  {"a text, a file, an album, a voice", "a turn, or a command"},
		chat.Edit:     {"an earlier message is changed", "replaces the text of a message that still waits"},
		chat.Callback: {"a button of ours is pressed", "the command that the button holds, by who presses it"},
		chat.Migrated: {"a chat has a new id, as the platform says", "conversations, scheduled prompts, what waits and what is to be sent follow, and lists that name the old id; nobody speaks by it"},
	}
}

// kinds returns the values of the constants of type chat.EventKind, in order.
func kinds(t *testing.T) (out []chat.EventKind) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("gateway", "chat", "chat.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
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

func accessPage(t *testing.T) string {
	var b strings.Builder
	line := func(cells ...string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	b.WriteString(accessTop)
	line("rule", "who", "level")
	line("---", "---", "---")
	for _, r := range access.AllowRules() {
		line("`"+r.Name+"`", r.Description, r.Level)
	}
	b.WriteString("\nWhom nothing lets in is kept out by one of these:\n\n")
	line("rule", "why")
	line("---", "---")
	for _, r := range access.DenyRules() {
		line("`"+r.Name+"`", r.Description)
	}
	fmt.Fprintf(&b, pairingText, pairing.MaxPending, int(pairing.CodeInterval.Minutes()), pairing.MaxWrongCodes)
	line("rule", "why")
	line("---", "---")
	line("`"+pairing.RuleOffered+"`", "the person was told a code")
	line("`"+pairing.RuleRecent+"`", "the person was told one a moment ago")
	line("`"+pairing.RuleFull+"`", "too many codes are out on this platform")
	line("`"+pairing.RuleLocked+"`", "too many wrong codes were entered for this platform")
	b.WriteString("\n## What each level may do\n\nEach level may do what those before it may.\n\n### Commands\n\n")
	line("level", "commands")
	line("---", "---")
	commands, tools := map[access.Level][]string{}, map[access.Level][]string{}
	for _, c := range command.Builtin() {
		commands[c.Level] = append(commands[c.Level], "`/"+c.Name+"`")
	}
	for name, level := range access.ToolLevels() {
		tools[level] = append(tools[level], "`"+name+"`")
	}
	for _, l := range []access.Level{access.Guest, access.Member, access.Owner} {
		line(l.String(), strings.Join(slices.Sorted(slices.Values(commands[l])), " "))
	}
	b.WriteString(sharedText)
	line("level", "commands")
	line("---", "---")
	shared := map[access.Level][]string{}
	for _, c := range command.Builtin() {
		if c.SharedLevel > c.Level {
			shared[c.SharedLevel] = append(shared[c.SharedLevel], "`/"+c.Name+"`")
		}
	}
	for _, l := range slices.Sorted(maps.Keys(shared)) {
		line(l.String(), strings.Join(slices.Sorted(slices.Values(shared[l])), " "))
	}
	b.WriteString(toolsText)
	line("level", "tools")
	line("---", "---")
	for _, l := range slices.Sorted(maps.Keys(tools)) {
		line(l.String(), strings.Join(slices.Sorted(slices.Values(tools[l])), " "))
	}
	b.WriteString(eventsText)
	line("event", "what it is", "from a stranger", "from who may speak")
	line("---", "---", "---", "---")
	for _, e := range kinds(t) {
		h, ok := eventEffects()[e]
		if !ok {
			t.Errorf("nobody has said what becomes of an event of kind %q", e)
		}
		none := "ends by a rule"
		if e == chat.Message {
			none += "; directly: a code"
		}
		line("`"+string(e)+"`", h[0], none, h[1])
	}
	return b.String()
}

func TestDocsAccessPage(t *testing.T) {
	page := filepath.Join("docs", "access.md")
	got := accessPage(t)
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the code says (go test . -run Docs -update):\n%s", page, diff)
	}
}

const accessTop = `# Who may speak, and what they may do

Printed from the code; a test holds them equal.

Nobody gets through who was not let in. People are known by the id that their platform gives them and gives to nobody else:
names and handles can change hands and are refused in lists. What somebody writes who is not let in is not kept, and the agent does
not hear of it. The only answer is a [code](#strangers-pairing), in a direct chat; ` + "`hermesd why`" + ` knows by which rule it ended.

## Who is let in

The first rule that holds lets a person in. The level is the highest that any of them gives. If no owner is named and exactly one id
is allowed in all, that one is the owner.

`

const pairingText = `
## Strangers: pairing

Somebody unknown who writes to the bot directly is told a code (` + "`unauthorized_dm_behavior: pair`" + `, the default; ` + "`ignore`" + ` says
nothing). They give it to the operator, by another way, and the operator approves it:

` + "```" + `
hermesd pairing list
hermesd pairing approve telegram ABCD2345
hermesd pairing revoke telegram 123456789
hermesd pairing clear-pending
` + "```" + `

The person is told, and is a member from then on, on every account of that platform. A code has 40 random bits, holds for an hour and
once; only a salted, slow hash of it stands among the pairings, and the message that tells it keeps no text once it has ended. At most
%d codes of a platform are out at once, a person gets one in %d minutes, and %d wrong codes in a row lock the platform for an hour. So a
thousand strangers cost what three do. What a revoked person had said before and what still waits is finished; the next message
is a stranger's. A home that an upstream Hermes used brings its approved people along, once.

`

const sharedText = `
In a conversation that several people share (a topic, or a group with ` + "`group_sessions_per_user: false`" + `), these commands need more. There a guest
stops only a turn that is theirs alone: neither ` + "`/stop`" + ` nor a new message of a guest ends the turn of another person, and a guest presses no
button of a question in it.

`

const toolsText = `
### Tools

The tools of a conversation are the same for all who speak in it. What somebody may not use is refused at the call. If messages of several users
are merged into one turn, the turn has the permissions of the least privileged user. A tool that is not in this table is for owners.

`

const eventsText = `
## One way in

Everything that a platform delivers goes through ` + "`gateway.Accept`" + `, which asks the check before anything is stored that could act.
Functions that act take a Grant, which only the check can make. Reactions of people are no events: adapters leave them out.

`
