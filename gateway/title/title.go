// Package title generates short titles for conversations by one model call about the
// first exchange. A Generator may be used by several goroutines if Provider and Mask may.
// Titles are stored elsewhere.
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
	maxTitle        = 60      // characters
	maxExcerpt      = 2000    // characters of each side that are sent to the model
	maxOutputTokens = 200     // tokens
	maxBytes        = 8 << 10 // length of the model's answer
)

// ErrNone is returned when there is no usable title.
var ErrNone = errors.New("title: model returned no title")

// A Generator generates titles with a model.
type Generator struct {
	Provider llm.Provider
	Model    string
	// Mask masks secrets in what is sent and received.
	Mask func(string) string
}

// Generate returns a title for a conversation that starts with the messages user and
// answer, and the usage of the call, also when it fails. If user has no text the error
// wraps ErrNone and no model is called.
func (m Generator) Generate(ctx context.Context, user, answer string) (string, llm.Usage, error) {
	user, answer = excerpt(m.Mask(user)), excerpt(m.Mask(answer))
	if user == "" {
		return "", llm.Usage{}, fmt.Errorf("first message has no text: %w", ErrNone)
	}
	ask := strings.TrimSpace(instructions) + "\n\n<conversation>\nUser: " + escapeClosingTags(user) + "\nAssistant: " + escapeClosingTags(answer) + "\n</conversation>"
	text, usage, err := m.callModel(ctx, ask)
	if err != nil {
		return "", usage, fmt.Errorf("title: %w", err)
	}
	t := Clean(m.Mask(text))
	if t == "" {
		return "", usage, ErrNone
	}
	return t, usage, nil
}

// callModel makes one model call and returns the text of the answer.
func (m Generator) callModel(ctx context.Context, text string) (string, llm.Usage, error) {
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
	return "", llm.Usage{}, ErrNone // the stream ended without Done
}

// excerpt returns the beginning of a message.
func excerpt(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) > maxExcerpt {
		s = string([]rune(s)[:maxExcerpt]) + " …"
	}
	return s
}

// escapeClosingTags keeps text from closing the block that encloses it.
func escapeClosingTags(s string) string { return strings.ReplaceAll(s, "</", "<\u200b/") }

var labelPrefix = regexp.MustCompile(`(?i)^(title|titel|titre|título|titolo|标题|標題|タイトル|제목|заголовок|название)\s*[:：]\s*`)

// Clean converts a model's answer to a title: one line of at most 60 characters, cut
// between words if possible, without control and direction characters, markup, a label
// such as "Title:", and surrounding quotation marks or punctuation. Clean is idempotent.
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
	for { // one removal may expose another
		before := s
		s = strings.Join(strings.Fields(s), " ")
		s = labelPrefix.ReplaceAllString(s, "")
		s = strings.Trim(s, " \"'“”„‚‘’«»‹›「」『』()-–—:;,.。、！!…\u200d\ufe0f")
		s = shorten(s)
		if s == before {
			return firstLine(s) // "" if only punctuation is left
		}
	}
}

// firstLine returns the first line that contains a letter, a number or a symbol.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r) }) {
			return line
		}
	}
	return ""
}

// shorten cuts a title to maxTitle characters.
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
