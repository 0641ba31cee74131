package demo

import (
	"fmt"
	"strconv"
	"strings"

	"hermesd/agent/llm"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/shorten"
)

// A conversation is a request, prepared for the rules.
type conversation struct {
	r        *llm.Request
	messages []llm.Message // prefill and transcript
	newest   string        // the newest text of the user
	results  []llm.Block   // of the newest message
}

// newConversation returns false for a request that no model would accept.
func newConversation(r *llm.Request) (conversation, bool) {
	c := conversation{r: r, messages: r.Prefill}
	if r.Transcript != nil && r.Transcript.Len() > 0 {
		c.messages = append(c.messages[:len(c.messages):len(c.messages)], r.Transcript.Since(0)...)
	}
	if len(c.messages) == 0 {
		return c, false
	}
	last := c.messages[len(c.messages)-1]
	if last.Role != llm.User {
		return c, false
	}
	for _, b := range last.Blocks {
		if b.Type == llm.ToolResult {
			c.results = append(c.results, b)
		}
	}
	for i := len(c.messages) - 1; i >= 0 && c.newest == ""; i-- {
		if c.messages[i].Role == llm.User {
			c.newest = strings.TrimSpace(speaker().ReplaceAllString(textOf(c.messages[i]), ""))
		}
	}
	return c, true
}

// speaker matches the name before a message in chats with several people.
var speaker = lazyregexp.New(`^\s*\[[^\[\]\n]{1,80}\] `)

