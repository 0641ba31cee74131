package delivery

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
	"hermesd/gateway/outbox"
)

const (
	firstTick       = 150 * time.Millisecond // before a turn shows that it runs
	firstText       = 700 * time.Millisecond // before an answer that is being written is shown
	typingEvery     = 4 * time.Second
	minVisible      = 4               // characters worth a message of their own
	decoration      = 5 * time.Second // longest request for decoration
	editDrain       = 2 * time.Second // longest wait for an edit that is under way
	maxEditFailures = 3               // refused edits before a preview is left alone
)

// A Stream shows that a turn runs and what it has written so far: typing, and
// one preview message that is edited. It is decoration, except that the preview
// itself is a row of the outbox, so that it is found again after a crash.
type Stream struct {
	d       *Delivery
	f       Draft
	adapter chat.Adapter
	raw     bool        // each preview is a beginning of the final text
	editor  chat.Editor // nil: no previews here
	typer   chat.Typer  // nil: no typing here
	ctx     context.Context
	cancel  context.CancelFunc

	mu           sync.Mutex // guards what follows
	timer        *time.Timer
	text         strings.Builder
	said         string // on a raw platform: what stands ahead of text
	note         string // shown while there is no text
	since        time.Time
	typed        time.Time
	shown        string
	interval     time.Duration
	editFailures int
	preview      outbox.ID
	receipt      string
	finished     bool
	left         bool          // Finish has returned
	busy         chan struct{} // closed when the tick that runs is over
}

// Stream starts to show the turn of f. prior is the preview that a dead process
// left for the same turn, or 0. The caller must call Finish.
func (d *Delivery) Stream(f Draft, prior outbox.ID) *Stream {
	s := &Stream{d: d, f: f, preview: prior, since: time.Now(), interval: d.opts.EditInterval}
	s.adapter = d.opts.Adapters[f.To.AccountID()]
	if s.adapter != nil {
		if d.opts.Preview {
			s.editor, _ = s.adapter.(chat.Editor)
		}
		s.typer, _ = s.adapter.(chat.Typer)
		ft := s.adapter.Capabilities()
		s.interval = max(s.interval, ft.EditInterval)
		if s.raw = ft.RawMarkdown; s.raw {
			s.interval = ft.EditInterval
		}
	}
	if s.editor == nil && s.typer == nil {
		s.finished = true
		return s
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(firstTick, s.tick) // Finish waits for the tick that runs
	return s
}

// Write adds text to what is shown.
func (s *Stream) Write(delta string) {
	s.mu.Lock()
	s.text.WriteString(delta)
	s.mu.Unlock()
}

// Retract forgets the text written so far.
func (s *Stream) Retract() {
	s.mu.Lock()
	s.text.Reset()
	s.mu.Unlock()
}

// EndPreamble says that the text written so far stands ahead of a tool call and is not
// the answer. It is forgotten; a raw platform, which cannot take it back, keeps
// it ahead of what follows.
func (s *Stream) EndPreamble() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(s.text.String()); s.raw && text != "" {
		s.said += text + "\n\n"
	}
	s.text.Reset()
}

// EndMessage ends a message of what is written so far, where what follows can be shown
// in another one. It returns the text, "" if there is none or it cannot be ended
// now, and the preview that is to become it, 0 if there is none. Like Finish it
// waits only briefly for an edit that is under way.
func (s *Stream) EndMessage() (text string, preview outbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.TrimSpace(s.text.String())
	if s.editor == nil || s.raw || s.finished || text == "" {
		return "", 0
	}
	s.finished = true // no tick begins meanwhile
	s.timer.Stop()
	if busy := s.busy; busy != nil {
		s.mu.Unlock()
		wait := time.NewTimer(editDrain)
		select {
		case <-busy:
		case <-wait.C:
		}
		wait.Stop()
		s.mu.Lock()
	}
	s.finished = false
	if s.typed.IsZero() { // nobody has seen yet that the agent works
		s.timer.Reset(max(0, firstTick-time.Since(s.since)))
	} else {
		s.timer.Reset(max(s.interval, 100*time.Millisecond))
	}
	if s.busy != nil {
		return "", 0
	}
	preview = s.preview
	s.preview, s.receipt, s.shown, s.note = 0, "", "", ""
	s.text.Reset()
	return text, preview
}

// FinalText is the final text that answer makes together with what stands ahead of
// it.
func (s *Stream) FinalText(answer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said + answer
}

// Progress adds a line to what is shown as long as there is no text.
func (s *Stream) Progress(line string) {
	if line == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note != "" {
		line = s.note + "\n" + line
	}
	s.note = line
}

// ShowStatus shows text as long as the answer has none. It is shown at once.
func (s *Stream) ShowStatus(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = text
	if !s.finished {
		s.since = s.since.Add(-firstText)
		s.timer.Reset(0)
	}
}

