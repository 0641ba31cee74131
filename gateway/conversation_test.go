package gateway_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
)

var update = flag.Bool("update", false, "write what is said into testdata/turns")

// TestConversations runs each testdata/turns/*.txtar. Its comment is the description;
// `model` lists the answers of the model, `input` the actions of users; `want` is what
// they see, with the time since the start, and the outcome of each message.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/turns/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			part := map[string]*txtar.File{}
			for i := range ar.Files {
				part[ar.Files[i].Name] = &ar.Files[i]
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = playScript(t, part, "") })
			if *update {
				part["want"].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(part["want"].Data), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// playScript runs a conversation in a language, "" for the one of the script.
func playScript(t *testing.T, part map[string]*txtar.File, language string) string {
	var answers []llmtest.Answer
	for line := range strings.Lines(string(part["model"].Data)) {
		answers = append(answers, parseAnswer(t, strings.TrimSpace(line)))
	}
	w := newHarness(t, answers...)
	w.tools = []tool.Tool{lookupTool{}, approvalTool{}, questionTool{}}
	w.start()
	if language != "" {
		w.runInputLine("speak " + language)
	}
	var keys []string
	for line := range strings.Lines(string(part["input"].Data)) {
		keys = append(keys, w.runInputLine(strings.TrimSpace(line))...)
	}
	w.advance(time.Hour)
	var b strings.Builder
	b.WriteString(w.adapter.history())
	for _, k := range keys {
		fmt.Fprintf(&b, "%s %s\n", k, w.outcome(k))
	}
	w.transcript()
	w.stop()
	return randomIDs.ReplaceAllString(b.String(), "$1")
}

// randomIDs matches the parts of texts that are random.
var randomIDs = regexp.MustCompile(`(20000101_\d{6}_|ref t|/approve |/deny |this\? \(|ausführen\? \(|is called |pending request |Eine Frage )[0-9a-z-]+`)

// parseAnswer parses one line of `model`: say TEXT, slow SECONDS TEXT, hang, use TOOL
// JSON, fail CLASS, empty.
func parseAnswer(t *testing.T, line string) llmtest.Answer {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "say":
		return llmtest.Say(rest)
	case "slow":
		secs, text, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(secs)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return llmtest.Answer{Text: text, Delay: time.Duration(n) * time.Second}
	case "hang":
		return llmtest.Answer{Wait: make(chan struct{})}
	case "use":
		name, input, _ := strings.Cut(rest, " ")
		return llmtest.Use(name, input)
	case "fail":
		return llmtest.Fail(llm.Class(rest))
	case "fallback":
		return llmtest.Answer{Text: rest, Notices: []llm.Notice{{Fallback: "other/model", Err: &llm.Error{Class: llm.Overloaded, Provider: "first"}}}}
	case "empty":
		return llmtest.Answer{}
	}
	t.Fatalf("model cannot %q", line)
	return llmtest.Answer{}
}

// runInputLine runs one line of `input`: CHAT> TEXT, wait DURATION, restart, queue,
// owner, speak LANGUAGE, press CHAT N, refuse SECONDS. It returns the keys of the
// messages sent.
func (w *harness) runInputLine(line string) []string {
	w.t.Helper()
	if line == "" {
		return nil
	}
	if where, text, ok := strings.Cut(line, "> "); ok {
		m := w.newMessage(where, text)
		if group, who, ok := strings.Cut(where, "/"); ok {
			m.Address.Chat, m.Address.Kind, m.ChatName = group, chat.Group, "Group "+group
			m.Sender = chat.Person{ID: who, Name: "Ann " + who}
			m.IdempotencyKey = group + ":" + m.ID
		}
		w.accept(m)
		w.advance(100 * time.Millisecond)
		return []string{m.IdempotencyKey}
	}
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			w.t.Fatal(err)
		}
		w.advance(d)
	case "restart":
		w.stop()
		w.start()
	case "queue":
		w.startWith(func(o *gatewaytest.Options) { o.Mode = inbox.Queue })
	case "owner":
		w.startWith(func(o *gatewaytest.Options) {
			o.Access, o.Acknowledge = ownerChecker(w.t), true
			o.Approvals = approval.Options{Mode: "manual", Timeout: 5 * time.Minute, Level: access.ToolLevel}
		})
	case "speak": // LANGUAGE
		w.startWith(func(o *gatewaytest.Options) {
			var err error
			if o.Printer, err = i18n.For(rest); err != nil {
				w.t.Fatal(err)
			}
		})
	case "press": // CHAT N, the Nth of the newest buttons, counted from 1
		where, n, _ := strings.Cut(rest, " ")
		m := w.newMessage(where, w.adapter.buttonData(w.t, n))
		m.IdempotencyKey, m.Kind = "press:"+m.ID, chat.Callback
		w.accept(m)
		w.advance(100 * time.Millisecond)
		return []string{m.IdempotencyKey}
	case "refuse":
		secs, err := strconv.Atoi(rest)
		if err != nil {
			w.t.Fatal(err)
		}
		w.adapter.addFaults(fault{op: "send", before: rateLimitError(time.Duration(secs) * time.Second)})
	default:
		w.t.Fatalf("input cannot %q", line)
	}
	return nil
}

// startWith starts a daemon with an additional change of the options.
func (w *harness) startWith(set func(*gatewaytest.Options)) {
	w.stop()
	before := w.configure
	w.configure = func(o *gatewaytest.Options) {
		if before != nil {
			before(o)
		}
		set(o)
	}
	w.start()
}

// An approvalTool requests approval before it runs.
type approvalTool struct{}

func (approvalTool) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.AtMostOnce}
	s.Name, s.Description = "run", "runs something"
	s.Schema = json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}}}`)
	return s
}

func (approvalTool) Run(ctx context.Context, c tool.Call) (string, error) {
	in := struct {
		What   string
		Shapes []string
	}{Shapes: []string{"rm"}}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return "", err
	}
	if err := c.User.Approve(ctx, tool.ApprovalRequest{Tool: "run", Command: in.What, Reasons: []string{"it deletes folders with all that is in them"}, Shapes: in.Shapes}); err != nil {
		return "", err
	}
	return "ran " + in.What, nil
}

// A questionTool asks the user a question.
type questionTool struct{}

func (questionTool) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.Pure}
	s.Name, s.Description = "wonder", "asks the person"
	s.Schema = json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"}}}}`)
	return s
}

func (questionTool) Run(ctx context.Context, c tool.Call) (string, error) {
	var in struct {
		Question string
		Choices  []string
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return "", err
	}
	a, err := c.User.Ask(ctx, tool.Question{Text: in.Question, Choices: in.Choices})
	return fmt.Sprintf("%s (%d)", a.Text, a.Choice), err
}

// A lookupTool looks something up.
type lookupTool struct{}

func (lookupTool) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.Pure, Parallel: true}
	s.Name, s.Description = "lookup", "looks something up"
	s.Schema = json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}}}`)
	return s
}

func (lookupTool) Run(ctx context.Context, c tool.Call) (string, error) {
	return "found " + string(c.Input), sleep(ctx, 2*time.Second)
}
