package demo

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

// A screen prints the demo for a terminal of a given width. Its methods may be
// called from any goroutine; each prints whole lines.
type screen struct {
	width int
	mu    sync.Mutex
	out   io.Writer
}

// Widths of the output in columns.
const (
	minWidth     = 72
	maxWidth     = 100
	defaultWidth = 96 // without a terminal
)

func newScreen(out io.Writer, width int, environ []string) *screen {
	if width == 0 {
		width = defaultWidth
	}
	return &screen{width: min(max(width, minWidth), maxWidth), out: colorprofile.NewWriter(out, environ)}
}

// columns returns the width of the terminal; 0 if out is not a terminal.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return width
}

var (
	plain = lipgloss.NewStyle()
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
)

// title returns the styled name of a platform.
func title(p chat.Platform) string {
	return lipgloss.NewStyle().Bold(true).Foreground(map[chat.Platform]color.Color{
		chat.Telegram: lipgloss.BrightCyan, chat.Discord: lipgloss.BrightMagenta, chat.Slack: lipgloss.BrightYellow,
	}[p]).Render(strings.ToUpper(string(p[:1])) + string(p[1:]))
}

// print prints a text of one or more lines.
func (s *screen) print(t string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintln(s.out, t) // there is nowhere else to report an error
}

// paragraph prints a paragraph.
func (s *screen) paragraph(format string, args ...any) {
	s.print(indent("", plain, fmt.Sprintf(format, args...), s.width))
}

// heading prints the heading of a part.
func (s *screen) heading(t string) {
	line := strings.Repeat("━", max(0, s.width-lipgloss.Width(t)-4))
	s.print("\n" + faint.Render("━━ ") + bold.Render(t) + faint.Render(" "+line))
}

// indent wraps t with a mark before its first line and indents the others.
func indent(mark string, st lipgloss.Style, t string, width int) string {
	indent := lipgloss.Width(mark)
	lines := strings.Split(lipgloss.Wrap(t, max(width-indent, 10), " "), "\n")
	for i, l := range lines {
		lines[i] = strings.Repeat(" ", indent) + st.Render(strings.TrimRight(l, " "))
		if i == 0 {
			lines[i] = mark + st.Render(strings.TrimRight(l, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// A printedMessage is a message as it is printed.
type printedMessage struct {
	bot  bool
	text string
}

// maxCount is the maximum number of columns of a saying.
const maxCount = 320

// short returns the text without terminal controls, cut to maxCount.
func (s printedMessage) short() string {
	return text.Cut(text.Clean(strings.TrimSpace(s.text)), maxCount)
}

func (s printedMessage) render(width int) string {
	if s.bot {
		return indent("  ", plain, s.short(), width)
	}
	return indent("› ", bold, s.short(), width)
}

// columns prints conversations next to each other.
func (s *screen) columns(rooms []conversation, said [][]printedMessage) {
	width := (s.width - 3*(len(rooms)-1)) / len(rooms)
	cell := lipgloss.NewStyle().Width(width)
	heads, bodies := make([]string, len(rooms)), make([]string, len(rooms))
	height := 0
	for i, r := range rooms {
		heads[i] = cell.Render(title(r.platform())+" "+faint.Render(r.name())) + "\n" + faint.Render(strings.Repeat("─", width))
		var parts []string
		for _, one := range said[i] {
			parts = append(parts, one.render(width))
		}
		bodies[i] = strings.Join(parts, "\n")
		height = max(height, lipgloss.Height(bodies[i]))
	}
	between := func(n int) string { return faint.Render(strings.TrimRight(strings.Repeat(" │ \n", n), "\n")) }
	var row []string
	for i := range rooms {
		if i > 0 {
			row = append(row, faint.Render(" │ \n─┼─")+"\n"+between(height))
		}
		row = append(row, heads[i]+"\n"+cell.Render(bodies[i]))
	}
	s.print(trim(lipgloss.JoinHorizontal(lipgloss.Top, row...)))
}

// trim removes trailing spaces of lines.
func trim(t string) string {
	lines := strings.Split(t, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// table prints rows that consist of a name and a cell for each platform.
func (s *screen) table(rooms []conversation, rows [][]string) {
	const first, other = 34, 14
	line := func(cells []string) {
		out := lipgloss.NewStyle().Width(first).Render("  " + cells[0])
		for _, c := range cells[1:] {
			out += lipgloss.NewStyle().Width(other).Align(lipgloss.Right).Render(c)
		}
		s.print(out)
	}
	heads := []string{""}
	for _, r := range rooms {
		heads = append(heads, title(r.platform()))
	}
	line(heads)
	for _, r := range rows {
		line(r)
	}
}
