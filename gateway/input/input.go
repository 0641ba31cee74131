// Package input makes the message that a model reads out of what people sent: texts,
// quotes, the earlier messages of a thread, skills, and files, which it downloads and, if
// the model cannot read them, describes or transcribes.
package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/media"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/usage"
)

// maxInlineText is the maximum size in bytes of a text file that is included in the
// message.
const maxInlineText = 100 << 10

// Media holds the media tasks; see NoMedia.
type Media struct {
	// Transcribe returns the text that is spoken in a recording.
	Transcribe func(context.Context, chat.File) (string, error)
	// DescribeImage returns a description of an image for a model without vision, and
	// the model call that made it.
	DescribeImage func(context.Context, chat.File) (string, agent.Call, error)
	// Synthesize returns a recording of a text.
	Synthesize func(context.Context, string) (chat.File, error)
}

// NoMedia returns media tasks that return media.ErrNone: the model gets only the path of
// a file, and there are no recordings.
func NoMedia() Media {
	return Media{
		Transcribe:    func(context.Context, chat.File) (string, error) { return "", media.ErrNone },
		DescribeImage: func(context.Context, chat.File) (string, agent.Call, error) { return "", agent.Call{}, media.ErrNone },
		Synthesize:    func(context.Context, string) (chat.File, error) { return chat.File{}, media.ErrNone },
	}
}

// Parts are the collaborators of a Composer. All are set.
type Parts struct {
	Accounts *accounts.Set // reads the earlier messages of threads
	Usage    *usage.Meter
	// Fetch downloads a file. On failure FetchError of the returned file is set, and the
	// error is shown to the user.
	Fetch func(context.Context, chat.Account, chat.File) (chat.File, error)
	// Skill returns the text that replaces the message "/name args", if name is a skill.
	Skill   func(id session.ID, name, args string) (text string, ok bool)
	Media   Media
	Printer i18n.Printer // of texts for users
	Options Options
}

// Options receive what a Composer reports.
type Options struct {
	Observe observe.Func
	Log     *zap.Logger
}

// A Composer makes input. Its methods may be called from any goroutine.
type Composer struct{ Parts }

// New returns a Composer.
func New(p Parts) *Composer { return &Composer{p} }

