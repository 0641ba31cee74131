package adaptertest

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermesd/gateway/chat"
)

// A Payload is what a platform sends for one thing that people do, as somebody
// else recorded or documented it.
type Payload struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"` // message/photo+caption, MESSAGE_CREATE/forward
	Payload json.RawMessage `json:"payload"`
	Text    string          `json:"text"` // what a reader expects, one piece a line
	Also    []string        `json:"also"` // what people see besides: link targets, file names
	// Want, Rule and Bot are set in testdata only: the exact text, the rule by which
	// the event is ignored, and whether the sender is a bot.
	Want *string `json:"want"`
	Rule *string `json:"rule"`
	Bot  *bool   `json:"bot"`
}

// OwnPayloads returns the payloads of testdata/payloads.jsonl.
func OwnPayloads(t *testing.T) []Payload {
	t.Helper()
	return readPayloads(t, filepath.Join("testdata", "payloads.jsonl"))
}

// SharedPayloads returns the payloads of a platform in the folder that the
// environment variable HERMESD_PAYLOADS names: those of all files whose names
// begin with the platform's and end in .jsonl. It skips the test if there are none.
func SharedPayloads(t *testing.T, platform chat.Platform) (out []Payload) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(os.Getenv("HERMESD_PAYLOADS"), string(platform)+"*.jsonl"))
	if os.Getenv("HERMESD_PAYLOADS") == "" || len(names) == 0 {
		t.Skipf("HERMESD_PAYLOADS names no folder with payloads of %s", platform)
	}
	for _, name := range names {
		out = append(out, readPayloads(t, name)...)
	}
	return out
}

func readPayloads(t *testing.T, name string) (out []Payload) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var p Payload
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatalf("%s, line %d: %v", name, len(out)+1, err)
		}
		out = append(out, p)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d payloads, %v", name, len(out), err)
	}
	return out
}

// A Tape is a sink that keeps all events, repeated ones too.
type Tape struct {
	inbox *Inbox // checks the events

	mu     sync.Mutex
	events []chat.Inbound // guarded by mu
}

// NewTape returns an empty tape. Events that a store could not keep are reported
// to t.
func NewTape(t *testing.T) *Tape { return &Tape{inbox: NewInbox(t)} }

func (s *Tape) Accept(_ context.Context, batch []chat.Inbound) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range batch {
		s.inbox.check(in)
	}
	s.events = append(s.events, batch...)
	return nil
}

// Take returns the events since the last call.
func (s *Tape) Take() []chat.Inbound {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.events
	s.events = nil
	return out
}

// Check reports what the event of p does not contain of p.
func (p *Payload) Check(t *testing.T, in chat.Inbound) {
	t.Helper()
	all := in.Text
	if in.ReplyTo != nil {
		all += "\n" + in.ReplyTo.Text
	}
	for _, f := range in.Files {
		all += "\n" + f.Name
	}
	for _, piece := range append(p.pieces(), p.Also...) {
		if !strings.Contains(words(all), words(piece)) && !strings.Contains(plain(all), plain(piece)) {
			t.Errorf("%s, %s: %q is missing in %q, rule %q", p.ID, p.Kind, piece, all, in.IgnoreRule)
		}
	}
	if p.Want != nil && in.Text != *p.Want {
		t.Errorf("%s, %s: got %q, want %q", p.ID, p.Kind, in.Text, *p.Want)
	}
	if p.Rule != nil && in.IgnoreRule != *p.Rule {
		t.Errorf("%s, %s: ignored by %q, want %q", p.ID, p.Kind, in.IgnoreRule, *p.Rule)
	}
	if p.Bot != nil && in.Sender.Bot != *p.Bot {
		t.Errorf("%s, %s: sender %+v", p.ID, p.Kind, in.Sender)
	}
}

func (p *Payload) pieces() []string { return strings.Split(p.Text, "\n") }

// Without removes pieces from what a reader expects of p.
func (p *Payload) Without(pieces ...string) {
	unwanted := func(s string) bool { return slices.Contains(pieces, s) }
	p.Text = strings.Join(slices.DeleteFunc(p.pieces(), unwanted), "\n")
	p.Also = slices.DeleteFunc(p.Also, unwanted)
}

// words returns text with single spaces.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

var (
	userName   = regexp.MustCompile(`<?@&?\w+>?( \(\w+\))?`)
	linkTarget = regexp.MustCompile(` \([a-z]+:[^)]*\)`)
)

// plain returns text without the names of users and the targets of links, which
// platforms and readers write in several forms.
func plain(text string) string {
	return words(userName.ReplaceAllString(linkTarget.ReplaceAllString(text, ""), "@"))
}

// Is reports whether the kind of p is, before the slash, one of kinds.
func (p *Payload) Is(kinds ...string) bool {
	kind, _, _ := strings.Cut(p.Kind, "/")
	return slices.Contains(kinds, kind)
}
