// Package reply makes the outbox rows of turns: answers with their attachments, which
// replace or delete previews, notices, and texts about progress and failures. It also sets
// the reactions on the messages of a turn, and sends what its tools send.
package reply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
)

// Parts are the collaborators of a Writer. All are set.
type Parts struct {
	Delivery  *delivery.Delivery
	Accounts  *accounts.Set
	Directory *target.Directory // sends what tools send to other chats
	// Targets returns the addresses that get the answer of a scheduled run; there may be
	// none.
	Targets func(context.Context, schedule.OccurrenceID) []chat.Address
	Mask    func(string) string
	Files   Files
	Options Options
}

// Files are the functions for files that are sent.
type Files struct {
	// Attach returns the file of scope at a path that an answer attaches. Its error is
	// shown to the user after "I could not attach it:".
	Attach func(path string, scope AttachScope) (chat.File, error)
	// CheckTool returns an error if a principal may not use a tool in a session.
	CheckTool func(rec session.Record, principal access.Principal, tool string) error
	// Synthesize returns a recording of a text; see input.Media.
	Synthesize func(context.Context, string) (chat.File, error)
}

// Options are the values that configure a Writer.
type Options struct {
	Printer  i18n.Printer
	Progress string       // display.tool_progress: off, new, all or verbose
	Observe  observe.Func // receives the events of recordings; must not block
}

// A Writer makes the rows of turns. It may be used by several goroutines.
type Writer struct{ Parts }

// New returns a Writer.
func New(p Parts) *Writer { return &Writer{p} }

// A Reply makes the rows of one turn.
type Reply struct {
	*Writer
	claim *store.Claim // its previews are those that are still to be deleted
	log   *zap.Logger
}

// Reply returns the Reply of the turn with claim c, to which the turn adds entries.
func (w *Writer) Reply(c *store.Claim, log *zap.Logger) *Reply { return &Reply{w, c, log} }

func (r *Reply) first() inbox.Entry { return r.claim.Entries[0] }
func (r *Reply) last() inbox.Entry  { return r.claim.Entries[len(r.claim.Entries)-1] }

// Stream returns the stream of the answer, which continues the preview of an earlier run
// of the turn.
func (r *Reply) Stream() *delivery.Stream {
	return r.Delivery.Stream(r.Draft(), r.priorPreview(), r.previewsBefore(0))
}

// A Preview is the preview of a text; its ID is 0 if there is none. Settled reports
// whether its rows are sent, so that it can be edited.
type Preview struct {
	ID      outbox.ID
	Settled bool
}

// Answer returns the rows of a text that answers a command.
func (r *Reply) Answer(text string) []outbox.Row {
	f := r.Draft()
	f.Purpose = chat.PurposeAnswer
	return r.Delivery.Render(text, f)
}

// ToTargets returns the rows of the answer of a scheduled run, and the addresses that get
// it.
func (r *Reply) ToTargets(ctx context.Context, answer string, c *conversation.Conversation) ([]outbox.Row, []chat.Address) {
	to := r.Targets(ctx, *r.first().Occurrence)
	var rows []outbox.Row
	for _, at := range to {
		f := delivery.Draft{To: at, Turn: r.claim.Turn, Role: outbox.Reply, Purpose: chat.PurposeAnswer}
		text, files := r.attachFiles(answer, f, c)
		if strings.TrimSpace(text) != "" {
			rows = append(rows, r.Delivery.Render(text, f)...)
		}
		rows = append(rows, files...)
	}
	return rows, to
}

// Draft returns the draft of the turn's answer: its address, and the message that it
// quotes.
func (r *Reply) Draft() delivery.Draft {
	e := r.last()
	mode := r.Accounts.ReplyToMode(e.Inbound.Address.AccountID())
	f := delivery.Draft{To: e.Inbound.Address, Turn: r.claim.Turn, Role: outbox.Reply, QuoteEveryPart: mode == "all", ReplyToIDs: r.messageIDs(nil)}
	if e.Background || mode != "off" && (e.Inbound.Address.Kind != chat.DM || r.claim.Remaining > 0) {
		f.ReplyTo = e.Inbound.ID
	}
	return f
}

