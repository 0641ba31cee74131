package discord

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Judge compares the messages of people with the answers of bots. Every
// message that expects an answer contains a unique token, and every answer
// contains the tokens of the messages that it answers.
type Judge struct {
	// Tokens returns the tokens in a text. Default: words such as "#m12#".
	Tokens func(text string) []string
	// Repeat is the text that marks an answer as a possible repeat. Default:
	// "(may be a repeat)".
	Repeat string
	// Anywhere allows an answer in another channel than the message, as when a
	// bot starts a thread. An answer in a thread of the channel always counts.
	Anywhere bool
}

// Token returns the n-th token of the default scheme.
func Token(n int) string { return fmt.Sprintf("#m%d#", n) }

var defaultToken = regexp.MustCompile(`#m[0-9]+#`)

// A Verdict is the result of a Judge.
type Verdict struct {
	Offered  int // messages with a token
	Answered int // messages with a token that have at least one visible answer
	Lost     []Case
	Doubled  []Case // with more than one visible answer that is not marked as a repeat
	Repeats  []Case // with answers that are marked as repeats
	Disorder []Case // answered before an earlier message in the same channel
	Stray    []Case // answers with a token that no message in their place had
}

// A Case is one token with its message and answers.
type Case struct {
	Token   string
	Channel string
	Offer   string   // ID of the person's message
	Answers []string // IDs of the visible answers of bots, including repeats
	Marked  int      // number of answers that are marked as repeats
	first   int
}

// OK reports whether everything was answered exactly once and in order. Answers
// that are marked as repeats are counted separately and do not make it false.
func (v Verdict) OK() bool {
	return len(v.Lost) == 0 && len(v.Doubled) == 0 && len(v.Disorder) == 0 && len(v.Stray) == 0
}

// String returns the verdict as one line with some of the cases.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d offered, %d answered, %d lost, %d doubled, %d repeats, %d out of order, %d stray",
		v.Offered, v.Answered, len(v.Lost), len(v.Doubled), len(v.Repeats), len(v.Disorder), len(v.Stray))
	for _, list := range []struct {
		name  string
		cases []Case
	}{{"lost", v.Lost}, {"doubled", v.Doubled}, {"out of order", v.Disorder}, {"stray", v.Stray}} {
		for _, c := range list.cases[:min(5, len(list.cases))] {
			fmt.Fprintf(&b, "; %s: %s, %d answers", list.name, c.Token, len(c.Answers))
		}
	}
	return b.String()
}

// Judge examines all channels.
func (j Judge) Judge(s *Server) Verdict {
	if j.Tokens == nil {
		j.Tokens = func(text string) []string { return defaultToken.FindAllString(text, -1) }
	}
	j.Repeat = cmp.Or(j.Repeat, "(may be a repeat)")
	parents := map[string]string{}
	var said []Message
	for _, ch := range s.Channels() {
		if ch.parent != nil {
			parents[ch.id] = ch.parent.id
		}
		said = append(said, ch.Messages()...)
	}
	slices.SortFunc(said, func(a, b Message) int { return a.N - b.N })
	cases, stray := map[string]*Case{}, map[string]*Case{}
	var order []*Case
	for _, bots := range []bool{false, true} { // people first: an edit may answer what was sent after the message that it changes
		for _, m := range said {
			switch {
			case m.From.IsBot() != bots:
			case !bots:
				order = j.offered(m, cases, order)
			case m.Deleted.IsZero():
				j.answered(m, cases, stray, parents[m.Channel])
			}
		}
	}
	return sum(order, stray)
}

// offered adds a case for the token of a person's message. The first version of
// the message counts; edits do not.
func (j Judge) offered(m Message, cases map[string]*Case, order []*Case) []*Case {
	text := m.Text
	if len(m.Versions) > 0 {
		text = m.Versions[0].Text
	}
	for _, token := range j.Tokens(text) {
		if cases[token] == nil {
			cases[token] = &Case{Token: token, Channel: m.Channel, Offer: m.ID}
			order = append(order, cases[token])
		}
	}
	return order
}

// answered counts a bot's message once for every distinct token in it.
func (j Judge) answered(m Message, cases, stray map[string]*Case, parent string) {
	tokens := j.Tokens(m.Text)
	slices.Sort(tokens)
	for _, token := range slices.Compact(tokens) {
		c := cases[token]
		if c == nil || !j.Anywhere && c.Channel != m.Channel && c.Channel != parent {
			if c = stray[token]; c == nil {
				c = &Case{Token: token, Channel: m.Channel}
				stray[token] = c
			}
		}
		c.Answers = append(c.Answers, m.ID)
		if strings.Contains(m.Text, j.Repeat) {
			c.Marked++
		}
		if c.first == 0 || m.N < c.first {
			c.first = m.N
		}
	}
}

// sum creates the verdict from the cases, which are in the order of the
// messages.
func sum(order []*Case, stray map[string]*Case) Verdict {
	v := Verdict{Offered: len(order)}
	latest := map[string]int{} // latest first answer so far, by channel
	for _, c := range order {
		if len(c.Answers) == 0 {
			v.Lost = append(v.Lost, *c)
			continue
		}
		v.Answered++
		if c.Marked > 0 {
			v.Repeats = append(v.Repeats, *c)
		}
		if len(c.Answers)-c.Marked > 1 {
			v.Doubled = append(v.Doubled, *c)
		}
		if c.first < latest[c.Channel] {
			v.Disorder = append(v.Disorder, *c)
		}
		latest[c.Channel] = max(latest[c.Channel], c.first)
	}
	for _, c := range stray {
		v.Stray = append(v.Stray, *c)
	}
	slices.SortFunc(v.Stray, func(a, b Case) int { return cmp.Compare(a.Token, b.Token) })
	return v
}