// Finish ends the showing. It returns the row of the preview, 0 if there is
// none, and whether it can still be changed: an edit that is under way could
// overtake the final text. It waits for that only briefly.
func (s *Stream) Finish() (preview outbox.ID, settled bool) {
	s.mu.Lock()
	if s.cancel == nil {
		defer s.mu.Unlock()
		return s.preview, true
	}
	s.finished = true
	s.timer.Stop()
	busy, preview := s.busy, s.preview
	s.mu.Unlock()
	defer s.cancel()
	if busy == nil {
		return preview, true
	}
	wait := time.NewTimer(editDrain)
	defer wait.Stop()
	select {
	case <-busy:
		settled = true
	case <-wait.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	return s.preview, settled
}

// tick decorates once and sets the timer for the next time.
func (s *Stream) tick() {
	s.mu.Lock()
	if s.finished || s.busy != nil {
		s.mu.Unlock()
		return
	}
	s.busy = make(chan struct{})
	text, typing := s.visible(), time.Since(s.typed) >= typingEvery
	s.mu.Unlock()

	if typing && s.typer != nil {
		s.showTyping()
	}
	if s.editor != nil && text != "" {
		s.show(text)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy)
	s.busy = nil
	if !s.finished {
		s.timer.Reset(s.next())
	}
}

// visible returns what the preview should say now, "" if nothing new.
func (s *Stream) visible() string {
	if s.raw {
		return s.visibleRaw()
	}
	text := strings.TrimSpace(s.text.String())
	if text == "" {
		text = s.note
	}
	if text == s.shown || utf8.RuneCountInString(text) < minVisible || time.Since(s.since) < firstText {
		return ""
	}
	return text
}

// visibleRaw returns as much of the text as certainly stands so at the
// beginning of the final one, "" if nothing is new.
func (s *Stream) visibleRaw() string {
	text := strings.TrimSpace(s.said + strings.TrimSpace(s.text.String()))
	text = strings.TrimSpace(text[:len(text)-s.d.opts.Masker.Pending(text)])
	if text == s.shown {
		return ""
	}
	return text
}

func (s *Stream) next() time.Duration {
	if s.raw && s.editFailures < maxEditFailures {
		return s.interval
	}
	if time.Since(s.since) < firstText {
		return firstText - time.Since(s.since)
	}
	if s.editor == nil || s.editFailures >= maxEditFailures {
		return typingEvery
	}
	return max(s.interval, 100*time.Millisecond)
}

func (s *Stream) showTyping() {
	if s.d.budget.Delay(s.f.To, time.Now()) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, decoration)
	defer cancel()
	err := s.typer.Typing(ctx, s.f.To)
	s.d.learn(s.f.To, err, time.Now())
	s.mu.Lock()
	s.typed = time.Now()
	s.mu.Unlock()
}

// show makes the preview say text: the first time as a row of the outbox, then
// by edits once that row has its receipt.
func (s *Stream) show(text string) {
	s.mu.Lock()
	preview, receipt, strikes := s.preview, s.receipt, s.editFailures
	s.mu.Unlock()
	if strikes >= maxEditFailures || s.d.budget.Delay(s.f.To, time.Now()) > 0 {
		return
	}
	m := s.message(text)
	if preview == 0 {
		s.open(m, text)
		return
	}
	if receipt == "" {
		row, err := s.d.opts.Store.Row(s.ctx, preview)
		if err != nil || row.Receipt == nil {
			s.giveUp(err == nil && row.Terminal())
			return
		}
		receipt = row.Receipt.ID
	}
	ctx, cancel := context.WithTimeout(s.ctx, decoration)
	defer cancel()
	err := s.editor.Edit(ctx, receipt, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipt = receipt
	if err == nil {
		s.shown = text
		return
	}
	s.editFailed(err)
}

// giveUp leaves the preview alone if it never arrived and never will.
func (s *Stream) giveUp(dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dead {
		s.editFailures = maxEditFailures
	}
}

// editFailed slows the edits down, and at last stops them.
func (s *Stream) editFailed(err error) {
	s.d.learn(s.f.To, err, time.Now())
	s.editFailures++
	s.interval *= 2
	if errors.Is(err, chat.ErrGone) {
		s.editFailures = maxEditFailures
	}
}

func (s *Stream) open(m chat.Outbound, text string) {
	ctx := context.WithoutCancel(s.ctx)
	rows, err := s.d.Enqueue(ctx, outbox.Row{Role: outbox.Preview, Turn: s.f.Turn, Msg: m})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.left { // the turn ended without knowing of it
		err = s.d.DeletePreview(ctx, s.f.To, s.f.Turn, rows[0].ID)
	}
	if err != nil {
		s.d.opts.Log.Warn("preview cannot be stored", zap.String("turn", s.f.Turn), zap.Error(err))
		s.editFailures = maxEditFailures
		return
	}
	s.preview, s.shown = rows[0].ID, text
}

// message is the preview that says as much of text as one message can show.
func (s *Stream) message(text string) chat.Outbound {
	text = s.d.opts.Masker.Mask(text)
	if s.raw {
		f := s.f
		f.Purpose = chat.PurposePreview
		return f.raw(text)
	}
	m := chat.Outbound{To: s.f.To, Text: markup.Parse(text), ReplyTo: s.f.ReplyTo, Quiet: s.f.Quiet}
	ft := s.adapter.Capabilities()
	if pieces := markup.Split(m.Text, ft.MaxTextSize, ft.TextSize); len(pieces) > 0 {
		m.Text = pieces[0]
	}
	return m
}