// priorPreview returns the preview of an earlier run of the turn, 0 if there is none
// that can be edited.
func (r *Reply) priorPreview() outbox.ID {
	for _, p := range slices.Backward(r.claim.Previews) {
		if !p.MayStayVisible() {
			return p.ID
		}
	}
	return 0
}

// AnswerDraft returns the draft of the turn's answer. The model has received the entries
// up to seen, and its calls have used u.
func (r *Reply) AnswerDraft(seen inbox.ID, u llm.Usage) delivery.Draft {
	f := r.Draft()
	f.Purpose, f.ReplyToIDs = chat.PurposeAnswer, r.messageIDs(func(e inbox.Entry) bool { return e.ID <= seen })
	f.Usage = &chat.Usage{Prompt: u.Prompt(), Cached: u.CacheRead, Output: u.Output}
	return f
}

// Rows returns the rows of an answer, or of a part of one. The first row becomes
// an edit of the preview if there is one and it is settled; other previews are deleted.
func (r *Reply) Rows(f delivery.Draft, text string, p Preview, c *conversation.Conversation) []outbox.Row {
	preview := p.ID
	var files []outbox.Row
	if !r.Delivery.RawMarkdown(f.To) {
		text, files = r.attachFiles(text, f, c)
	}
	rows := r.Delivery.Render(text, f)
	if strings.TrimSpace(text) == "" { // only files
		rows = nil
	}
	if !p.Settled || len(rows) == 0 {
		r.AddPreview(preview)
		preview = 0
	}
	if len(rows) > 0 {
		rows[0].Replaces, rows[0].Follows = preview, r.previewsBefore(preview)
	}
	for _, old := range r.claim.Previews {
		if old.ID != preview {
			rows = append(rows, outbox.DeletePreviewRow(r.last().Inbound.Address, r.claim.Turn, old.ID))
		}
	}
	return append(rows, files...)
}

// Notices returns rows for texts that the user should see in addition to the answer.
func (r *Reply) Notices(texts []string) []outbox.Row {
	if r.first().Occurrence != nil { // nobody reads them; the log has the problems
		return nil
	}
	var rows []outbox.Row
	for _, s := range texts {
		f := r.Draft()
		f.Role, f.Quiet = outbox.Notice, true
		rows = append(rows, r.Delivery.Render(s, f)...)
	}
	return rows
}

// Notify sends a quiet notice to the chat of the turn. A scheduled run sends none.
func (r *Reply) Notify(text string) {
	if r.first().Occurrence != nil {
		return
	}
	f := r.Draft()
	f.Role, f.Quiet, f.ReplyTo = outbox.Notice, true, ""
	if err := r.Delivery.SendNotice(context.Background(), text, f); err != nil {
		r.log.Error("cannot send notice", zap.Error(err))
	}
}

// AddPreview adds a preview of the turn, if it is not 0, to those that are to be deleted.
func (r *Reply) AddPreview(preview outbox.ID) {
	if preview != 0 && !slices.ContainsFunc(r.claim.Previews, func(p outbox.Row) bool { return p.ID == preview }) {
		r.claim.Previews = append(r.claim.Previews, outbox.Row{ID: preview})
	}
}

// DeletePreviews returns rows that delete the previews of the turn.
func (r *Reply) DeletePreviews() []outbox.Row {
	var rows []outbox.Row
	for _, p := range r.claim.Previews {
		rows = append(rows, outbox.DeletePreviewRow(r.last().Inbound.Address, r.claim.Turn, p.ID))
	}
	return rows
}

