package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/adapters/slack/internal/mrkdwn"
	"hermesd/gateway/chat"
	"hermesd/internal/shorten"
)

// Send implements chat.Adapter. If Slack rejects the form of a message, and so
// certainly does not have it, the message is sent again at once without that
// form. If Slack rejects it because the bot is not in the channel, the message
// is sent to the response URL of a slash command from there, if there is one.
func (a *Adapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	l, err := newLetter(m)
	if err != nil {
		return chat.Receipt{}, err
	}
	var id string
	if m.File != nil {
		id, err = a.postFile(ctx, l)
	} else {
		id, err = a.post(ctx, l)
	}
	if err != nil {
		return chat.Receipt{}, apierror.SendError(err)
	}
	a.typing.forget(m.To)
	a.places.MarkSpoken(m.To, id)
	return chat.Receipt{ID: id}, nil
}

// post makes the call, and repeats it if Slack has certainly rejected the first.
func (a *Adapter) post(ctx context.Context, l *outgoing) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	try := func() (string, error) {
		o := l.options(textLimit)
		if l.m.To.Thread != "" {
			o = append(o, slack.MsgOptionTS(l.m.To.Thread))
		}
		_, id, err := a.api.PostMessageContext(ctx, l.m.To.Chat, o...)
		if err == nil && id == "" {
			err = fmt.Errorf("response has no message ID")
		}
		return id, err
	}
	id, err := try()
	if err != nil && l.plainer(apierror.Code(err)) {
		id, err = try()
	}
	switch apierror.Code(err) {
	case "not_in_channel", "channel_not_found":
		if url, ok := a.urls.take(l.m); ok {
			return a.respond(ctx, url, l)
		}
	}
	return id, err
}

// respond answers a slash command where the bot cannot write. Only the user who
// gave the command sees the answer, and Slack does not return its message ID.
func (a *Adapter) respond(ctx context.Context, url string, l *outgoing) (string, error) {
	o := []slack.MsgOption{slack.MsgOptionText(l.text, false), slack.MsgOptionResponseURL(url, slack.ResponseTypeEphemeral)}
	if l.blocks != nil {
		o = append(o, slack.MsgOptionBlocks(l.blocks...))
	}
	_, _, err := a.api.PostMessageContext(ctx, l.m.To.Chat, o...)
	if err == nil {
		return "response:" + inbound.TS(time.Now()), nil
	}
	var status slack.StatusCodeError
	if c := apierror.Code(err); errors.As(err, &status) && status.Code < 500 || c == "expired_url" || c == "used_url" {
		return "", apierror.Permanent(apierror.Describe("expired_url"))
	}
	return "", err //nolint:wrapcheck // sendError converts it
}

func (a *Adapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	l, err := newLetter(m)
	if err != nil {
		return err
	}
	if err := checkID(id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if l.blocks == nil && Size(m.Text) > updateLimit {
		return tooLongToChange(nil)
	}
	try := func() error {
		o := l.options(updateLimit)
		if l.blocks == nil { // otherwise the old ones stay
			o = append(o, slack.MsgOptionBlocks([]slack.Block{}...))
		}
		_, _, _, err := a.api.UpdateMessageContext(ctx, m.To.Chat, id, o...)
		return err //nolint:wrapcheck // sendError converts it
	}
	err = try()
	if err != nil && Size(m.Text) <= updateLimit && l.plainer(apierror.Code(err)) {
		err = try()
	}
	switch apierror.Code(err) {
	case "msg_too_long", "msg_blocks_too_long":
		return tooLongToChange(err)
	case "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found", "is_inactive":
		return &chat.SendError{Outcome: chat.Permanent, Reason: "the message can no longer be changed", Err: chat.ErrGone}
	case "message_not_modified", "not_modified":
		return nil
	}
	if err != nil {
		return apierror.SendError(err)
	}
	return nil
}

// tooLongToChange returns the error of a text that fits into a new message but
// not into an edit: the caller sends it as a new message.
func tooLongToChange(err error) error {
	return &chat.SendError{Outcome: chat.Permanent, Reason: "the text is too long for a message that is changed", Err: errors.Join(chat.ErrGone, err)}
}

func (a *Adapter) Delete(ctx context.Context, to chat.Address, id string) error {
	if err := checkAddress(to); err != nil {
		return err
	}
	if _, ok := inbound.Time(id); !ok { // it may still be visible
		return apierror.Permanent(fmt.Sprintf("%q is not a Slack message that can be deleted", id))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, _, err := a.api.DeleteMessageContext(ctx, to.Chat, id)
	switch apierror.Code(err) {
	case "message_not_found":
		return nil
	case "cant_delete_message", "compliance_exports_prevent_deletion":
		return &chat.SendError{Outcome: chat.Permanent, Reason: "the message can no longer be deleted", Err: chat.ErrGone}
	}
	if err != nil {
		return apierror.SendError(err)
	}
	return nil
}

// checkID returns the error of an edit of a message that has no ID at Slack: it was
// sent to a response URL.
func checkID(id string) error {
	if _, ok := inbound.Time(id); !ok {
		return &chat.SendError{Outcome: chat.Permanent, Reason: fmt.Sprintf("%q is not a Slack message that can be changed", id), Err: chat.ErrGone}
	}
	return nil
}

// Size returns the length of r as it is sent: as mrkdwn, in UTF-16 units.
func Size(r chat.RichText) int { return mrkdwn.Size(r) }

// eventType identifies the metadata of the bot's messages.
const eventType = "hermesd"

func metadata(id string) slack.SlackMetadata {
	return slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"id": id}}
}

