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
	firstTickDelay    = 150 * time.Millisecond // before a running turn shows activity
	firstTextDelay    = 700 * time.Millisecond // before an unfinished answer is shown
	typingInterval    = 4 * time.Second
	minVisibleChars   = 4               // characters, minimum length of a preview
	decorationTimeout = 5 * time.Second // of a request for decoration
	editDrainTimeout  = 2 * time.Second // of the wait for a running edit
	maxEditFailures   = 3               // failed edits before a preview is no longer edited
)

// A Stream shows the progress of a turn: a typing indicator, and a preview message
// with the text so far, which is edited. All of it is decoration, except that the
// preview is a row of the outbox, so that it is found after a crash. Its methods may
// be called from any goroutine.
type Stream struct {
	delivery    *Delivery
	draft       Draft
	follows     []outbox.ID
	adapter     chat.Adapter
	rawMarkdown bool        // see chat.Capabilities.RawMarkdown; each preview is a prefix of the final text
	editor      chat.Editor // nil: no previews
	typer       chat.Typer  // nil: no typing indicator
	ctx         context.Context
	cancel      context.CancelFunc

	mu           sync.Mutex // guards what follows
	timer        *time.Timer
	text         strings.Builder
	preamble     string // with rawMarkdown: precedes text
	status       string // shown while text is empty
	startedAt    time.Time
	typedAt      time.Time
	shown        string
	interval     time.Duration
	editFailures int
	preview      outbox.ID
	receipt      string
	repeats      bool // the message of preview repeats a preview that may stay visible
	finished     bool
	returned     bool          // Finish has returned
	tickDone     chan struct{} // closed at the end of the running tick; nil if none runs
}