// Compose returns one user message with the content of entries, and texts for the
// user about files that could not be read. It adds the names of files that the
// message replaces by text to rec.
func (c *Composer) Compose(ctx context.Context, entries []inbox.Entry, rec *session.Record, vision bool) (llm.Message, []string) {
	var text strings.Builder
	var blocks []llm.Block
	var problems []string
	for i, e := range entries {
		if i > 0 {
			text.WriteString(separator(entries[i-1], e))
		}
		if e.Inbound.HasEarlierMessages {
			text.WriteString(c.threadHistory(ctx, e.Inbound, *rec))
		}
		body, images, fileProblems := c.Entry(ctx, e, rec, vision)
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
func (c *Composer) threadHistory(ctx context.Context, in chat.Inbound, rec session.Record) string {
	ctx, cancel := context.WithTimeout(ctx, threadHistoryTimeout)
	defer cancel()
	var since time.Time
	if rec.Turns > 0 {
		since = rec.Updated
	}
	quotes, err := c.Accounts.ThreadHistory(ctx, in, since)
	if err != nil {
		c.Options.Log.Warn("cannot fetch thread history", zap.String("platform", string(in.Address.Platform)), zap.Error(err))
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

// Entry returns the text of an entry for the model, its images if the model
// has vision, and texts for the user about problems with its files.
func (c *Composer) Entry(ctx context.Context, e inbox.Entry, rec *session.Record, vision bool) (text string, images []llm.Block, problems []string) {
	var b strings.Builder
	if q := e.Inbound.ReplyTo; q != nil && q.Text != "" {
		source := "a message of " + prompt.Quote(q.Author)
		if q.FromBot {
			source = "your message"
		}
		fmt.Fprintf(&b, "[in reply to %s: %s]\n", source, prompt.Quote(q.Text))
	}
	content := e.Inbound.Text
	if name, args, ok := command.Parse(content); ok {
		if text, ok := c.Skill(rec.ID, name, args); ok {
			content = text
		}
	}
	b.WriteString(prompt.EscapeTags(content))
	for i, f := range e.Inbound.Files {
		var fetchErr error
		if f.Path == "" {
			f, fetchErr = c.Fetch(ctx, e.Inbound.Address.AccountID(), f)
			e.Inbound.Files[i].Path = f.Path // the turn may send what it has received
		}
		switch {
		case fetchErr != nil:
			problems = append(problems, c.Printer.LocalizeError(fetchErr))
		case f.FetchError != "":
			problems = append(problems, c.Printer.Translate(f.FetchError))
		}
		if vision && isImage(f) {
			images = append(images, llm.Block{Type: llm.Image, MIME: f.MIME, Path: f.Path})
			continue
		}
		noteFile(rec, f)
		description, problem, ok := c.describeFile(ctx, rec.ID, f)
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

// describeFile returns a text for the model that replaces f: a transcription or an
// image description. ok is false if there is none. problem is a text for the user,
// "" if there is no problem.
func (c *Composer) describeFile(ctx context.Context, id session.ID, f chat.File) (text, problem string, ok bool) {
	start := time.Now()
	switch {
	case f.Path == "" || f.FetchError != "":
		return "", "", false
	case f.Kind == chat.Voice:
		text, err := c.Media.Transcribe(ctx, f)
		if errors.Is(err, media.ErrNone) {
			return "", "", false
		}
		c.reportMediaTask(observe.Transcription, start, err)
		if err != nil {
			c.Options.Log.Warn("cannot transcribe recording", zap.Error(err))
			return "", c.Printer.T("I could not understand the voice message: %v.", err), false
		}
		if strings.TrimSpace(text) == "" {
			return "[a voice message in which nothing is said]", "", true
		}
		return "[voice message]\n" + prompt.EscapeTags(text) + "\n[end of voice message]", "", true
	case isImage(f):
		description, call, err := c.Media.DescribeImage(ctx, f)
		if errors.Is(err, media.ErrNone) {
			return "", "", false
		}
		c.reportMediaTask(observe.ImageDescription, start, err)
		c.Usage.Charge(id, call)
		if err != nil {
			c.Options.Log.Warn("cannot describe image", zap.Error(err))
			return "", c.Printer.T("The picture could not be described: %v.", err), false
		}
		return fmt.Sprintf("[picture %s, as another model describes it]\n%s\n[end of description]", prompt.Quote(f.Name), prompt.EscapeTags(description)), "", true
	}
	return "", "", false
}

// reportMediaTask emits the event of a media task that has ended with err.
func (c *Composer) reportMediaTask(task observe.MediaTask, start time.Time, err error) {
	c.Options.Observe(observe.MediaProcessed{Task: task, Failed: err != nil, Took: time.Since(start)})
}

// Repeat returns an entry with the content of m for the sender of e. In a
// shared session its level is at most access.Guest.
func Repeat(e inbox.Entry, m llm.Message, shared bool) inbox.Entry {
	in := e.Inbound
	in.IdempotencyKey, in.Kind, in.ReplyTo, in.Files, in.Text = e.Inbound.IdempotencyKey+"#retry", chat.Message, nil, nil, ""
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			in.Text = b.Text
		case llm.Image:
			in.Files = append(in.Files, chat.File{Kind: chat.Photo, MIME: b.MIME, Path: b.Path})
		}
	}
	if shared { // Compose adds the name again
		if _, rest, ok := strings.Cut(in.Text, "] "); ok && strings.HasPrefix(in.Text, "[") {
			in.Text = rest
		}
	}
	grant := e.Grant
	if shared { // another user may have written it
		grant = grant.AtMost(access.Guest)
	}
	return inbox.Entry{Inbound: in, Lane: inbox.LaneOf(e.Session), Session: e.Session, Grant: grant, State: inbox.Waiting, Accepted: time.Now()}
}
