package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	sim "hermesd/internal/sim/telegram"
)

const (
	mark       = outbox.RepeatNotice + "\n"
	resumeNote = "I was restarted, working on your message again."
)

// setAside matches notices about quarantined messages, and captures their number.
var setAside = regexp.MustCompile(`^⚠️ I stopped processing (?:this message|these (\d+) messages) because the daemon crashed`)

// findings counts events that are not errors.
type findings struct {
	repeats int // answers shown twice, once marked as possible repeat
	marked  int // messages marked as possible repeat
	orphans int // previews that could not be deleted
	aside   int // messages quarantined after two crashes, with a notice
}

func (f *findings) add(g findings) {
	f.repeats += g.repeats
	f.marked += g.marked
	f.orphans += g.orphans
	f.aside += g.aside
}

func (f findings) String() string {
	return fmt.Sprintf("%d answers shown twice and marked so, %d marks in all, %d previews left behind, %d messages set aside", f.repeats, f.marked, f.orphans, f.aside)
}

// visible returns the texts of the bot in each chat.
func (w *world) visible() map[int64][]string {
	out := map[int64][]string{}
	for _, c := range w.platform.Chats() {
		for _, m := range c.FromBots() {
			out[c.ID()] = append(out[c.ID()], m.Text)
		}
	}
	return out
}

// judge checks the outcome of each message, what users see of it, the model requests and
// the tool runs. want is what a daemon without crashes sends to each chat; nil: only the
// tokens of the answers are known.
func (w *world) judge(want map[int64][]string) (f findings) {
	w.t.Helper()
	outcomes := w.outcomes()
	aside := w.asides(outcomes)
	f.aside = len(aside)
	for _, c := range w.platform.Chats() {
		if want != nil {
			f.add(w.exact(c, want[c.ID()], aside))
		} else {
			f.add(w.byToken(c))
		}
	}
	v := sim.Judge{PerSender: want == nil, Tokens: tokensOfWhole}.Judge(w.platform)
	v.Doubled = sim.Judge{}.Judge(w.platform).Doubled // also by previews that stay
	for _, lost := range v.Lost {
		if o := outcomes[post{lost.Chat, lost.Offer}]; !needsNoAnswer(o) {
			w.t.Errorf("%s is lost; its outcome is %+v", lost.Token, o)
		}
	}
	if len(v.Doubled)+len(v.Disorder)+len(v.Stray) > 0 {
		w.t.Errorf("people see: %s", v)
	}
	w.mu.Lock()
	for input, n := range w.runs {
		if n > 1 {
			w.t.Errorf("the tool that may run once ran %d times with %s", n, input)
		}
	}
	w.mu.Unlock()
	if n := len(w.unheard()) + w.keptBack(); f.repeats+f.orphans > n {
		w.t.Errorf("%v, but only %d messages arrived without a receipt", f, n)
	}
	if n := w.unsure + w.doubtful() + w.keptBack(); f.marked > n {
		w.t.Errorf("%v, but only %d sends had no answer or followed a preview that stayed", f, n)
	}
	void := map[string]bool{}
	for p, o := range outcomes {
		if needsNoAnswer(o) {
			void[w.tokenOf(p)] = true
		}
	}
	w.prefixes(void)
	return f
}

// tokensOfWhole returns the tokens of a message, none if it is a preview that shows a part
// of an answer.
func tokensOfWhole(text string) []string {
	if strings.HasPrefix(strings.TrimPrefix(text, mark), "#m") && !isWhole(text) {
		return nil
	}
	return token.FindAllString(text, -1)
}

// isWhole reports whether a text that begins with a token is a whole answer, or the first
// piece of one in two pieces.
func isWhole(text string) bool { return strings.HasSuffix(text, whole) || len(text) > 3500 }

// needsNoAnswer reports whether a message with this outcome needs no separate answer.
func needsNoAnswer(o *inbox.Outcome) bool {
	return o != nil && (o.Result != inbox.Replied || o.MergedInto != 0)
}

// keptBack returns the number of previews that could not be deleted.
func (w *world) keptBack() (n int) {
	w.t.Helper()
	rows, _, err := w.store.Outbox(context.Background(), outbox.Query{Sent: true})
	if err != nil {
		w.t.Error(err)
	}
	for _, r := range rows {
		if r.Delete != 0 && r.State == outbox.Dead {
			n++
		}
	}
	return n
}

