package slack

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
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
	// Unordered disables the check of the order of answers.
	Unordered bool
}

// Token returns the n-th token of the default scheme.
func Token(n int) string { return fmt.Sprintf("#m%d#", n) }

var token = regexp.MustCompile(`#m[0-9]+#`)

// A Case is one token with its message and answers.
type Case struct {
	Token   string
	Channel string
	Thread  string   // thread in which the answer is expected; "" if no message had the token
	TS      string   // ts of the person's message
	Answers []string // ts of the visible answers, including repeats
	Marked  int      // number of answers that are marked as repeats
	Strayed int      // number of answers in another channel or thread
	Wait    time.Duration
	first   int // Message.N of the first answer
}

// A Verdict is the result of a Judge.
type Verdict struct {
	Cases    []Case // all tokens of messages, in order
	Lost     []Case // without an answer
	Doubled  []Case // with more than one answer that is not marked as a repeat
	Repeats  []Case // with answers that are marked as repeats
	Disorder []Case // answered before an earlier message in the same place
	Stray    []Case // answers to no message, or in the wrong place
	LongWait time.Duration
}

// OK reports whether everything was answered exactly once, in its place and in
// order. Answers that are marked as repeats are counted separately and do not
// make it false.
func (v Verdict) OK() bool {
	return len(v.Lost)+len(v.Doubled)+len(v.Disorder)+len(v.Stray) == 0
}

// String returns the verdict as one line with some of the cases.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d offered, %d answered", len(v.Cases), len(v.Cases)-len(v.Lost))
	for _, list := range []struct {
		name  string
		cases []Case
	}{{"lost", v.Lost}, {"doubled", v.Doubled}, {"repeats", v.Repeats}, {"out of order", v.Disorder}, {"stray", v.Stray}} {
		fmt.Fprintf(&b, ", %d %s", len(list.cases), list.name)
		for _, c := range list.cases[:min(3, len(list.cases))] {
			fmt.Fprintf(&b, " (%s in %s at %s, answers %v)", c.Token, c.Channel, c.TS, c.Answers)
		}
	}
	return b.String()
}

// Judge examines the given channels, or all channels of the server if none is
// given.
func (j Judge) Judge(s *Server, channels ...*Channel) Verdict {
	if j.Tokens == nil {
		j.Tokens = func(text string) []string { return token.FindAllString(text, -1) }
	}
	j.Repeat = cmp.Or(j.Repeat, "(may be a repeat)")
	asked, answers := s.talk(channels)
	cases := map[string]*Case{}
	var order, stray []*Case
	for _, m := range asked {
		first := m.Message.Shown()
		if len(m.Versions) > 0 {
			first = m.Versions[0]
		}
		for _, t := range j.Tokens(first) {
			if cases[t] == nil {
				cases[t] = &Case{Token: t, Channel: m.Channel, Thread: m.place(), TS: m.TS, Wait: -1}
				order = append(order, cases[t])
			}
		}
	}
	for _, m := range answers {
		found := j.Tokens(m.Message.Shown())
		slices.Sort(found)
		for _, t := range slices.Compact(found) {
			c := cases[t]
			if c == nil {
				c = &Case{Token: t, Channel: m.Channel, Wait: -1}
				cases[t] = c
				stray = append(stray, c)
			}
			c.answered(m, strings.Contains(m.Message.Shown(), j.Repeat))
		}
	}
	return j.sum(order, stray)
}

// talk returns the messages of persons and of the server's bots that were not
// deleted, in the order in which they were sent.
func (s *Server) talk(channels []*Channel) (asked, answers []*message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(channels) == 0 {
		for _, c := range s.channels {
			channels = append(channels, c)
		}
	}
	for _, c := range channels {
		for _, m := range c.msgs {
			copied := &message{Message: m.snapshot(), channel: c, author: m.author}
			switch {
			case m.author.bot == nil:
				asked = append(asked, copied)
			case m.isAnswer():
				answers = append(answers, copied)
			}
		}
	}
	byNumber := func(a, b *message) int { return cmp.Compare(a.N, b.N) }
	slices.SortFunc(asked, byNumber)
	slices.SortFunc(answers, byNumber)
	return asked, answers
}

// place returns the thread that a message belongs to or, in a channel, starts.
// In a direct message all messages outside of threads have the same place.
func (m *message) place() string {
	if m.Thread == "" && m.channel.kind != DM {
		return m.TS
	}
	return m.Thread
}

// answered counts an answer. An answer in the thread of the question is in the
// right place too, wherever the question is.
func (c *Case) answered(m *message, repeat bool) {
	c.Answers = append(c.Answers, m.TS)
	if repeat {
		c.Marked++
	}
	inPlace := m.Thread == c.Thread || m.Thread == c.TS || m.Thread == ""
	if m.Channel != c.Channel || !inPlace {
		c.Strayed++
	}
	if c.first == 0 {
		c.first = m.N
	}
	if asked := m.channel.sent(c.TS); c.Wait < 0 && !asked.IsZero() {
		c.Wait = m.Sent.Sub(asked)
	}
}

// sent returns the time at which the message with ts was sent.
func (c *Channel) sent(ts string) time.Time {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if m := c.byTS[ts]; m != nil {
		return m.Sent
	}
	return time.Time{}
}

func (j Judge) sum(order, stray []*Case) Verdict {
	var v Verdict
	latest := map[string]int{} // latest first answer so far, by place
	for _, c := range order {
		v.Cases = append(v.Cases, *c)
		place := c.Channel + "/" + c.Thread
		switch {
		case len(c.Answers) == 0:
			v.Lost = append(v.Lost, *c)
			continue
		case len(c.Answers)-c.Marked > 1:
			v.Doubled = append(v.Doubled, *c)
		}
		if c.Marked > 0 {
			v.Repeats = append(v.Repeats, *c)
		}
		if c.Strayed > 0 {
			v.Stray = append(v.Stray, *c)
		}
		if c.first < latest[place] && !j.Unordered {
			v.Disorder = append(v.Disorder, *c)
		}
		latest[place] = max(latest[place], c.first)
		v.LongWait = max(v.LongWait, c.Wait)
	}
	for _, c := range stray {
		v.Stray = append(v.Stray, *c)
	}
	return v
}
