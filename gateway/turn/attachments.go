package turn

import (
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
)

// marker stands in front of the path of a file that the model attaches, on a
// line of its own.
const marker = "MEDIA:"

// maxAttached bounds the files of one answer.
const maxAttached = 10

// picture is an image link to a file on our disk.
var picture = regexp.MustCompile(`!\[([^\]\n]*)\]\((?:file://)?(/[^)\s]+)\)`)

// attached takes out of an answer what attaches files, lines and image links, and
// returns the paths that they name. What stands inside of code is text like any
// other.
func attached(answer string) (text string, paths []string) {
	if !strings.Contains(answer, marker) && !strings.Contains(answer, "](/") && !strings.Contains(answer, "](file://") {
		return answer, nil
	}
	var kept []string
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
		case fence == "" && strings.HasPrefix(trimmed, marker):
			add(strings.Trim(strings.TrimSpace(trimmed[len(marker):]), "`\"'"))
			continue
		case fence == "" && !strings.Contains(line, "`"):
			for _, m := range picture.FindAllStringSubmatch(line, -1) {
				add(m[2])
			}
			line = picture.ReplaceAllString(line, "$1")
		}
		kept = append(kept, line)
	}
	return strings.TrimSpace(strings.Join(kept, "\n")), paths
}

// attach makes rows of the files that an answer attaches, and says in its text
// which could not be.
func (t *turn) attach(answer string, f delivery.Draft) (string, []outbox.Row) {
	text, paths := attached(answer)
	if len(paths) == 0 {
		return answer, nil
	}
	var rows []outbox.Row
	refused := func(path, why string) {
		text = strings.TrimSpace(text + "\n\n" + t.T("⚠️ I could not attach `%s`: %s.", strings.ReplaceAll(path, "`", "'"), why))
	}
	for i, path := range paths {
		if i >= maxAttached {
			refused(path, t.T("an answer carries %d files at most", maxAttached))
			break
		}
		if t.runner.opts.Attach == nil {
			refused(path, t.T("files cannot be sent here"))
			continue
		}
		file, err := t.runner.opts.Attach(path)
		if err != nil {
			t.log.Warn("attach", zap.String("path", path), zap.Error(err))
			refused(path, t.LocalizeError(err))
			continue
		}
		rows = append(rows, outbox.Row{Role: f.Role, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}})
	}
	return text, rows
}
