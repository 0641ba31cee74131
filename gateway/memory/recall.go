package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/session"
	"hermesd/internal/shorten"
)

// Limits of recalls.
const (
	minQuery       = 5 // characters
	maxQuery       = 10000
	maxLateRow     = 3 // recalls in succession that were too late; then no turn waits
	maxEarlier     = time.Hour
	maxEarlierTurn = 3
	maxTalks       = 1000
)

// A talk is what is known of a session.
type talk struct {
	list []string // of the last recall or query, for memory_recall; without what was left out
	last recalled
}

// A recalled is the result of a recall.
type recalled struct {
	body string // of the block; "": nothing fits
	turn int    // Record.Turns
	at   time.Time
}

// A Recall is the recall of one turn. A nil Recall recalls nothing.
type Recall struct {
	s     *Service
	c     *client
	turn  Turn
	waits bool // the first model call waits for it
	done  chan struct{}

	once sync.Once
	text string

	// Guarded by s.mu.
	ready   time.Time // when the turn was ready; zero before
	counted bool      // as too late
	ended   bool
	failed  bool
	result  recalled
}

// Recall begins to recall what fits t.Text. It does not wait.
func (s *Service) Recall(t Turn) *Recall {
	if s.off() || s.about().NoRecall || t.Command || trivial(t.Text) || !s.Allows(t) {
		return nil
	}
	r := &Recall{s: s, turn: t, done: make(chan struct{}), waits: s.about().Wait || t.Record.Turns == 0}
	s.mu.Lock()
	if s.recalls < maxRecalls && !s.closed {
		if r.c = s.begin(s.guard(reads)); r.c != nil {
			s.recalls++
		}
	}
	s.mu.Unlock()
	if r.c == nil || !s.spawn(r.run) {
		r.failed = true
		close(r.done)
	}
	return r
}

func (r *Recall) run() {
	s, began := r.s, time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	scope := s.Scope(r.turn)
	items, err := r.c.provider.Recall(ctx, scope, shorten.To(s.parts.Mask(r.turn.Text), maxQuery))
	s.result(r.c, reads, "recall", began, err)
	result := recalled{turn: r.turn.Record.Turns, at: time.Now()}
	var list []string
	if err == nil {
		var left leftOut
		list, left = s.clean(lines(items, r.turn.Frozen))
		result.body = s.body(list, 0, left)
	}
	s.mu.Lock()
	s.recalls--
	r.end(err, result, began)
	if err == nil {
		s.keep(r.turn.Record.ID, list, result)
	}
	s.mu.Unlock()
	close(r.done)
	if err == nil {
		s.refreshStanding(ctx, scope)
	}
}

// end records that a recall has ended. The caller holds s.mu.
func (r *Recall) end(err error, result recalled, began time.Time) {
	s := r.s
	r.ended, r.failed, r.result = true, err != nil, result
	if err != nil {
		return
	}
	s.stats.took(result.at.Sub(began))
	switch {
	case r.counted:
	case r.ready.IsZero() || result.at.Sub(r.ready) <= s.settings().RecallWait:
		s.lateRow = 0
	case r.waits:
		s.stats.late++
	}
}

// keep keeps a result for the next turns of a session. The caller holds s.mu.
func (s *Service) keep(id session.ID, list []string, result recalled) {
	t := s.talk(id)
	if t.last.at.IsZero() || result.turn >= t.last.turn {
		t.last, t.list = result, list
	}
}

// talk returns what is known of a session. The caller holds s.mu.
func (s *Service) talk(id session.ID) *talk {
	if t := s.talks[string(id)]; t != nil {
		return t
	}
	if len(s.talks) >= maxTalks {
		for k, t := range s.talks {
			if time.Since(t.last.at) > maxEarlier || len(s.talks) >= maxTalks {
				delete(s.talks, k)
			}
		}
	}
	t := &talk{}
	s.talks[string(id)] = t
	return t
}

// Await returns the block for the overlay of the turn, "" if there is none. The first call
// means that the turn is ready: it waits for a recall that has not ended as long as the
// settings allow. Every call returns the same.
func (r *Recall) Await(ctx context.Context) string {
	if r == nil {
		return ""
	}
	r.once.Do(func() { r.text = r.await(ctx) })
	return r.text
}

func (r *Recall) await(ctx context.Context) string {
	s := r.s
	wait := s.settings().RecallWait
	s.mu.Lock()
	r.ready = time.Now()
	var earlier recalled
	if t := s.talks[string(r.turn.Record.ID)]; t != nil {
		earlier = t.last
	}
	if !r.waits || s.lateRow >= maxLateRow {
		wait = 0
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		wait = 0
	default:
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	text, result := r.choose(earlier, wait > 0 && ctx.Err() == nil)
	s.parts.Observe(Call{Kind: TurnCall, Result: result})
	return text
}

// choose returns the block of the turn, and what it is: ready, late, earlier or none.
// waited: the turn has waited for the recall as long as it may.
func (r *Recall) choose(earlier recalled, waited bool) (text, result string) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	result = "none"
	if r.ended && !r.failed {
		if r.result.body != "" {
			result = "ready"
		}
		return s.block(r.result.body, false), result
	}
	if waited && !r.ended {
		r.counted, result = true, "late"
		s.lateRow++
		s.stats.late++
		s.parts.Log.Debug("a recall is late", zap.String("provider", s.about().Name))
	}
	if r.ready.Sub(earlier.at) > maxEarlier || r.turn.Record.Turns-earlier.turn > maxEarlierTurn {
		return "", result
	}
	if earlier.body != "" {
		result = "earlier"
	}
	return s.block(earlier.body, true), result
}

// lines returns the items that frozen does not say.
func lines(items []provider.Item, frozen string) []string {
	var list []string
	for _, i := range items {
		text := strings.TrimSpace(i.Text)
		if text == "" || frozen != "" && strings.Contains(frozen, text) || slices.Contains(list, text) {
			continue
		}
		list = append(list, text)
	}
	return list
}

var trivialTexts = func() map[string]bool {
	m := map[string]bool{}
	for text := range strings.SplitSeq("yes please|thanks|thank you|thank you very much|hello|good morning|good evening|good night|continue|go ahead|go on|please continue|done|lgtm|looks good|sounds good|"+
		"ja bitte|danke|danke schön|vielen dank|hallo|guten morgen|guten abend|gute nacht|weiter|mach weiter|bitte weiter|fertig|alles klar|in ordnung|passt so", "|") {
		m[text] = true
	}
	return m
}()

// trivial reports whether nothing can be recalled for a text.
func trivial(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if strings.HasPrefix(text, "/") || utf8.RuneCountInString(text) < minQuery {
		return true
	}
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) || unicode.IsSpace(r) })
	return text == "" || trivialTexts[strings.Join(strings.Fields(text), " ")]
}