// doubtful returns the number of sends without a clear response.
func (w *world) doubtful() (n int) {
	for _, c := range w.platform.Recorder().Calls("sendMessage") {
		if !c.Answered || c.Fault != sim.Pass || c.Done.Sub(c.At) > 20*time.Second {
			n++
		}
	}
	return n
}

// outcomes returns the stored outcome of each message of a person.
func (w *world) outcomes() map[post]*inbox.Outcome {
	w.t.Helper()
	out := map[post]*inbox.Outcome{}
	for _, c := range w.platform.Chats() {
		for _, m := range c.Messages() {
			if m.From.IsBot || m.Service != "" {
				continue
			}
			key := fmt.Sprintf("%d:%d", m.Chat, m.ID)
			chains, err := w.store.MessageHistory(context.Background(), key)
			if err != nil || len(chains) != 1 {
				w.t.Errorf("%q: the store knows %d messages of key %s, %v", m.Text, len(chains), key, err)
				continue
			}
			e := chains[0].Entry
			if e.State != inbox.Done || e.Outcome == nil {
				w.t.Errorf("%q has no outcome: it is %s", m.Text, e.State)
				continue
			}
			if r := e.Outcome.Result; r != inbox.Replied && r != inbox.Cancelled && e.Outcome.Reason != "set aside" && !w.rough {
				w.t.Errorf("%q ended %+v", m.Text, e.Outcome)
			}
			out[post{m.Chat, m.ID}] = e.Outcome
		}
	}
	return out
}

// asides returns the quarantined messages. It checks that there is a notice in the chat,
// one for all messages of one input, and that there were at least two crashes.
func (w *world) asides(outcomes map[post]*inbox.Outcome) map[post]bool {
	w.t.Helper()
	notices, apologies := map[int64]int{}, map[int64]int{}
	for _, c := range w.platform.Chats() {
		for _, m := range c.FromBots() {
			if n := setAside.FindStringSubmatch(strings.TrimPrefix(m.Text, mark)); n != nil {
				many, _ := strconv.Atoi(n[1])
				notices[c.ID()] += max(many, 1)
			}
			if strings.HasPrefix(strings.TrimPrefix(m.Text, mark), "⚠️") {
				apologies[c.ID()]++
			}
		}
	}
	out := map[post]bool{}
	for p, o := range outcomes {
		if o.Reason == "set aside" {
			out[p] = true
			notices[p.chat]--
		}
		if o.Result == inbox.Failed && apologies[p.chat] == 0 {
			w.t.Errorf("%s failed (%s) and nobody was told", w.tokenOf(p), o.Reason)
		}
	}
	for chat, n := range notices {
		if n < 0 {
			w.t.Errorf("chat %d: %d messages were set aside and nobody was told", chat, -n)
		}
	}
	if len(out) > 0 && len(w.lives) < 3 {
		w.t.Errorf("%d messages were set aside after %d deaths", len(out), len(w.lives)-1)
	}
	return out
}

// tokenOf returns the token of a person's message.
func (w *world) tokenOf(p post) string {
	for _, c := range w.platform.Chats() {
		if m, ok := c.Message(p.id); ok && m.Chat == p.chat {
			return token.FindString(m.Text)
		}
	}
	return ""
}

// exact compares the bot's messages in a chat with the expected ones.
func (w *world) exact(c *sim.Chat, want []string, aside map[post]bool) (f findings) {
	w.t.Helper()
	plain, marked := map[string]int{}, map[string]int{}
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		if again {
			f.marked++
		}
		switch {
		case setAside.MatchString(text):
		case slices.Contains(want, text) && again:
			marked[text]++
		case slices.Contains(want, text):
			plain[text]++
		case !again && text == resumeNote, slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(s, text) }):
			f.orphans++
		default:
			w.t.Errorf("chat %d: nobody expected %.100q", c.ID(), m.Text)
		}
	}
	for _, text := range want {
		p, m := plain[text], marked[text]
		if p > 1 || m > len(w.lives)-1 || p+m == 0 && !w.answersQuarantined(c, text, aside) {
			w.t.Errorf("chat %d: %d times, and %d times as a possible repeat: %.60q", c.ID(), p, m, text)
		}
		f.repeats += max(0, p+m-1)
	}
	return f
}

// answersQuarantined reports whether text answers a quarantined message. The second piece of an
// answer in two pieces has no token.
func (w *world) answersQuarantined(c *sim.Chat, text string, aside map[post]bool) bool {
	tokens := token.FindAllString(text, -1)
	for _, m := range c.Messages() {
		if !aside[post{m.Chat, m.ID}] {
			continue
		}
		if len(tokens) == 0 && (strings.Contains(m.Text, "long") || strings.HasPrefix(m.Text, "/")) || slices.Contains(tokens, token.FindString(m.Text)) {
			return true
		}
	}
	return false
}

