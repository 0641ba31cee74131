package turn

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// maxInlineText is the maximum size in bytes of a text file that is included in the
// message.
const maxInlineText = 100 << 10

// gatherParts waits for the other parts of the claim's last entry: the rest of an
// album, or of a text that the user's client has split. If ctx has ended it returns the
// cause.
func (t *turn) gatherParts(ctx context.Context) error {
	if ctx.Err() != nil { // stopped while the entries were claimed
		return context.Cause(ctx)
	}
	if len(t.claim.Steps) > 0 || t.last().Inbound.Part == nil || t.last().Inbound.Part.Wait == 0 {
		return nil
	}
	arrived := t.runner.waits.begin(t.claim.Lane)
	defer t.runner.waits.end(t.claim.Lane)
	for {
		wait := time.Until(partsCompleteAt(t.claim.Entries))
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-arrived:
			timer.Stop()
		case <-timer.C:
		}
		more, err := t.runner.opts.Store.Join(ctx, t.claim, false)
		if err != nil {
			return fmt.Errorf("join entries: %w", err)
		}
		t.addEntries(more)
	}
}

// followUpWait is how long the input waits for another part after a later part of a
// split text.
const followUpWait = 300 * time.Millisecond

// partsCompleteAt returns the time at which the parts are complete if no other
// arrives; zero if there are no parts.
func partsCompleteAt(entries []inbox.Entry) time.Time {
	last := entries[len(entries)-1]
	if last.Inbound.Part == nil {
		return time.Time{}
	}
	wait := last.Inbound.Part.Wait
	if wait == 0 && len(entries) > 1 {
		wait = followUpWait
	}
	return last.Accepted.Add(wait)
}

// inputWaits holds the lanes whose turn waits for more parts.
type inputWaits struct {
	mu    sync.Mutex // guards what follows
	lanes map[inbox.Lane]chan struct{}
}

func newInputWaits() *inputWaits { return &inputWaits{lanes: make(map[inbox.Lane]chan struct{})} }

func (h *inputWaits) begin(l inbox.Lane) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan struct{}, 1)
	h.lanes[l] = ch
	return ch
}

func (h *inputWaits) end(l inbox.Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lanes, l)
}