type outgoing struct {
	m      chat.Outbound
	text   string
	blocks []slack.Block // buttons, or a text that is too long without blocks
}

func newLetter(m chat.Outbound) (*outgoing, error) {
	if err := checkAddress(m.To); err != nil {
		return nil, err
	}
	for _, b := range slices.Concat(m.Buttons...) {
		if len(b.Data) > buttonData || b.Data == "" || b.Label == "" {
			return nil, apierror.Permanent(fmt.Sprintf("the button %q needs a label and 1 to %d bytes of data", b.Label, buttonData))
		}
	}
	l := &outgoing{m: m, text: mrkdwn.Render(m.Text)}
	size, limit := Size(m.Text), textLimit
	if m.File != nil {
		limit = captionLimit
	}
	switch {
	case size > limit:
		return nil, apierror.Permanent(fmt.Sprintf("the message has %d characters, and Slack takes %d", size, limit))
	case m.File == nil && strings.TrimSpace(l.text) == "":
		return nil, apierror.Permanent("the message is empty")
	case m.File == nil && (size > sectionLimit && size <= blocksLimit || len(m.Buttons) > 0):
		l.blocks = blocks(m)
	}
	return l, nil
}

func checkAddress(to chat.Address) error {
	if to.Chat == "" || strings.ContainsAny(to.Chat, " \t\n/") {
		return apierror.Permanent(fmt.Sprintf("%q is not a Slack channel", to.Chat))
	}
	if _, ok := inbound.Time(to.Thread); to.Thread != "" && !ok {
		return apierror.Permanent(fmt.Sprintf("%q is not a Slack thread", to.Thread))
	}
	return nil
}

func blocks(m chat.Outbound) []slack.Block {
	var out []slack.Block
	for _, s := range mrkdwn.Sections(m.Text, sectionLimit) {
		out = append(out, slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, s, false, false), nil, nil, slack.SectionBlockOptionExpand(true)))
	}
	n := 0
	for i, row := range m.Buttons {
		var keys []slack.BlockElement
		for _, b := range row[:min(len(row), rowLimit)] {
			n++
			label := slack.NewTextBlockObject(slack.PlainTextType, cut(b.Label, buttonLabel), true, false)
			keys = append(keys, slack.NewButtonBlockElement(fmt.Sprintf("hermesd_%d", n), b.Data, label))
		}
		if len(keys) > 0 {
			out = append(out, slack.NewActionBlock(fmt.Sprintf("hermesd_row_%d", i), keys...))
		}
	}
	return out
}

func cut(s string, n int) string { return s[:shorten.Offset(s, n)] }

// options returns the library's parameters of l; at most limit runes of the text
// are sent if blocks show all of it.
func (l *outgoing) options(limit int) []slack.MsgOption {
	out := []slack.MsgOption{
		slack.MsgOptionText(cut(l.text, limit), false), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
		slack.MsgOptionMetadata(metadata(l.m.ID)),
	}
	if l.blocks != nil {
		out = append(out, slack.MsgOptionBlocks(l.blocks...))
	}
	return out
}

// plainer removes the form that Slack rejected with code, and reports whether a
// retry can help. Buttons are not removed: without them it would be another
// message.
func (l *outgoing) plainer(code string) bool {
	if l.blocks == nil || len(l.m.Buttons) > 0 {
		return false
	}
	switch code {
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "blocks_too_long":
		l.blocks = nil
		return true
	}
	return false
}