// byToken classifies the bot's messages in a chat: one that is neither a whole answer nor an
// answer to a command is a preview that was not deleted.
func (w *world) byToken(c *sim.Chat) (f findings) {
	w.t.Helper()
	answered := map[string]int{}
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		if again {
			f.marked++
		}
		tokens := token.FindAllString(text, -1)
		switch {
		case len(tokens) > 0 && isWhole(text):
			if answered[text]++; answered[text] > 1 {
				f.repeats++
			}
		case told.MatchString(text), strings.HasPrefix(text, "word ") && strings.HasSuffix(text, whole):
		case again && !strings.HasPrefix(text, "#m") && !strings.HasPrefix("I pay.", text):
			w.t.Errorf("chat %d: nobody expected %.100q", c.ID(), m.Text)
		default:
			f.orphans++
		}
	}
	return f
}

// told matches answers to commands and notices that end a message without an answer.
var told = regexp.MustCompile(`^(You are \d+ on telegram|⚠️ |⏸ |Nothing is running|The running turn|\d+ waiting|A new conversation|Still working|Nothing has happened|Unknown command|There is no command)`)

// unheard returns the messages that the platform has, but whose receipt did not reach the
// store.
func (w *world) unheard() (out []post) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.platform.Recorder().Calls("sendMessage") {
		if p := (post{c.Chat, c.Message}); c.Handled && !w.receipts[p] {
			out = append(out, p)
		}
	}
	return out
}

// asked is a model request without cache breakpoints and overlay.
type asked struct {
	head     string
	messages []string
}

var overlayStart = regexp.MustCompile(`^\s*<gateway-context`)

func understand(body []byte) (a asked, err error) {
	var r struct {
		System   json.RawMessage `json:"system"`
		Tools    json.RawMessage `json:"tools"`
		Messages []struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return a, err
	}
	a.head = string(unmarked(r.System)) + string(unmarked(r.Tools))
	for _, m := range r.Messages {
		text := m.Role
		for _, b := range m.Content {
			var block struct {
				Text string `json:"text"`
			}
			if json.Unmarshal(b, &block) == nil && overlayStart.MatchString(block.Text) {
				continue
			}
			text += " " + string(unmarked(b))
		}
		a.messages = append(a.messages, text)
	}
	return a, nil
}

var cacheMark = regexp.MustCompile(`,"cache_control":\{[^}]*\}`)

func unmarked(b []byte) []byte { return bytes.TrimSpace(cacheMark.ReplaceAll(b, nil)) }

// prefixes checks that each model request begins with the previous one of its session.
// Only the last turn may be missing, be merged with a newer message or be edited, if nothing
// of it was stored.
func (w *world) prefixes(void map[string]bool) {
	w.t.Helper()
	latest := map[string]asked{}
	for _, e := range w.model.Requests() {
		a, err := understand(e.Body)
		if err != nil {
			w.t.Fatalf("request %d: %v", e.N, err)
		}
		old, known := latest[a.head]
		latest[a.head] = a
		if !known || len(a.messages) >= len(old.messages) && slices.Equal(a.messages[:len(old.messages)], old.messages) {
			continue
		}
		last := len(old.messages) - 1 // start of the last turn
		for last > 0 && (!strings.HasPrefix(old.messages[last], "user") || !token.MatchString(old.messages[last])) {
			last--
		}
		gone := slices.ContainsFunc(token.FindAllString(old.messages[last], -1), func(s string) bool { return void[s] })
		merged := w.mode != inbox.Queue && len(a.messages) > last && merges(old.messages[last], a.messages[last])
		edited := len(a.messages) > last && last == len(old.messages)-1 && strings.ReplaceAll(a.messages[last], "edited: ", "") == old.messages[last]
		if len(a.messages) < last || !slices.Equal(a.messages[:last], old.messages[:last]) || !gone && !merged && !edited {
			w.t.Errorf("request %d does not begin with the one before it:\n%.3000q\n%.3000q", e.N, a.messages, old.messages)
		}
	}
}

// merges reports whether all tokens of a message are in a later one.
func merges(old, now string) bool {
	return !slices.ContainsFunc(token.FindAllString(old, -1), func(s string) bool { return !strings.Contains(now, s) })
}
