package reply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
	"hermesd/gateway/media"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/target"
)

// mediaPrefix precedes the path of a file that the model attaches, on a separate
// line.
const mediaPrefix = "MEDIA:"

// maxAttachments is the maximum number of files of one answer.
const maxAttachments = 10

// imageLink matches a Markdown image link to a local file.
var imageLink = regexp.MustCompile(`!\[([^\]\n]*)\]\((?:file://)?(/[^)\s]+)\)`)

// extractAttachments removes the lines and image links that attach files from an
// answer, and returns the remaining text and the paths. It does not change code
// blocks, nor image links on lines with inline code.
func extractAttachments(answer string) (text string, paths []string) {
	if !strings.Contains(answer, mediaPrefix) && !strings.Contains(answer, "](/") && !strings.Contains(answer, "](file://") {
		return answer, nil
	}
	var lines []string
	add := func(path string) {
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	fence := ""
	for line := range strings.SplitSeq(answer, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			fence = trimmed[:3]
		case fence == "" && strings.HasPrefix(trimmed, mediaPrefix):
			add(strings.Trim(strings.TrimSpace(trimmed[len(mediaPrefix):]), "`\"'"))
			continue
		case fence == "" && !strings.Contains(line, "`"):
			for _, m := range imageLink.FindAllStringSubmatch(line, -1) {
				add(m[2])
			}
			line = imageLink.ReplaceAllString(line, "$1")
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), paths
}

// An AttachScope says which files a turn may send.
type AttachScope struct {
	Workspace bool     // files of the workspace
	Received  []string // names in the media cache of files that people sent
}

// attachScope returns the files that the turn may send: those received in it and, if the
// actor may use read_file, the workspace and what was received in the conversation c.
func (r *Reply) attachScope(c *conversation.Conversation) AttachScope {
	var s AttachScope
	add := func(path string) {
		if path != "" {
			s.Received = append(s.Received, filepath.Base(path))
		}
	}
	for _, e := range r.claim.Entries {
		for _, f := range e.Inbound.Files {
			add(f.Path)
		}
	}
	if r.Files.CheckTool(c.Record, active.LeastPrivileged(r.claim.Entries), "read_file") != nil {
		return s
	}
	s.Workspace, s.Received = true, append(s.Received, c.Record.Files...)
	for _, m := range c.Transcript.Since(0) {
		for _, b := range m.Blocks {
			add(b.Path)
		}
	}
	return s
}

// attachFiles returns the rows for the files that an answer attaches, and the text
// without the attachments and with a note for each file that failed.
func (r *Reply) attachFiles(answer string, f delivery.Draft, c *conversation.Conversation) (string, []outbox.Row) {
	text, paths := extractAttachments(answer)
	if len(paths) == 0 {
		return answer, nil
	}
	var rows []outbox.Row
	addNote := func(path, reason string) {
		text = strings.TrimSpace(text + "\n\n" + r.Options.Printer.T("⚠️ I could not attach `%s`: %s.", strings.ReplaceAll(path, "`", "'"), reason))
	}
	for i, path := range paths {
		if i >= maxAttachments {
			addNote(path, r.Options.Printer.T("an answer carries %d files at most", maxAttachments))
			break
		}
		file, err := r.Files.Attach(path, r.attachScope(c))
		if err != nil {
			r.log.Warn("cannot attach file", zap.String("path", path), zap.Error(err))
			addNote(path, r.Options.Printer.LocalizeError(err))
			continue
		}
		rows = append(rows, outbox.Row{Role: f.Role, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}})
	}
	return text, rows
}

// SendMessage sends the message of a tool call in the turn of e, and returns a
// description of its targets for the model.
func (r *Reply) SendMessage(ctx context.Context, e inbox.Entry, m tool.Message, c *conversation.Conversation) (string, error) {
	files, err := r.filesToSend(m.Files, c)
	if err != nil {
		return "", err
	}
	out := target.Message{To: m.To, Text: m.Text, Files: files}
	if e.Occurrence != nil {
		out.Creator = e.Grant.Principal()
	}
	rows, err := r.Directory.Send(ctx, e.Inbound.Address, r.claim.Turn, out)
	if err != nil {
		return "", err
	}
	var to []string
	for _, r := range rows {
		if at := r.Msg.To.String(); !slices.Contains(to, at) {
			to = append(to, at)
		}
	}
	return "on its way to " + strings.Join(to, ", "), nil
}

// filesToSend returns the files at paths, or an error if the turn may not attach one.
func (r *Reply) filesToSend(paths []string, c *conversation.Conversation) ([]chat.File, error) {
	var files []chat.File
	for _, p := range paths {
		f, err := r.Files.Attach(p, r.attachScope(c))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Speak also sends an answer as a recording.
func (r *Reply) Speak(ctx context.Context, answer string) {
	text := markup.PlainText(markup.Parse(answer))
	if strings.TrimSpace(text) == "" {
		return
	}
	start := time.Now()
	file, err := r.Files.Synthesize(ctx, text)
	if errors.Is(err, media.ErrNone) {
		return
	}
	r.Options.Observe(observe.MediaProcessed{Task: observe.SpeechSynthesis, Failed: err != nil, Took: time.Since(start)})
	if err != nil {
		r.log.Warn("cannot synthesize speech", zap.Error(err))
		r.Notify(r.Options.Printer.T("I could not speak this answer: %v.", err))
		return
	}
	row := outbox.Row{Role: outbox.Notice, Turn: r.claim.Turn, Msg: chat.Outbound{To: r.last().Inbound.Address, File: &file}}
	if _, err := r.Delivery.Enqueue(ctx, row); err != nil {
		r.log.Error("cannot send recording", zap.Error(err))
	}
}
