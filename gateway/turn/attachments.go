package turn

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
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
// actor may use read_file, the workspace and what was received in the conversation.
func (t *turn) attachScope() AttachScope {
	var s AttachScope
	add := func(path string) {
		if path != "" {
			s.Received = append(s.Received, filepath.Base(path))
		}
	}
	for _, e := range t.claim.Entries {
		for _, f := range e.Inbound.Files {
			add(f.Path)
		}
	}
	rec, check := t.session.Record, t.runner.parts.Agent.CheckTool
	if check != nil && check(rec, active.LeastPrivileged(t.claim.Entries), "read_file") != nil {
		return s
	}
	s.Workspace, s.Received = true, append(s.Received, rec.Files...)
	for _, m := range t.session.Transcript.Since(0) {
		for _, b := range m.Blocks {
			add(b.Path)
		}
	}
	return s
}

// attachFiles returns the rows for the files that an answer attaches, and the text
// without the attachments and with a note for each file that failed.
func (t *turn) attachFiles(answer string, f delivery.Draft) (string, []outbox.Row) {
	text, paths := extractAttachments(answer)
	if len(paths) == 0 {
		return answer, nil
	}
	var rows []outbox.Row
	addNote := func(path, reason string) {
		text = strings.TrimSpace(text + "\n\n" + t.T("⚠️ I could not attach `%s`: %s.", strings.ReplaceAll(path, "`", "'"), reason))
	}
	for i, path := range paths {
		if i >= maxAttachments {
			addNote(path, t.T("an answer carries %d files at most", maxAttachments))
			break
		}
		file, err := t.runner.parts.Chat.Attach(path, t.attachScope())
		if err != nil {
			t.log.Warn("cannot attach file", zap.String("path", path), zap.Error(err))
			addNote(path, t.LocalizeError(err))
			continue
		}
		rows = append(rows, outbox.Row{Role: f.Role, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}})
	}
	return text, rows
}