// Stream starts to show the progress of the turn of f. prior is the preview that an
// earlier process has created for the same turn, or 0. follows are the Follows of a
// new preview; see outbox.Row. The caller must call Finish.
func (d *Delivery) Stream(f Draft, prior outbox.ID, follows []outbox.ID) *Stream {
	s := &Stream{delivery: d, draft: f, follows: follows, preview: prior, startedAt: time.Now(), interval: d.opts.EditInterval}
	var ok bool
	if s.adapter, ok = d.opts.Accounts.Adapter(f.To.AccountID()); ok {
		if d.opts.Preview {
			s.editor, _ = s.adapter.(chat.Editor)
		}
		s.typer, _ = s.adapter.(chat.Typer)
		ft := s.adapter.Capabilities()
		s.interval = max(s.interval, ft.EditInterval)
		if s.rawMarkdown = ft.RawMarkdown; s.rawMarkdown {
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
	s.timer = time.AfterFunc(firstTickDelay, s.tick) // Finish waits for a running tick
	return s
}

// Write appends delta to the text.
func (s *Stream) Write(delta string) {
	s.mu.Lock()
	s.text.WriteString(delta)
	s.mu.Unlock()
}

// Retract discards the text written so far.
func (s *Stream) Retract() {
	s.mu.Lock()
	s.text.Reset()
	s.mu.Unlock()
}

// EndPreamble marks the text written so far as the preamble of a tool call, which is
// not part of the answer. It is discarded, except on a platform with RawMarkdown,
// which cannot retract text: there it stays in front of the following text.
func (s *Stream) EndPreamble() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(s.text.String()); s.rawMarkdown && text != "" {
		s.preamble += text + "\n\n"
	}
	s.text.Reset()
}

// EndMessage ends the current message, so that the following text goes into another
// one. It returns the text so far, or "" if there is none or the message cannot be
// ended now, and the preview that the text should replace, or 0 if there is none.
// Like Finish it waits at most editDrainTimeout for a running edit.
func (s *Stream) EndMessage() (text string, preview outbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.TrimSpace(s.text.String())
	if s.editor == nil || s.rawMarkdown || s.finished || text == "" {
		return "", 0
	}
	s.finished = true // no tick starts meanwhile
	s.timer.Stop()
	if busy := s.tickDone; busy != nil {
		s.mu.Unlock()
		wait := time.NewTimer(editDrainTimeout)
		select {
		case <-busy:
		case <-wait.C:
		}
		wait.Stop()
		s.mu.Lock()
	}
	s.finished = false
	if s.typedAt.IsZero() { // no activity was shown yet
		s.timer.Reset(max(0, firstTickDelay-time.Since(s.startedAt)))
	} else {
		s.timer.Reset(max(s.interval, 100*time.Millisecond))
	}
	if s.tickDone != nil {
		return "", 0
	}
	preview = s.preview
	s.preview, s.receipt, s.repeats, s.shown, s.status = 0, "", false, "", ""
	s.text.Reset()
	return text, preview
}

// FinalText returns answer with the preamble that a platform with RawMarkdown shows
// in front of it.
func (s *Stream) FinalText(answer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.preamble + answer
}

// Progress adds a line to the status that is shown while there is no text. An empty
// line is ignored.
func (s *Stream) Progress(line string) {
	if line == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != "" {
		line = s.status + "\n" + line
	}
	s.status = line
}

// ShowStatus replaces the status that is shown while there is no text. It is shown
// without delay.
func (s *Stream) ShowStatus(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = text
	if !s.finished {
		s.startedAt = s.startedAt.Add(-firstTextDelay)
		s.timer.Reset(0)
	}
}

// Finish ends the stream. It returns the row of the preview, 0 if there is none, and
// whether that may be replaced: an edit that is still running could overwrite the
// final text. Finish waits for such an edit at most editDrainTimeout.
func (s *Stream) Finish() (preview outbox.ID, settled bool) {
	s.mu.Lock()
	if s.cancel == nil {
		defer s.mu.Unlock()
		return s.preview, true
	}
	s.finished = true
	s.timer.Stop()
	busy, preview := s.tickDone, s.preview
	s.mu.Unlock()
	defer s.cancel()
	if busy == nil {
		return preview, true
	}
	wait := time.NewTimer(editDrainTimeout)
	defer wait.Stop()
	select {
	case <-busy:
		settled = true
	case <-wait.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = true
	return s.preview, settled
}

// tick updates the typing indicator and the preview, and sets the timer for the next
// tick.
func (s *Stream) tick() {
	s.mu.Lock()
	if s.finished || s.tickDone != nil {
		s.mu.Unlock()
		return
	}
	s.tickDone = make(chan struct{})
	text, typing := s.visibleText(), time.Since(s.typedAt) >= typingInterval
	isStatus := text == s.status && !s.rawMarkdown
	s.mu.Unlock()

	if typing && s.typer != nil {
		s.showTyping()
	}
	if s.editor != nil && text != "" {
		s.showPreview(text, isStatus)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.tickDone)
	s.tickDone = nil
	if !s.finished {
		s.timer.Reset(s.nextTick())
	}
}

// visibleText returns the text that the preview should show now, "" if it is
// unchanged or too early. The caller holds mu.
func (s *Stream) visibleText() string {
	if s.rawMarkdown {
		return s.visibleRawText()
	}
	text := strings.TrimSpace(s.text.String())
	text = strings.TrimSpace(text[:len(text)-s.delivery.opts.Masker.Pending(text)])
	if text == "" {
		text = s.status
	}
	if text == s.shown || utf8.RuneCountInString(text) < minVisibleChars || time.Since(s.startedAt) < firstTextDelay {
		return ""
	}
	return text
}

// visibleRawText returns the part of the text that is certainly a prefix of the
// final text, "" if it is unchanged. The caller holds mu.
func (s *Stream) visibleRawText() string {
	text := strings.TrimSpace(s.preamble + strings.TrimSpace(s.text.String()))
	text = strings.TrimSpace(text[:len(text)-s.delivery.opts.Masker.Pending(text)])
	if text == s.shown {
		return ""
	}
	return text
}

func (s *Stream) nextTick() time.Duration {
	if s.rawMarkdown && s.editFailures < maxEditFailures {
		return s.interval
	}
	if time.Since(s.startedAt) < firstTextDelay {
		return firstTextDelay - time.Since(s.startedAt)
	}
	if s.editor == nil || s.editFailures >= maxEditFailures {
		return typingInterval
	}
	return max(s.interval, 100*time.Millisecond)
}

func (s *Stream) showTyping() {
	if s.delivery.throttle.Delay(s.draft.To, time.Now()) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, decorationTimeout)
	defer cancel()
	err := s.typer.Typing(ctx, s.draft.To)
	s.delivery.recordRetryAfter(s.draft.To, err, time.Now())
	s.mu.Lock()
	s.typedAt = time.Now()
	s.mu.Unlock()
}

// showPreview shows text in the preview: the first time as a row of the outbox, later
// by edits, once that row has its receipt. isStatus reports whether text is a status.
func (s *Stream) showPreview(text string, isStatus bool) {
	s.mu.Lock()
	preview, receipt, repeats, failures := s.preview, s.receipt, s.repeats, s.editFailures
	s.mu.Unlock()
	if failures >= maxEditFailures || s.delivery.throttle.Delay(s.draft.To, time.Now()) > 0 {
		return
	}
	m := s.previewMessage(text)
	if preview == 0 {
		s.createPreview(m, text, isStatus)
		return
	}
	if receipt == "" {
		row, err := s.delivery.opts.Store.Row(s.ctx, preview)
		if err != nil || row.Receipt == nil {
			s.disableIfDead(err == nil && row.Terminal())
			return
		}
		receipt, repeats = row.Receipt.ID, s.delivery.repeatsPreview(s.ctx, row)
	}
	if repeats && !isStatus {
		m.Text = outbox.AddRepeatNotice(m.Text, s.delivery.opts.RepeatNotice)
	}
	ctx, cancel := context.WithTimeout(s.ctx, decorationTimeout)
	defer cancel()
	err := s.editor.Edit(ctx, receipt, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipt, s.repeats = receipt, repeats
	if err == nil {
		s.shown = text
		return
	}
	s.editFailed(err)
}

// disableIfDead stops the edits of a preview that was not sent and never will be.
func (s *Stream) disableIfDead(dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dead {
		s.editFailures = maxEditFailures
	}
}

// editFailed doubles the interval of edits after a failure, and stops them after
// maxEditFailures. The caller holds mu.
func (s *Stream) editFailed(err error) {
	s.delivery.recordRetryAfter(s.draft.To, err, time.Now())
	s.editFailures++
	s.interval *= 2
	if errors.Is(err, chat.ErrGone) {
		s.editFailures = maxEditFailures
	}
}

func (s *Stream) createPreview(m chat.Outbound, text string, isStatus bool) {
	ctx := context.WithoutCancel(s.ctx)
	rows, err := s.delivery.Enqueue(ctx, outbox.Row{Role: outbox.Preview, Turn: s.draft.Turn, Msg: m, Placeholder: isStatus, Follows: s.follows})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.returned { // Finish did not report this preview
		err = s.delivery.DeletePreview(ctx, s.draft.To, s.draft.Turn, rows[0].ID)
	}
	if err != nil {
		s.delivery.opts.Log.Warn("cannot store preview", zap.String("turn", s.draft.Turn), zap.Error(err))
		s.editFailures = maxEditFailures
		return
	}
	s.preview, s.shown = rows[0].ID, text
}

// previewMessage returns a preview with as much of text as fits into one message.
func (s *Stream) previewMessage(text string) chat.Outbound {
	text = s.delivery.opts.Masker.Mask(text)
	if s.rawMarkdown {
		f := s.draft
		f.Purpose = chat.PurposePreview
		return f.rawMessage(text)
	}
	m := chat.Outbound{To: s.draft.To, Text: markup.Parse(text), ReplyTo: s.draft.ReplyTo, Quiet: s.draft.Quiet}
	ft := s.adapter.Capabilities()
	if pieces := markup.Split(m.Text, ft.MaxTextSize-repeatNoticeSize, ft.TextSize); len(pieces) > 0 {
		m.Text = pieces[0]
	}
	return m
}
