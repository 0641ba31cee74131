package export_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/chat"
	"hermesd/gateway/export"
	"hermesd/gateway/session"
	stored "hermesd/gateway/store"
	"hermesd/internal/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// unused are the methods that an export does not call.
type unused interface{ stored.Sessions }

// A store has one session.
type store struct {
	unused
	rows  []stored.Doc[llm.Message]
	calls []stored.Doc[ledger.Record]
	err   error
}

func (s store) Rows(_ context.Context, _ session.ID, span session.Span) ([]stored.Doc[llm.Message], error) {
	to := min(span.To, len(s.rows))
	return s.rows[min(span.From, to):to], s.err
}

func (s store) Calls(context.Context, session.ID, int) ([]stored.Doc[ledger.Record], error) {
	return s.calls, nil
}

func raw(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// told returns a session with all kinds of messages: rows 0 and 1 archived, 2 dropped
// by the compaction, 3 to 8 active.
func told(t *testing.T) (store, session.Record) {
	block := func(r llm.Role, bs ...llm.Block) []byte {
		return raw(t, llm.Message{Role: r, Blocks: bs, Raw: json.RawMessage(`{}`)})
	}
	s := store{rows: []stored.Doc[llm.Message]{
		raw(t, llm.UserText("What is in my notes?")), raw(t, llm.AssistantText("Taxes.")), raw(t, llm.UserText("gone")),
		raw(t, llm.UserText("[CONTEXT COMPACTION] notes: taxes")),
		block(llm.Assistant, llm.Block{Type: llm.Thinking, Text: "hidden thought"}, llm.Block{Type: llm.Text, Text: "I look.\n\n"},
			llm.Block{Type: llm.ToolUse, ID: "c1", Name: "read_file", Input: json.RawMessage(`{"path":"a<b","key":"sk-very-secret"}`)}),
		block(llm.User, llm.Block{Type: llm.ToolResult, ID: "c1", Text: "1|```go\n2|sk-very-secret\n3|```", Failed: true}),
		raw(t, llm.AssistantText("It says **nothing**.")),
		block(llm.User, llm.Block{Type: llm.Image, MIME: "image/png", Path: "/m/a.png"}, llm.Block{Type: llm.Text, Text: "and this?"}),
		raw(t, llm.AssistantText("A cat 🐈.")),
	}}
	for i, n := range []int{9, 1, 3, 3, 5} { // 9: before the compaction; 3 twice: a repeated call
		s.calls = append(s.calls, raw(t, ledger.Record{N: i + 1, Messages: n, CalledAt: noon.Add(time.Duration(i) * time.Minute)}))
	}
	return s, session.Record{
		ID: "20260301_120000_aaaa1111", Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}, Title: "Notes\n# of sk-very-secret",
		Created: noon, Updated: noon.Add(time.Hour), Start: 3, Messages: 6, Archive: []session.Span{{From: 0, To: 2}},
	}
}

func read(t *testing.T) export.Conversation {
	t.Helper()
	s, r := told(t)
	var m secret.Masker
	m.Add("sk-very-secret")
	c, err := export.Read(t.Context(), s, r, m.Mask)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExportGolden(t *testing.T) {
	c := read(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"told.md":    func(b *bytes.Buffer) error { return c.Markdown(b) },
		"told.jsonl": func(b *bytes.Buffer) error { return c.JSONL(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, no := range []string{"sk-very-secret", "hidden thought", "gone"} {
			if strings.Contains(b.String(), no) {
				t.Errorf("%s holds %q", name, no)
			}
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestJSONLLinesAreObjects(t *testing.T) {
	var b bytes.Buffer
	if err := read(t).JSONL(&b); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(&b)
	lines.Scan()
	var h export.Header
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Messages != 6 || h.Archived != 2 {
		t.Errorf("%+v, %v", h, err)
	}
	var rows []int
	var dated []int
	for lines.Scan() {
		var l export.Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, l.Row); !l.Time.IsZero() {
			dated = append(dated, l.Row)
		}
	}
	if d := cmp.Diff([][]int{{0, 1, 3, 4, 5, 6, 7, 8}, {4, 6, 8}}, [][]int{rows, dated}); d != "" {
		t.Error(d)
	}
}

func TestReadIncompleteSession(t *testing.T) {
	s, r := told(t)
	short, damaged, odd, failed := s, s, s, s
	short.rows = s.rows[:7]
	damaged.rows = append(s.rows[:8:8], []byte(`[1]`))
	odd.calls = []stored.Doc[ledger.Record]{[]byte(`[1]`)}
	failed.err = errors.New("the store is closed")
	for want, s := range map[string]store{"messages are missing": short, "number 8": damaged, "number 1": odd, "the store is closed": failed} {
		if _, err := export.Read(t.Context(), s, r, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestExportWriteError(t *testing.T) {
	c := read(t)
	for _, err := range []error{c.Markdown(full{}), c.JSONL(full{})} {
		if err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("got %v", err)
		}
	}
}
