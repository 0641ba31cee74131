package telegram

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
	// PerSender compares the order of answers only between messages of the same
	// person, for bots that keep one session per member of a group.
	PerSender bool
}

// Token returns the n-th token of the default scheme.
func Token(n int) string { return fmt.Sprintf("#m%d#", n) }

var defaultToken = regexp.MustCompile(`#m[0-9]+#`)

// A Verdict is the result of a Judge.
type Verdict struct {
	Offered   int // messages with a token
	Answered  int // messages with a token that have at least one visible answer
	Lost      []Case
	Doubled   []Case        // with more than one visible answer that is not marked as a repeat
	Repeats   []Case        // with answers that are marked as repeats
	Disorder  []Case        // answered before an earlier message in the same place
	Stray     []Case        // answers with a token that no message had
	ShortWait time.Duration // shortest time from a message to its first answer
	LongWait  time.Duration // longest time from a message to its first answer
}

// A Case is one token with its message and answers.
type Case struct {
	Token   string
	Chat    int64 // the supergroup, if the group became one
	Offer   int   // message ID of the person's message
	Answers []int // message IDs of the visible answers, including repeats
	Marked  int   // number of answers that are marked as repeats
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
		for i, c := range list.cases {
			if i == 5 {
				break
			}
			fmt.Fprintf(&b, "; %s: %s in %d, message %d, answers %v", list.name, c.Token, c.Chat, c.Offer, c.Answers)
		}
	}
	return b.String()
}

// A tally is a case that is being examined.
type tally struct {
	Case
	place   string
	said    time.Time
	replied time.Time
	first   int // Message.N of the first answer
}

// Judge examines the given chats, or all chats if none is given.
func (j Judge) Judge(s *Server, chats ...*Chat) Verdict {
	if j.Tokens == nil {
		j.Tokens = func(text string) []string { return defaultToken.FindAllString(text, -1) }
	}
	j.Repeat = cmp.Or(j.Repeat, "(may be a repeat)")
	if len(chats) == 0 {
		chats = s.Chats()
	}
	var v Verdict
	moved := upgrades(s)
	cases := map[string]*tally{}
	var order []*tally
	stray := map[string]*tally{}
	for _, bots := range []bool{false, true} { // people first: an edit may answer what was sent after the message that it changes
		for _, m := range said(chats) {
			if to := moved[m.Chat]; to != 0 {
				m.Chat = to
			}
			switch {
			case m.From.IsBot != bots:
			case !bots:
				order = j.offered(m, cases, order)
			case m.Deleted.IsZero():
				j.answered(m, cases, stray)
			}
		}
	}
	for _, t := range order {
		v.add(t)
	}
	for _, t := range stray {
		v.Stray = append(v.Stray, t.Case)
	}
	slices.SortFunc(v.Stray, func(a, b Case) int { return cmp.Compare(a.Token, b.Token) })
	v.Disorder = disorder(order)
	return v
}

// said returns the messages of chats, without service messages.
func said(chats []*Chat) (out []Message) {
	for _, ch := range chats {
		for _, m := range ch.Messages() {
			if m.Service == "" {
				out = append(out, m)
			}
		}
	}
	return out
}

// upgrades maps groups to the supergroups that they became; both count as one
// chat.
func upgrades(s *Server) map[int64]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[int64]int64{}
	for _, c := range s.rooms {
		if c.upgraded != 0 {
			out[c.id] = c.upgraded
		}
	}
	return out
}

// offered adds a case for the token of a person's message. The first version of
// the message counts; edits do not.
func (j Judge) offered(m Message, cases map[string]*tally, order []*tally) []*tally {
	text := m.Text
	if len(m.Versions) > 0 {
		text = m.Versions[0].Text
	}
	for _, token := range j.Tokens(text) {
		if cases[token] != nil {
			continue
		}
		t := &tally{Case: Case{Token: token, Chat: m.Chat, Offer: m.ID}, said: m.Sent}
		t.place = fmt.Sprintf("%d/%d", m.Chat, m.Thread)
		if j.PerSender {
			t.place += fmt.Sprintf("/%d", m.From.ID)
		}
		cases[token] = t
		order = append(order, t)
	}
	return order
}

// answered counts a bot's message once for every distinct token in it.
func (j Judge) answered(m Message, cases, stray map[string]*tally) {
	tokens := j.Tokens(m.Text)
	slices.Sort(tokens)
	for _, token := range slices.Compact(tokens) {
		t := cases[token]
		if t == nil || t.Chat != m.Chat {
			if t = stray[token]; t == nil {
				t = &tally{Case: Case{Token: token, Chat: m.Chat}}
				stray[token] = t
			}
		}
		t.Answers = append(t.Answers, m.ID)
		if strings.Contains(m.Text, j.Repeat) {
			t.Marked++
		}
		if t.first == 0 || m.N < t.first {
			t.first, t.replied = m.N, m.Sent
		}
	}
}

func (v *Verdict) add(t *tally) {
	v.Offered++
	if len(t.Answers) == 0 {
		v.Lost = append(v.Lost, t.Case)
		return
	}
	v.Answered++
	if t.Marked > 0 {
		v.Repeats = append(v.Repeats, t.Case)
	}
	if len(t.Answers)-t.Marked > 1 {
		v.Doubled = append(v.Doubled, t.Case)
	}
	wait := t.replied.Sub(t.said)
	if v.Answered == 1 || wait < v.ShortWait {
		v.ShortWait = wait
	}
	v.LongWait = max(v.LongWait, wait)
}

// disorder returns the cases that were answered before an earlier one.
func disorder(order []*tally) []Case {
	var out []Case
	latest := map[string]int{} // latest first answer so far, by place
	for _, t := range order {
		if t.first == 0 {
			continue
		}
		if t.first < latest[t.place] {
			out = append(out, t.Case)
		}
		latest[t.place] = max(latest[t.place], t.first)
	}
	return out
}