// previewsBefore returns the earlier previews of the answer, except preview, and the
// rows that delete such previews; see outbox.Row.Follows.
func (r *Reply) previewsBefore(preview outbox.ID) []outbox.ID {
	ids := slices.Clone(r.claim.Deletions)
	for _, p := range r.claim.Previews {
		if p.ID != preview {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// ErrorText returns why there is no answer and what the user can do, masked:
// it is stored, and models read it.
func (r *Reply) ErrorText(p i18n.Printer, err error) string {
	text := ""
	if occurrence := r.first().Occurrence; occurrence != nil {
		text = failure.Job(p, err, occurrence.Job)
	} else {
		text = failure.Message(p, err)
	}
	return r.Mask(text)
}

// Failure returns rows with a text that says why there is no answer, and that delete the
// previews of the turn. The text quotes the first message; that of a scheduled run goes to
// the targets of its answer.
func (r *Reply) Failure(text string) []outbox.Row {
	rows := r.DeletePreviews()
	f := r.Draft()
	f.ReplyTo, f.Purpose = r.first().Inbound.ID, chat.PurposeFailure
	occurrence := r.first().Occurrence
	if occurrence == nil {
		return append(rows, r.Delivery.Render(text, f)...)
	}
	for _, at := range r.Targets(context.Background(), *occurrence) {
		f.To, f.ReplyTo = at, ""
		rows = append(rows, r.Delivery.Render(r.Options.Printer.T("⏰ Scheduled prompt `%s`: %s", occurrence.Job, text), f)...)
	}
	return rows
}

// messageIDs returns the platform IDs of the turn's messages for which keep returns
// true; a nil keep selects all.
func (r *Reply) messageIDs(keep func(inbox.Entry) bool) []string {
	ids := make([]string, 0, len(r.claim.Entries))
	for _, e := range r.claim.Entries {
		if keep == nil || keep(e) {
			ids = append(ids, e.Inbound.ID)
		}
	}
	return ids
}

// progressMode returns how tool calls are shown in the chat: off, new, all or
// verbose.
func (r *Reply) progressMode(c *conversation.Conversation) string {
	return cmp.Or(c.Record.Settings.ToolProgress, r.Options.Progress, "off")
}

// SendPreamble sends the text that precedes a tool call as a separate message if tool
// calls are shown; otherwise it discards the text. The step is already on disk, so
// that a resumed turn does not send the text again.
func (r *Reply) SendPreamble(ctx context.Context, stream *delivery.Stream, c *conversation.Conversation) {
	text, preview := "", outbox.ID(0)
	if r.progressMode(c) != "off" {
		text, preview = stream.EndMessage()
	}
	if text == "" {
		stream.EndPreamble()
		return
	}
	f := r.Draft()
	f.Role, f.Quiet = outbox.Notice, true
	_, err := r.Delivery.Enqueue(context.WithoutCancel(ctx), r.Rows(f, text, Preview{preview, true}, c)...)
	if err == nil {
		r.claim.Previews = nil
	} else {
		r.AddPreview(preview) // the answer deletes it
		r.log.Error("cannot send text before tool call", zap.Error(err))
	}
}

// ProgressLine returns the line that shows a tool call in the status, "" if it is not
// shown. earlier are the tools of earlier calls.
func (r *Reply) ProgressLine(call agent.ToolCall, earlier []string, c *conversation.Conversation) string {
	switch r.progressMode(c) {
	case "new":
		if n := len(earlier); n > 0 && earlier[n-1] == call.Name {
			return ""
		}
		return "🔧 " + call.Name
	case "all":
		return strings.TrimSpace("🔧 " + call.Name + " " + tool.InputSummary(call.Input))
	case "verbose":
		return fmt.Sprintf("🔧 %s `%s`", call.Name, strings.ReplaceAll(string(call.Input), "`", "'"))
	}
	return ""
}

// React sets the reaction on the messages of the turn. Commands get none.
func (r *Reply) React(reaction chat.Reaction) {
	for _, e := range r.claim.Entries {
		if !e.Exclusive {
			r.Accounts.React(e.Inbound, reaction)
		}
	}
}

// ShowOutcome sets the reaction for the outcome of the turn.
func (r *Reply) ShowOutcome(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		r.React(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		r.React(chat.ReactionFailed)
	}
}
