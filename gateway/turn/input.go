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

// maxInline is the greatest size of a text file that stands in the message
// itself.
const maxInline = 100 << 10

// gather waits for the pieces that belong to the claim's last entry: the rest
// of an album, or of a text that the person's client has split.
func (t *turn) gather(ctx context.Context) error {
	if len(t.claim.Steps) > 0 || t.last().Inbound.Part == nil || t.last().Inbound.Part.Wait == 0 {
		return nil
	}
	poked := t.runner.waits.begin(t.claim.Lane)
	defer t.runner.waits.end(t.claim.Lane)
	for {
		wait := time.Until(holdUntil(t.claim.Entries))
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-poked:
			timer.Stop()
		case <-timer.C:
		}
		more, err := t.runner.opts.Store.Join(ctx, t.claim, false)
		if err != nil {
			return fmt.Errorf("join: %w", err)
		}
		t.claim.Entries = append(t.claim.Entries, more...)
	}
}

// follow is how long a following piece of a split text holds the input again.
const follow = 300 * time.Millisecond

// holdUntil is when the pieces are complete if no other comes.
func holdUntil(entries []inbox.Entry) time.Time {
	last := entries[len(entries)-1]
	if last.Inbound.Part == nil {
		return time.Time{}
	}
	wait := last.Inbound.Part.Wait
	if wait == 0 && len(entries) > 1 {
		wait = follow
	}
	return last.Accepted.Add(wait)
}

// inputWaits are the lanes whose turn waits for more pieces.
type inputWaits struct {
	mu    sync.Mutex // guards what follows
	lanes map[inbox.Lane]chan struct{}
}

func newHolds() *inputWaits { return &inputWaits{lanes: make(map[inbox.Lane]chan struct{})} }

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

func (h *inputWaits) poke(l inbox.Lane) bool {
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

// composeInput makes one message of the user from entries, and says in words which
// of their files could not be had. The files that it has read are noted in rec.
func (r *Runner) composeInput(ctx context.Context, entries []inbox.Entry, rec *session.Record) (llm.Message, []string) {
	var text strings.Builder
	var blocks []llm.Block
	var problems []string
	model, _ := r.choose(rec.Settings)
	for i, e := range entries {
		if i > 0 {
			text.WriteString(between(entries[i-1], e))
		}
		if e.Inbound.HasEarlierMessages && r.opts.ThreadHistory != nil {
			text.WriteString(r.threadHistory(ctx, e.Inbound, *rec))
		}
		body, images, wrong := r.entryContent(ctx, e, rec, model.Vision)
		if rec.Shared {
			text.WriteString("[" + session.CleanSpeakerName(e.Inbound.Sender.Name) + "] ")
		}
		text.WriteString(body)
		blocks = append(blocks, images...)
		problems = append(problems, wrong...)
	}
	said := strings.TrimSpace(text.String())
	if said == "" && len(blocks) == 0 {
		said = "(an empty message)"
	}
	if said != "" {
		blocks = append(blocks, llm.Block{Type: llm.Text, Text: said})
	}
	return llm.Message{Role: llm.User, Blocks: blocks}, problems
}

// waitTimeout bounds the wait for what was said earlier in a thread.
const waitTimeout = 10 * time.Second

// threadHistory tells the model what others said in the thread of in since the session
// last listened.
func (r *Runner) threadHistory(ctx context.Context, in chat.Inbound, rec session.Record) string {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	var since time.Time
	if rec.Turns > 0 {
		since = rec.Updated
	}
	quotes, err := r.opts.ThreadHistory(ctx, in, since)
	if err != nil {
		r.opts.Log.Warn("earlier messages", zap.String("platform", string(in.Address.Platform)), zap.Error(err))
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

// between is what stands between the texts of two entries: pieces of one split
// text are lines of one text.
func between(a, b inbox.Entry) string {
	if a.Inbound.Part != nil && b.Inbound.Part != nil && a.Inbound.Part.Group == b.Inbound.Part.Group {
		return "\n"
	}
	return "\n\n"
}

// entryContent returns what an entry says to a model, and its images if it sees them.
func (r *Runner) entryContent(ctx context.Context, e inbox.Entry, rec *session.Record, sees bool) (text string, images []llm.Block, problems []string) {
	var b strings.Builder
	if q := e.Inbound.ReplyTo; q != nil && q.Text != "" {
		who := "a message of " + prompt.Quote(q.Author)
		if q.FromBot {
			who = "your message"
		}
		fmt.Fprintf(&b, "[in reply to %s: %s]\n", who, prompt.Quote(q.Text))
	}
	said := e.Inbound.Text
	if name, args, ok := command.Parse(said); ok && r.opts.Skill != nil {
		if text, ok := r.opts.Skill(rec.ID, name, args); ok {
			said = text
		}
	}
	b.WriteString(prompt.EscapeTags(said))
	for _, f := range e.Inbound.Files {
		var wrong error
		if f.Path == "" && r.opts.Fetch != nil {
			f, wrong = r.opts.Fetch(ctx, e.Inbound.Address.AccountID(), f)
		}
		switch {
		case wrong != nil:
			problems = append(problems, r.opts.Printer.LocalizeError(wrong))
		case f.FetchError != "":
			problems = append(problems, r.opts.Printer.Translate(f.FetchError))
		}
		if sees && isImage(f) {
			images = append(images, llm.Block{Type: llm.Image, MIME: f.MIME, Path: f.Path})
			continue
		}
		uses(rec, f)
		told, problem, ok := r.describeFile(ctx, rec.ID, f)
		if problem != "" {
			problems = append(problems, problem)
		}
		if !ok {
			told = fileNote(f)
		}
		b.WriteString("\n" + told)
	}
	return strings.TrimSpace(b.String()), images, problems
}

// maxFiles bounds the names of files that are kept with a session. Older ones go
// when the cache needs their room.
const maxFiles = 1000

// uses notes a file in a record whose transcript will not name it.
func uses(rec *session.Record, f chat.File) {
	name := filepath.Base(f.Path)
	if f.Path == "" || slices.Contains(rec.Files, name) {
		return
	}
	rec.Files = append(slices.Clone(rec.Files[max(0, len(rec.Files)+1-maxFiles):]), name)
}

func isImage(f chat.File) bool {
	switch f.MIME {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return f.Path != "" && f.FetchError == ""
	}
	return false
}

// fileNote tells the model of a file: a short text in full, anything else by
// its path.
func fileNote(f chat.File) string {
	name := prompt.Quote(cmp.Or(f.Name, string(f.Kind)))
	switch {
	case f.FetchError != "":
		return fmt.Sprintf("[file %s could not be had: %s]", name, prompt.Quote(f.FetchError))
	case f.Path == "":
		return fmt.Sprintf("[file %s, not downloaded]", name)
	case isImage(f): // the model has no eyes, and nobody else has looked for it
		return fmt.Sprintf("[picture %s, %s, %d bytes, stored at %s; you cannot see it: say so instead of guessing]", name, f.MIME, f.Size, f.Path)
	}
	if strings.HasPrefix(f.MIME, "text/") && f.Size <= maxInline {
		if raw, err := os.ReadFile(f.Path); err == nil && len(raw) <= maxInline && utf8.Valid(raw) {
			return fmt.Sprintf("[file %s]\n%s\n[end of file]", name, prompt.EscapeTags(string(raw)))
		}
	}
	return fmt.Sprintf("[file %s, %s, %d bytes, stored at %s]", name, f.MIME, f.Size, f.Path)
}
