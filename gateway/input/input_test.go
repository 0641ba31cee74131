package input_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/usage"
)

// thread is an account whose threads have one earlier message.
type thread struct {
	chat.Adapter
	err error
}

func (thread) Capabilities() chat.Capabilities { return chat.Capabilities{} }

func (t thread) MessagesBefore(context.Context, chat.Inbound, time.Time) ([]chat.Quote, error) {
	return []chat.Quote{{Author: "Bob", Text: "we ship on <b>Monday</b>"}}, t.err
}

func newComposer(m input.Media, readThread error) *input.Composer {
	connected := accounts.New(accounts.Options{Log: zap.NewNop()})
	connected.Add(chat.Account{Platform: chat.Slack}, thread{err: readThread})
	return input.New(input.Parts{
		Accounts: connected, Usage: usage.NewMeter(new(active.Turns)), Media: m, Options: input.Options{Observe: func(observe.Event) {}, Log: zap.NewNop()},
		Fetch: func(_ context.Context, _ chat.Account, f chat.File) (chat.File, error) {
			if f.Name == "gone.txt" {
				return f, errors.New("The file gone.txt could not be loaded.")
			}
			return f, nil
		},
		Skill: func(_ session.ID, name, args string) (string, bool) { return "do " + args, name == "deploy" },
	})
}

func entry(in chat.Inbound) inbox.Entry {
	in.Address.Platform = chat.Slack
	return inbox.Entry{Inbound: in}
}

func text(m llm.Message) (s string) {
	for _, b := range m.Blocks {
		if b.Type == llm.Text {
			s += b.Text
		}
	}
	return s
}

func TestComposeTexts(t *testing.T) {
	part := &chat.Part{Group: "g"}
	for _, c := range []struct {
		name    string
		entries []inbox.Entry
		shared  bool
		want    string
	}{
		{"one", []inbox.Entry{entry(chat.Inbound{Text: "hello"})}, false, "hello"},
		{"nothing", []inbox.Entry{entry(chat.Inbound{})}, false, "(an empty message)"},
		{"two", []inbox.Entry{entry(chat.Inbound{Text: "a"}), entry(chat.Inbound{Text: "b"})}, false, "a\n\nb"},
		{"parts of one", []inbox.Entry{entry(chat.Inbound{Text: "a", Part: part}), entry(chat.Inbound{Text: "b", Part: part})}, false, "a\nb"},
		{"shared", []inbox.Entry{entry(chat.Inbound{Text: "a", Sender: chat.Person{Name: "Ann"}})}, true, "[Ann] a"},
		{"a skill", []inbox.Entry{entry(chat.Inbound{Text: "/deploy now"})}, false, "do now"},
		{"no skill", []inbox.Entry{entry(chat.Inbound{Text: "/other now"})}, false, "/other now"},
		{"a reply", []inbox.Entry{entry(chat.Inbound{Text: "yes", ReplyTo: &chat.Quote{FromBot: true, Text: "ship?"}})}, false, "[in reply to your message: \"ship?\"]\nyes"},
		{"a thread", []inbox.Entry{entry(chat.Inbound{Text: "when?", HasEarlierMessages: true})}, false,
			"[earlier in this thread]\n[Bob] we ship on <b>Monday</b>\n[end of what was said earlier]\n\nwhen?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, problems := newComposer(input.Media{}, nil).Compose(t.Context(), c.entries, &session.Record{Shared: c.shared}, false)
			if got := text(m); got != c.want || len(problems) > 0 || m.Role != llm.User {
				t.Errorf("%q, %q", got, problems)
			}
		})
	}
}

