package demo_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/cmd/internal/demo"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReportFailsOnBrokenGuarantee(t *testing.T) {
	for _, c := range []struct {
		name   string
		lost   map[chat.Platform]int
		breaks map[string]int
		want   string // in the error; "" for none
	}{
		{"all kept", map[chat.Platform]int{chat.Telegram: 0, chat.Slack: 0}, map[string]int{"new_session": 3}, ""},
		{"a message lost", map[chat.Platform]int{chat.Telegram: 0, chat.Slack: 1}, nil, "slack"},
		{"a prefix broken", map[chat.Platform]int{chat.Discord: 0}, map[string]int{"undeclared": 1}, "1 undeclared prefix breaks"},
	} {
		err := demo.Holds(c.lost, c.breaks)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if demo.Unasked(chat.Discord) == nil {
		t.Error("a platform on which nothing was asked proves nothing")
	}
}

func TestColumnsFitTheTerminal(t *testing.T) {
	const said = "what is 12 * 34? #4 \x1b[31mred 漢字漢字漢字漢字漢字漢字漢字漢字漢字 👩‍👩‍👧 averylongwordthatfitsinnocolumnatallbecauseitneverends"
	for _, width := range []int{0, 1, 72, 80, 96, 100, 300} {
		var out bytes.Buffer
		demo.Columns(&out, width, said)
		most := min(max(width, 72), 100)
		if width == 0 {
			most = 96
		}
		for line := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(line, "\n")); n > most || strings.ContainsRune(line, '\x1b') {
				t.Errorf("at %d: %d columns: %q", width, n, line)
			}
			if strings.Count(line, "│")+strings.Count(line, "┼") != 2 {
				t.Errorf("at %d: not three columns: %q", width, line)
			}
		}
	}
}

// A program that is not a daemon ends at once.
func TestRunFailsIfDaemonEnds(t *testing.T) {
	err := demo.Run(t.Context(), demo.Options{Binary: "/bin/false", Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("error %v", err)
	}
}
