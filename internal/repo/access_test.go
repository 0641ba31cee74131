package repo_test

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
		chat.Message:  {"a text, file, album or voice message", "a turn or a command"},
		chat.Edit:     {"a changed message", "replaces the text of a waiting message"},
		chat.Callback: {"a pressed button", "the command of the button, as the user who pressed it"},
		chat.Migrated: {"a chat with a new ID", "conversations, jobs, waiting and unsent messages and lists with the old ID follow"},
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
	b.WriteString("\nOthers are denied by one of these:\n\n")
	line("rule", "why")
	line("---", "---")
	for _, r := range access.DenyRules() {
		line("`"+r.Name+"`", r.Description)
	}
	fmt.Fprintf(&b, pairingText, pairing.MaxPending, int(pairing.CodeInterval.Minutes()), pairing.MaxWrongCodes)
	line("rule", "why")
	line("---", "---")
	line("`"+pairing.RuleOffered+"`", "the user got a code")
	line("`"+pairing.RuleRecent+"`", "the user got a code recently")
	line("`"+pairing.RuleFull+"`", "too many codes are open on this platform")
	line("`"+pairing.RuleLocked+"`", "too many wrong codes were entered for this platform")
	b.WriteString("\n## What each level may do\n\nEach level includes those before it.\n\n### Commands\n\n")
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
	line("event", "what it is", "from an unknown sender", "from an allowed user")
	line("---", "---", "---", "---")
	for _, e := range kinds(t) {
		h, ok := eventEffects()[e]
		if !ok {
			t.Errorf("nobody has said what becomes of an event of kind %q", e)
		}
		none := "ends by a rule"
		if e == chat.Message {
			none += "; in a direct chat: a code"
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
		t.Errorf("%s is not what the code says (go test ./internal/repo -run Docs -update):\n%s", page, diff)
	}
}

const accessTop = `# Access: who may use the bot, and what for

Only allowed users get through. List their IDs, or approve the [pairing codes](#strangers-pairing) of unknown users:

` + "```yaml" + `
access:
  owners: ["telegram:123456789"]
` + "```" + `

Lists take platform IDs only: names and handles can change owner and are refused. Text of other senders is neither stored nor shown to the agent;
` + "`hermesd why`" + ` names the rule that ended it.

## Who is let in

The first rule that matches grants access. The level is the highest that any gives. If no owner is named, exactly one ID is allowed in all, and neither
` + "`allow_all`" + ` nor ` + "`allowed_roles`" + ` is set, that ID is the owner.

`

const pairingText = `
## Strangers: pairing

An unknown user who writes directly gets a code (` + "`unauthorized_dm_behavior: pair`" + `, the default; ` + "`ignore`" + `: nothing), gives it to you by another way, and you approve
it:

` + "```" + `
hermesd pairing list
hermesd pairing approve telegram ABCD2345
hermesd pairing revoke telegram 123456789
hermesd pairing clear-pending
` + "```" + `

The user is notified and is a member on every account of the platform. A code has 40 random bits and works once, for an hour; after delivery only a
salted, slow hash of it is stored. Limits: %d open codes per platform, one per user in %d minutes; %d wrong codes in a row lock the platform for an hour.
Revoking applies from the next message; earlier ones are finished. Users paired by an upstream Hermes in this home directory are imported once.

`

const sharedText = `
In a conversation of several users (a topic, or a group with ` + "`group_sessions_per_user: false`" + `) these need more. There ` + "`/stop`" + ` and new messages of a
guest stop only turns that are the guest's alone, and guests cannot press buttons of questions.

`

const toolsText = `
### Tools

All users of a conversation see the same tools; a forbidden one is refused at the call. A turn with messages of several users has the permissions of the
least privileged. Tools not listed are for owners.

`

const eventsText = `
## One way in

Every event passes the check in ` + "`gateway.Accept`" + ` before anything is stored that could act. Reactions are ignored.

`
