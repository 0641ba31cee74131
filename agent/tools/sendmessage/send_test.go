package sendmessage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/tool"
	"hermesd/agent/tools/sendmessage"
)

// use runs the tool and returns the messages that were sent.
func use(t *testing.T, x tool.Tool, in string, fault error) (said string, sent []tool.Message, err error) {
	t.Helper()
	o := &outgoing{fault: fault}
	said, err = x.Run(t.Context(), tool.Call{Session: "s1", Input: json.RawMessage(in), User: o})
	return said, o.sent, err
}

func unlisted(context.Context, string) ([]sendmessage.Target, error) {
	return nil, errors.New("no store")
}

// outgoing keeps what is sent.
type outgoing struct {
	tool.Unattended
	sent  []tool.Message
	fault error
}

func (o *outgoing) Send(_ context.Context, m tool.Message) (string, error) {
	o.sent = append(o.sent, m)
	return "On its way to " + m.To + ".", o.fault
}

func TestSendMessage(t *testing.T) {
	if _, err := tool.NewSet(sendmessage.New(unlisted)); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]tool.Message{
		`{"target":" telegram:1 ","message":"**hi**\nyou "}`:                    {To: "telegram:1", Text: "**hi**\nyou"},
		`{"action":"send","target":"discord:#general,slack","files":["a.pdf"]}`: {To: "discord:#general,slack", Files: []string{"a.pdf"}},
	} {
		said, sent, err := use(t, sendmessage.New(unlisted), in, nil)
		if err != nil || said != "On its way to "+want.To+"." {
			t.Errorf("got %q, %v", said, err)
		}
		if d := cmp.Diff([]tool.Message{want}, sent); d != "" {
			t.Error(d)
		}
	}
}

func TestSendMessageRejectsInvalidInput(t *testing.T) {
	for in, want := range map[string]string{
		`{"message":"x"}`:                                                      "target is missing",
		`{"target":"telegram"}`:                                                "nothing to send",
		`{"target":"telegram","message":" \n "}`:                               "nothing to send",
		`{"target":"telegram,,slack","message":"x"}`:                           "an empty place",
		`{"target":"telegram","files":[""]}`:                                   "file 1 has no path",
		`{"target":"telegram","files":["a\u0000b"]}`:                           "file 1 has no path",
		`{"action":"shout","target":"t","message":"x"}`:                        "no action \"shout\"",
		`{"target":"t` + strings.Repeat(",t", 20) + `","message":"x"}`:         "more than 20 targets",
		`{"target":"t","message":"` + strings.Repeat("x", 50_001) + `"}`:       "more than 50000",
		`{"target":"t","files":["1","2","3","4","5","6","7","8","9","a","b"]}`: "the most is 10",
		`{"action":"list"}`:                                                    "cannot be listed: no store",
	} {
		_, sent, err := use(t, sendmessage.New(unlisted), in, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(sent) > 0 {
			t.Errorf("%.60s: got %v, sent %v; want %q", in, err, sent, want)
		}
	}
	_, err := sendmessage.New(unlisted).Run(t.Context(), tool.Call{Input: json.RawMessage(`{"target":"t","message":"x"}`), User: tool.Unattended{}})
	if err == nil || !strings.Contains(err.Error(), "no way to other chats") {
		t.Errorf("without a way: %v", err)
	}
	if _, _, err := use(t, sendmessage.New(unlisted), `{"target":"t","message":"x"}`, errors.New("there is no channel t")); err == nil || !strings.Contains(err.Error(), "not sent to t: there is no channel t") {
		t.Errorf("refused: %v", err)
	}
}

func TestSendMessageListsTargets(t *testing.T) {
	targets := func(n int) tool.Tool {
		return sendmessage.New(func(_ context.Context, session string) ([]sendmessage.Target, error) {
			if session != "s1" {
				return nil, fmt.Errorf("asked for %q", session)
			}
			var all []sendmessage.Target
			for i := range n {
				all = append(all, sendmessage.Target{Name: fmt.Sprint("telegram:", i), Note: "Ann\n- ignore this " + strings.Repeat("x", 200)})
			}
			return all, nil
		})
	}
	said, _, err := use(t, targets(0), `{"action":"list"}`, nil)
	if err != nil || !strings.Contains(said, "/sethome") {
		t.Errorf("got %q, %v", said, err)
	}
	said, _, err = use(t, targets(201), `{"action":"list"}`, nil)
	lines := strings.Split(said, "\n")
	if err != nil || len(lines) != 202 || lines[0] != "Targets (201):" || lines[201] != "and 1 more" || !strings.HasPrefix(lines[1], "- telegram:0: Ann - ignore this xx") || len([]rune(lines[1])) > 130 {
		t.Errorf("%d lines, first %.200q, %v", len(lines), lines[1], err)
	}
	broken := sendmessage.New(func(context.Context, string) ([]sendmessage.Target, error) {
		return nil, errors.New("the store is closed")
	})
	if _, _, err := use(t, broken, `{"action":"list"}`, nil); err == nil || !strings.Contains(err.Error(), "the store is closed") {
		t.Errorf("got %v", err)
	}
}

func TestSendMessageIsAtMostOnce(t *testing.T) {
	if s := sendmessage.New(unlisted).Spec(); s.Effect != tool.AtMostOnce || s.Parallel {
		t.Errorf("got %q, parallel %t", s.Effect, s.Parallel)
	}
}
