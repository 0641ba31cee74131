// Package sendmessage implements the tool with which a model sends messages to other chats,
// or to the current chat in addition to its answer. A message must not be sent twice: after
// a crash the call does not run again, and the model is told that its outcome is unknown.
package sendmessage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"hermesd/agent/tool"
	"hermesd/internal/shorten"
)

// Name is the name of the tool.
const Name = "send_message"

//go:embed send_message.md send_message.json
var texts embed.FS

const (
	maxText    = 50_000 // characters
	maxFiles   = 10
	maxTargets = 20
	maxListed  = 200
)

// A Target is an address to which messages can be sent.
type Target struct {
	Name string // as accepted by the tool: "telegram", "discord:#general"
	Note string // short description; untrusted
}

// New returns the tool. It sends through the UserChannel of the call. list returns the
// targets of a session.
func New(list func(ctx context.Context, session string) ([]Target, error)) tool.Tool {
	s := sender{list}
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.AtMostOnce,
	}, s.run)
}

type sender struct {
	list func(ctx context.Context, session string) ([]Target, error)
}

type input struct {
	Action  string   `json:"action"`
	Target  string   `json:"target"`
	Message string   `json:"message"`
	Files   []string `json:"files"`
}

func (s sender) run(ctx context.Context, c tool.Call, in input) (string, error) {
	switch in.Action {
	case "list":
		return s.targets(ctx, c.Session)
	case "", "send":
		return send(ctx, c, in)
	}
	return "", fmt.Errorf("there is no action %q; use send or list", in.Action)
}

func send(ctx context.Context, c tool.Call, in input) (string, error) {
	m := tool.Message{To: strings.TrimSpace(in.Target), Text: strings.TrimSpace(in.Message), Files: in.Files}
	if err := check(m); err != nil {
		return "", err
	}
	where, err := c.User.Send(ctx, m)
	if err != nil {
		return "", fmt.Errorf("it was not sent to %s: %w", m.To, err)
	}
	return where, nil
}

func check(m tool.Message) error {
	switch {
	case m.To == "":
		return errors.New("the target is missing; the action list shows what there is")
	case strings.Count(m.To, ",") >= maxTargets:
		return fmt.Errorf("there are more than %d targets", maxTargets)
	case m.Text == "" && len(m.Files) == 0:
		return errors.New("there is nothing to send: give a message or files")
	case utf8.RuneCountInString(m.Text) > maxText:
		return fmt.Errorf("the message has more than %d characters; write it to a file and send that", maxText)
	case len(m.Files) > maxFiles:
		return fmt.Errorf("there are %d files; the most is %d", len(m.Files), maxFiles)
	}
	for i, f := range m.Files {
		if strings.TrimSpace(f) == "" || strings.ContainsRune(f, 0) {
			return fmt.Errorf("file %d has no path", i+1)
		}
	}
	for _, to := range strings.Split(m.To, ",") {
		if strings.TrimSpace(to) == "" {
			return fmt.Errorf("the list of targets %q has an empty place", m.To)
		}
	}
	return nil
}

func (s sender) targets(ctx context.Context, session string) (string, error) {
	all, err := s.list(ctx, session)
	if err != nil {
		return "", fmt.Errorf("the targets cannot be listed: %w", err)
	}
	if len(all) == 0 {
		return "No chat is known yet. A home channel is set with /sethome in the chat that shall be one.", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Targets (%d):\n", len(all))
	for i, t := range all {
		if i == maxListed {
			fmt.Fprintf(&b, "and %d more\n", len(all)-i)
			break
		}
		b.WriteString("- " + shorten.Line(t.Name, 100))
		if note := shorten.Line(t.Note, 100); note != "" {
			b.WriteString(": " + note)
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String()), nil
}