func TestThreadThatCannotBeReadInFullSaysSo(t *testing.T) {
	m, _ := newComposer(input.Media{}, errors.New("not in channel")).Compose(t.Context(), []inbox.Entry{entry(chat.Inbound{Text: "when?", HasEarlierMessages: true})}, &session.Record{}, false)
	if got := text(m); !strings.Contains(got, "(Not all of it could be read: not in channel)") {
		t.Errorf("%q", got)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("remember"), 0o600); err != nil {
		t.Fatal(err)
	}
	picture := chat.File{Kind: chat.Photo, Name: "p.png", MIME: "image/png", Path: "/cache/p.png"}
	voice := chat.File{Kind: chat.Voice, Name: "v.ogg", MIME: "audio/ogg", Path: "/cache/v.ogg"}
	able := input.Media{
		Transcribe:    func(context.Context, chat.File) (string, error) { return "good morning", nil },
		DescribeImage: func(context.Context, chat.File) (string, agent.Call, error) { return "a cat", agent.Call{}, nil },
	}
	broken := input.Media{Transcribe: func(context.Context, chat.File) (string, error) { return "", errors.New("no model") }}
	for _, c := range []struct {
		name    string
		media   input.Media
		vision  bool
		file    chat.File
		want    string
		problem string
		images  int
	}{
		{"a text file", able, false, chat.File{Name: "notes.txt", MIME: "text/plain", Size: 8, Path: path}, "[file \"notes.txt\"]\nremember\n[end of file]", "", 0},
		{"a picture for a model with vision", able, true, picture, "", "", 1},
		{"a picture for another", able, false, picture, "a cat", "", 0},
		{"a picture without a description", input.NoMedia(), false, picture, "you cannot see it", "", 0},
		{"a voice message", able, false, voice, "[voice message]\ngood morning\n[end of voice message]", "", 0},
		{"a voice message that nothing transcribes", input.NoMedia(), false, voice, "[file \"v.ogg\", audio/ogg, 0 bytes, stored at /cache/v.ogg]", "", 0},
		{"one that is not understood", broken, false, voice, "stored at /cache/v.ogg", "I could not understand the voice message: no model.", 0},
		{"a file that is gone", able, false, chat.File{Name: "gone.txt"}, "not downloaded", "The file gone.txt could not be loaded.", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rec session.Record
			m, problems := newComposer(c.media, nil).Compose(t.Context(), []inbox.Entry{entry(chat.Inbound{Files: []chat.File{c.file}})}, &rec, c.vision)
			images := 0
			for _, b := range m.Blocks {
				if b.Type == llm.Image {
					images++
				}
			}
			if got := text(m); !strings.Contains(got, c.want) || images != c.images || strings.Join(problems, ";") != c.problem {
				t.Errorf("%q, %d images, %q", got, images, problems)
			}
			if wantNote := c.file.Path != "" && c.images == 0; (len(rec.Files) == 1) != wantNote {
				t.Errorf("files of the session: %q", rec.Files)
			}
		})
	}
}

func TestARepeatedMessageHasNoMoreRightsInASharedConversation(t *testing.T) {
	m := llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Text, Text: "[Ann] again"}, {Type: llm.Image, Path: "/cache/a.png", MIME: "image/png"}}}
	e := entry(chat.Inbound{IdempotencyKey: "k", ID: "9", Text: "/retry"})
	e.Grant = access.OperatorGrant(access.Principal{Level: access.Owner})
	own, shared := input.Repeat(e, m, false), input.Repeat(e, m, true)
	if own.Inbound.Text != "[Ann] again" || own.Grant.Principal().Level != access.Owner || own.Inbound.IdempotencyKey == "k" || own.Inbound.Kind != chat.Message || own.State != inbox.Waiting {
		t.Errorf("%+v", own)
	}
	if len(own.Inbound.Files) != 1 || own.Inbound.Files[0].Path != "/cache/a.png" {
		t.Errorf("files %+v", own.Inbound.Files)
	}
	if shared.Inbound.Text != "again" || shared.Grant.Principal().Level != access.Guest {
		t.Errorf("in a shared conversation: %+v", shared)
	}
}