func textOf(m llm.Message) string {
	var parts []string
	for _, b := range m.Blocks {
		if b.Type == llm.Text {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (c conversation) answer() answer {
	var a answer
	switch {
	case len(c.results) > 0:
		a.text = c.fromResults()
	case wantsSummary(c.newest) || wantsSummary(c.r.System):
		a.text = c.summary()
		return a
	default:
		if a.calls = c.calls(); len(a.calls) > 0 {
			a.text = "Demo model: I call " + listOf(a.calls) + "."
			break
		}
		a.text = c.defaultText()
	}
	if c.r.Effort != "" && c.r.Effort != "none" {
		a.thinking = "(demo) I look for the first rule that fits."
	}
	if len(a.calls) > 0 { // not the final answer
		return a
	}
	for _, t := range tokensIn(c.newest) {
		if !strings.Contains(a.text, t) {
			a.text += " " + t
		}
	}
	return a
}

var greeting = lazyregexp.New(`(?i)^\W*(hello|hi|hey|good (morning|evening|day)|greetings)\b`)

// defaultText answers a text that no other rule handles.
func (c conversation) defaultText() string {
	seen := fmt.Sprintf("I have seen %d messages in this conversation.", len(c.messages))
	if len(c.messages) == 1 {
		seen = "I have seen 1 message in this conversation."
	}
	if value, ok := arithmetic(c.newest); ok {
		return "Demo model: that makes " + value + ". " + seen
	}
	if greeting().MatchString(c.newest) {
		return "Hello! I am the built-in demo model: I follow a few simple rules, nothing here is intelligent. " + seen
	}
	if c.newest == "" {
		return "Demo model: there was no text for me to answer. " + seen
	}
	return "Demo model, without any intelligence. You said: “" + shorten.Line(c.newest, 300) + "”. " + seen
}

func (c conversation) fromResults() string {
	var s strings.Builder
	s.WriteString("Demo model: ")
	for i, b := range c.results {
		if i > 0 {
			s.WriteString(" ")
		}
		verb := "said"
		if b.Failed {
			verb = "failed with"
		}
		fmt.Fprintf(&s, "%s %s: “%s”.", c.toolOf(b.ID), verb, shorten.Line(b.Text, 300))
	}
	return s.String()
}

// toolOf returns the name of the tool that was called with this ID.
func (c conversation) toolOf(id string) string {
	for i := len(c.messages) - 1; i >= 0; i-- {
		for _, call := range c.messages[i].ToolUses() {
			if call.ID == id {
				return call.Name
			}
		}
	}
	return "a tool"
}

func listOf(calls []llm.Block) string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

var token = lazyregexp.New(`\[\[[^\[\]\n]{1,200}\]\]|#[0-9]+`)

// tokensIn returns the distinct tokens of text that answers must repeat.
func tokensIn(text string) []string {
	const most = 100
	var all []string
	seen := map[string]bool{}
	for _, t := range token().FindAllString(text, most) {
		if !seen[t] {
			seen[t] = true
			all = append(all, t)
		}
	}
	return all
}

func wantsSummary(text string) bool {
	return strings.Contains(text, "## Goal") && strings.Contains(text, "## Next Steps") && strings.Contains(text, "## Critical Context")
}

var (
	saidLine = lazyregexp.New(`(?im)^\W*(?:user|human)\W{1,4}(.{3,})$`)
	fileName = lazyregexp.New(`\b[\w./-]+\.(?:go|py|md|txt|json|yaml|yml|js|ts|sh|csv|log|toml)\b`)
)

// summary fills the headings of a summary with what can be found in the text to summarize.
func (c conversation) summary() string {
	text := c.newest
	var said []string
	for _, m := range saidLine().FindAllStringSubmatch(text, 200) {
		said = append(said, shorten.Line(m[1], 160))
	}
	for _, m := range c.messages[:len(c.messages)-1] {
		if s := textOf(m); m.Role == llm.User && s != "" {
			said = append(said, shorten.Line(s, 160))
		}
	}
	goal, newest := "Not stated.", "Wait for the person."
	if len(said) > 0 {
		goal, newest = said[0], "Go on with: "+said[len(said)-1]
	}
	return strings.Join([]string{
		"## Goal", goal,
		"## Constraints & Preferences", "None that the demo model can see.",
		"## Progress",
		"### Done", fmt.Sprintf("Messages of the person that were answered: %d.", len(said)),
		"### In Progress", bullets(said, 5),
		"### Blocked", "Nothing.",
		"## Key Decisions", "None that the demo model can see.",
		"## Relevant Files", bullets(fileName().FindAllString(text, 20), 20),
		"## Next Steps", newest,
		"## Critical Context", "Summed up by the demo model, by rules. " + strings.Join(tokensIn(text), " "),
	}, "\n")
}

// bullets lists the distinct items among the last n.
func bullets(items []string, n int) string {
	seen := map[string]bool{}
	var lines []string
	for _, s := range items[max(0, len(items)-n):] {
		if !seen[s] {
			seen[s] = true
			lines = append(lines, "- "+s)
		}
	}
	if len(lines) == 0 {
		return "None."
	}
	return strings.Join(lines, "\n")
}

var (
	asksForSum = lazyregexp.New(`(?i)^\W*(?:what(?:'s| is)|how much is|calculate|compute|please calculate)?\s*([0-9(][0-9+\-*/()., ]*[0-9)])\s*[=?.! ]*(?:\[\[.*|#.*)?$`)
	operator   = lazyregexp.New(`[0-9) ][+\-*/]`)
)

// arithmetic returns the value of the expression that text asks for, if it is one.
func arithmetic(text string) (string, bool) {
	m := asksForSum().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || !operator().MatchString(m[1]) || len(m[1]) > 200 {
		return "", false
	}
	s := expression{s: strings.ReplaceAll(m[1], " ", "")}
	v := s.add(0)
	if s.invalid || s.i != len(s.s) {
		return "", false
	}
	return strconv.FormatFloat(v, 'g', 12, 64), true
}

// An expression is evaluated while it is parsed.
type expression struct {
	s       string
	i       int
	invalid bool // the expression is malformed
}

func (s *expression) next(ops string) byte {
	if s.i < len(s.s) && strings.IndexByte(ops, s.s[s.i]) >= 0 {
		s.i++
		return s.s[s.i-1]
	}
	return 0
}

func (s *expression) add(depth int) float64 {
	v := s.multiply(depth)
	for op := s.next("+-"); op != 0; op = s.next("+-") {
		w := s.multiply(depth)
		if op == '-' {
			w = -w
		}
		v += w
	}
	return v
}

func (s *expression) multiply(depth int) float64 {
	v := s.value(depth)
	for op := s.next("*/"); op != 0; op = s.next("*/") {
		w := s.value(depth)
		if op == '/' && w == 0 {
			s.invalid = true
			return 0
		}
		if op == '/' {
			v /= w
		} else {
			v *= w
		}
	}
	return v
}

func (s *expression) value(depth int) float64 {
	if s.next("-") != 0 {
		return -s.value(depth + 1)
	}
	if s.next("(") != 0 && depth < 50 {
		v := s.add(depth + 1)
		if s.next(")") == 0 {
			s.invalid = true
		}
		return v
	}
	from := s.i
	for s.next("0123456789.") != 0 {
	}
	v, err := strconv.ParseFloat(s.s[from:s.i], 64)
	if err != nil {
		s.invalid = true
	}
	return v
}
