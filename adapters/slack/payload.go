package slack

import (
	"fmt"
	"strings"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/adapters/slack/internal/mrkdwn"
	"hermesd/gateway/chat"
	"hermesd/internal/shorten"
)

// Size returns the length of r as it is sent: as mrkdwn, in UTF-16 units.
func Size(r chat.RichText) int { return mrkdwn.Size(r) }

// eventType identifies the metadata of the bot's messages.
const eventType = "hermesd"

// metadata returns the metadata by which a message is found.
func metadata(id string) slack.SlackMetadata {
	return slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{"id": id}}
}

// A outgoing is one message being sent.
type outgoing struct {
	m      chat.Outbound
	text   string
	blocks []slack.Block // buttons, or a text that is too long without blocks
}

func newLetter(m chat.Outbound) (*outgoing, error) {
	if err := checkAddress(m.To); err != nil {
		return nil, err
	}
	for _, row := range m.Buttons {
		for _, b := range row {
			if len(b.Data) > buttonData || b.Data == "" || b.Label == "" {
				return nil, apierror.Permanent(fmt.Sprintf("the button %q needs a label and 1 to %d bytes of data", b.Label, buttonData))
			}
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

// blocks returns m as sections, followed by its buttons.
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

// cut returns the first n characters of s.
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