func (h *inputWaits) notify(l inbox.Lane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, ok := h.lanes[l]
	if ok {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	return ok
}

// composeInput returns one user message with the content of entries, and texts for the
// user about files that could not be read. It adds the names of files that the
// message replaces by text to rec.
func (r *Runner) composeInput(ctx context.Context, entries []inbox.Entry, rec *session.Record) (llm.Message, []string) {
	var text strings.Builder
	var blocks []llm.Block
	var problems []string
	model, _ := r.chooseModel(rec.Settings)
	for i, e := range entries {
		if i > 0 {
			text.WriteString(separator(entries[i-1], e))
		}
		if e.Inbound.HasEarlierMessages {
			text.WriteString(r.threadHistory(ctx, e.Inbound, *rec))
		}
		body, images, fileProblems := r.entryContent(ctx, e, rec, model.Vision)
		if rec.Shared {
			text.WriteString("[" + session.CleanSpeakerName(e.Inbound.Sender.Name) + "] ")
		}
		text.WriteString(body)
		blocks = append(blocks, images...)
		problems = append(problems, fileProblems...)
	}
	content := strings.TrimSpace(text.String())
	if content == "" && len(blocks) == 0 {
		content = "(an empty message)"
	}
	if content != "" {
		blocks = append(blocks, llm.Block{Type: llm.Text, Text: content})
	}
	return llm.Message{Role: llm.User, Blocks: blocks}, problems
}

// threadHistoryTimeout limits the request for the earlier messages of a thread.
const threadHistoryTimeout = 10 * time.Second

// threadHistory returns a text for the model with the messages of the thread of in
// since the last turn of the session.
func (r *Runner) threadHistory(ctx context.Context, in chat.Inbound, rec session.Record) string {
	ctx, cancel := context.WithTimeout(ctx, threadHistoryTimeout)
	defer cancel()
	var since time.Time
	if rec.Turns > 0 {
		since = rec.Updated
	}
	quotes, err := r.opts.Accounts.ThreadHistory(ctx, in, since)
	if err != nil {
		r.opts.Log.Warn("cannot fetch thread history", zap.String("platform", string(in.Address.Platform)), zap.Error(err))
	}
	var b strings.Builder
	for _, q := range quotes {
		b.WriteString("[" + session.CleanSpeakerName(q.Author) + "] " + prompt.EscapeTags(q.Text) + "\n")
	}
	if b.Len() == 0 && err == nil {
		return ""
	}
	if err != nil {
		b.WriteString("(Not all of it could be read: " + prompt.EscapeTags(err.Error()) + ")\n")
	}
	return "[earlier in this thread]\n" + b.String() + "[end of what was said earlier]\n\n"
}

// separator returns the separator of the texts of two entries: a line break between
// the parts of one split text, else a blank line.
func separator(a, b inbox.Entry) string {
	if a.Inbound.Part != nil && b.Inbound.Part != nil && a.Inbound.Part.Group == b.Inbound.Part.Group {
		return "\n"
	}
	return "\n\n"
}

// entryContent returns the text of an entry for the model, its images if the model
// has vision, and texts for the user about problems with its files.
func (r *Runner) entryContent(ctx context.Context, e inbox.Entry, rec *session.Record, vision bool) (text string, images []llm.Block, problems []string) {
	var b strings.Builder
	if q := e.Inbound.ReplyTo; q != nil && q.Text != "" {
		source := "a message of " + prompt.Quote(q.Author)
		if q.FromBot {
			source = "your message"
		}
		fmt.Fprintf(&b, "[in reply to %s: %s]\n", source, prompt.Quote(q.Text))
	}
	content := e.Inbound.Text
	if name, args, ok := command.Parse(content); ok && r.opts.Skill != nil {
		if text, ok := r.opts.Skill(rec.ID, name, args); ok {
			content = text
		}
	}
	b.WriteString(prompt.EscapeTags(content))
	for i, f := range e.Inbound.Files {
		var fetchErr error
		if f.Path == "" && r.opts.Fetch != nil {
			f, fetchErr = r.opts.Fetch(ctx, e.Inbound.Address.AccountID(), f)
			e.Inbound.Files[i].Path = f.Path // the turn may send what it has received
		}
		switch {
		case fetchErr != nil:
			problems = append(problems, r.opts.Printer.LocalizeError(fetchErr))
		case f.FetchError != "":
			problems = append(problems, r.opts.Printer.Translate(f.FetchError))
		}
		if vision && isImage(f) {
			images = append(images, llm.Block{Type: llm.Image, MIME: f.MIME, Path: f.Path})
			continue
		}
		noteFile(rec, f)
		description, problem, ok := r.describeFile(ctx, rec.ID, f)
		if problem != "" {
			problems = append(problems, problem)
		}
		if !ok {
			description = fileNote(f)
		}
		b.WriteString("\n" + description)
	}
	return strings.TrimSpace(b.String()), images, problems
}

// maxSessionFiles is the maximum number of file names in a session record. Older files
// may be deleted when the media cache needs space.
const maxSessionFiles = 1000

// noteFile adds the name of a file to rec, because the transcript will not contain
// it.
func noteFile(rec *session.Record, f chat.File) {
	name := filepath.Base(f.Path)
	if f.Path == "" || slices.Contains(rec.Files, name) {
		return
	}
	rec.Files = append(slices.Clone(rec.Files[max(0, len(rec.Files)+1-maxSessionFiles):]), name)
}

func isImage(f chat.File) bool {
	switch f.MIME {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return f.Path != "" && f.FetchError == ""
	}
	return false
}

// fileNote returns the text about a file for the model: the content of a short text
// file, otherwise the path.
func fileNote(f chat.File) string {
	name := prompt.Quote(cmp.Or(f.Name, string(f.Kind)))
	switch {
	case f.FetchError != "":
		return fmt.Sprintf("[file %s could not be had: %s]", name, prompt.Quote(f.FetchError))
	case f.Path == "":
		return fmt.Sprintf("[file %s, not downloaded]", name)
	case isImage(f): // the model has no vision, and there is no description
		return fmt.Sprintf("[picture %s, %s, %d bytes, stored at %s; you cannot see it: say so instead of guessing]", name, f.MIME, f.Size, f.Path)
	}
	if strings.HasPrefix(f.MIME, "text/") && f.Size <= maxInlineText {
		if raw, err := os.ReadFile(f.Path); err == nil && len(raw) <= maxInlineText && utf8.Valid(raw) {
			return fmt.Sprintf("[file %s]\n%s\n[end of file]", name, prompt.EscapeTags(string(raw)))
		}
	}
	return fmt.Sprintf("[file %s, %s, %d bytes, stored at %s]", name, f.MIME, f.Size, f.Path)
}
