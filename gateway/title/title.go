// Package title makes up short titles for conversations, by asking a model about
// the first exchange.
package title

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/agent/llm"
)

//go:embed title.md
var instructions string

const (
	maxTitle        = 60   // characters
	maxExcerpt      = 2000 // characters of each side that the model is shown
	maxOutputTokens = 200  // tokens
	maxBytes        = 8 << 10
)

// ErrNone says that the model gave no title.
var ErrNone = errors.New("title: the model gave no title")

// A Generator makes up titles.
type Generator struct {
	Provider llm.Provider
	Model    string
	// Mask hides secrets in what is sent and in what comes back; nil hides none.
	Mask func(string) string
}

// Generate returns a title for a conversation that began with user and answer, and
// what the call cost, also where it failed. A conversation in which nothing was
// said in words has none: the error wraps ErrNone, and no model is asked.
func (m Generator) Generate(ctx context.Context, user, answer string) (string, llm.Usage, error) {
	mask := m.Mask
	if mask == nil {
		mask = func(s string) string { return s }
	}
	user, answer = excerpt(mask(user)), excerpt(mask(answer))
	if user == "" {
		return "", llm.Usage{}, fmt.Errorf("%w: nothing was said in words", ErrNone)
	}
	ask := strings.TrimSpace(instructions) + "\n\n<conversation>\nUser: " + fence(user) + "\nAssistant: " + fence(answer) + "\n</conversation>"
	text, usage, err := m.ask(ctx, ask)
	if err != nil {
		return "", usage, fmt.Errorf("title: %w", err)
	}
	t := Clean(mask(text))
	if t == "" {
		return "", usage, ErrNone
	}
	return t, usage, nil
}

// ask makes one call and returns all that the model says.
func (m Generator) ask(ctx context.Context, text string) (string, llm.Usage, error) {
	r := &llm.Request{Model: m.Model, Transcript: llm.NewTranscript(llm.UserText(text)), MaxTokens: maxOutputTokens, NoTools: true, Effort: "none"}
	size := 0
	for ev, err := range m.Provider.Stream(ctx, r) {
		if err != nil {
			return "", llm.Usage{}, err
		}
		switch ev := ev.(type) {
		case llm.TextDelta:
			if size += len(ev); size > maxBytes {
				return "", llm.Usage{}, ErrNone
			}
		case llm.Notice:
			size = 0
		case llm.Done:
			if ev.Stop == llm.Refusal {
				return "", ev.Usage, ErrNone
			}
			return ev.Message.Text(), ev.Usage, nil
		}
	}
	return "", llm.Usage{}, ErrNone // cut off is no answer
}

// excerpt is the beginning of what somebody said.
func excerpt(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) > maxExcerpt {
		s = string([]rune(s)[:maxExcerpt]) + " …"
	}
	return s
}

// fence keeps text from ending the block in which it stands.
func fence(s string) string { return strings.ReplaceAll(s, "</", "<\u200b/") }

var label = regexp.MustCompile(`(?i)^(title|titel|titre|título|titolo|标题|標題|タイトル|제목|заголовок|название)\s*[:：]\s*`)

// Clean returns what a model has said as a title: one line of at most 60
// characters, cut between words where there are some, without control characters,
// marks of direction, markup, a label, quotation marks or a full stop around it.
// Doing it again changes nothing.
func Clean(s string) string {
	s = firstLine(strings.ToValidUTF8(s, ""))
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == '\u200d' || r == '\ufe0f': // inside emoji
			return r
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co), strings.ContainsRune("*_`#<>[]|\\", r):
			return -1
		}
		return r
	}, s)
	for { // each may uncover another
		was := s
		s = strings.Join(strings.Fields(s), " ")
		s = label.ReplaceAllString(s, "")
		s = strings.Trim(s, " \"'“”„‚‘’«»‹›「」『』()-–—:;,.。、！!…\u200d\ufe0f")
		s = shorten(s)
		if s == was {
			return firstLine(s) // nothing, if only marks are left
		}
	}
}

// firstLine is the first line that says anything. One of nothing but marks does
// not.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r) }) {
			return line
		}
	}
	return ""
}

// shorten cuts a title that is too long.
func shorten(s string) string {
	r := []rune(s)
	if len(r) <= maxTitle {
		return s
	}
	head := string(r[:maxTitle])
	if i := strings.LastIndexByte(head, ' '); i > len(head)/2 && r[maxTitle] != ' ' {
		head = head[:i]
	}
	return head
}
