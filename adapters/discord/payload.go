package discord

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/gateway/chat"
)

// Size returns the length of r in code points as it is sent, which Discord's
// limit counts.
func Size(r chat.RichText) int { return markdown.Len(markdown.Render(r)) }

const (
	pingEveryone = "everyone"
	pingRoles    = "roles"
	pingNobody   = "nobody"   // not the people that an answer mentions
	pingNoReply  = "no_reply" // not the person whom an answer quotes
)

// The flags of a message.
const (
	flagQuiet     = 1 << 12
	flagEphemeral = 1 << 6
	// flagBare suppresses link previews: for a preview Discord fetches the
	// address, so data that a model was tricked into putting there would leave
	// without a click.
	flagBare = 1 << 2
)

// messagePayload is a message to send. The library's own type has no nonce.
type messagePayload struct {
	Content    string      `json:"content"`
	Nonce      string      `json:"nonce,omitempty"`
	Enforce    bool        `json:"enforce_nonce,omitempty"`
	Flags      int         `json:"flags,omitempty"`
	Mentions   mentions    `json:"allowed_mentions"`
	Reference  *reference  `json:"message_reference,omitempty"`
	Components []component `json:"components,omitempty"`
	Files      []attached  `json:"attachments,omitempty"`
}

// editPayload is an edit of a message. Components are always included: an edit
// without buttons removes them.
type editPayload struct {
	Content    string      `json:"content"`
	Flags      int         `json:"flags"`
	Mentions   mentions    `json:"allowed_mentions"`
	Components []component `json:"components"`
}

// edited returns the edit that turns a message into p.
func edited(p messagePayload) editPayload {
	c := editPayload{Content: p.Content, Flags: flagBare, Mentions: p.Mentions, Components: p.Components}
	if c.Components == nil {
		c.Components = []component{}
	}
	return c
}

type mentions struct {
	Parse   []string `json:"parse"`
	Replied bool     `json:"replied_user"`
}

type reference struct {
	Message    string `json:"message_id"`
	FailIfGone bool   `json:"fail_if_not_exists"`
}

type attached struct {
	ID   int    `json:"id"`
	Name string `json:"filename"`
}

// A component is a row of buttons, or a button.
type component struct {
	Type       int         `json:"type"`
	Style      int         `json:"style,omitempty"`
	Label      string      `json:"label,omitempty"`
	ID         string      `json:"custom_id,omitempty"`
	Components []component `json:"components,omitempty"`
}

const (
	componentRow    = 1
	componentButton = 2
	styleSecondary  = 2
)

// nonce derives the nonce, by which Discord recognizes a repeat, from an
// outbound ID.
func nonce(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:nonceLength-1]
}

// mentions returns whom a text may ping: users always, others as configured.
func (a *Adapter) mentions() mentions {
	m := mentions{Parse: []string{}, Replied: !slices.Contains(a.cfg.AllowMentions, pingNobody) && !slices.Contains(a.cfg.AllowMentions, pingNoReply)}
	if !slices.Contains(a.cfg.AllowMentions, pingNobody) {
		m.Parse = append(m.Parse, "users")
	}
	for _, kind := range []string{pingEveryone, pingRoles} {
		if slices.Contains(a.cfg.AllowMentions, kind) {
			m.Parse = append(m.Parse, kind)
		}
	}
	return m
}

func (a *Adapter) compose(m chat.Outbound) (messagePayload, error) {
	p := messagePayload{Content: markdown.Render(m.Text), Mentions: a.mentions(), Flags: flagBare}
	if m.ID != "" {
		p.Nonce, p.Enforce = nonce(m.ID), true
	}
	if m.Quiet {
		p.Flags |= flagQuiet
	}
	if n := markdown.Len(p.Content); n > textLimit {
		return p, apierror.Permanent("the text has %d characters, more than Discord's 2,000", n)
	}
	if m.File == nil && strings.TrimSpace(p.Content) == "" {
		return p, apierror.Permanent("the message is empty")
	}
	var err error
	p.Components, err = buttons(m.Buttons)
	return p, err
}

// buttons returns rows of buttons. Discord allows five rows of five; longer rows
// are wrapped.
func buttons(rows [][]chat.Button) ([]component, error) {
	var out []component
	for _, row := range rows {
		for part := range slices.Chunk(row, rowButtons) {
			line := component{Type: componentRow}
			for _, b := range part {
				if len(b.Data) > buttonData || b.Data == "" || b.Label == "" {
					return nil, apierror.Permanent("the button %q needs a label and 1 to %d bytes of data", b.Label, buttonData)
				}
				line.Components = append(line.Components, component{
					Type: componentButton, Style: styleSecondary, Label: markdown.Cut(b.Label, buttonLabel), ID: b.Data,
				})
			}
			out = append(out, line)
		}
	}
	if len(out) > buttonRows {
		return nil, apierror.Permanent("Discord takes at most %d rows of %d buttons", buttonRows, rowButtons)
	}
	return out, nil
}
