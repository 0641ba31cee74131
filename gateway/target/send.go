package target

import (
	"context"
	"errors"
	"slices"
	"strings"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
)

// A Message is a message that the agent or the operator sends to targets.
type Message struct {
	To    string // accepted by Resolve
	Text  string // Markdown
	Files []chat.File
	// Creator is the creator of the scheduled prompt whose run sends it, zero for others.
	Creator access.Principal
}

// Send enqueues the text and files of m for all its targets and returns the rows. If
// any of it cannot be sent, nothing is. turn is the turn that sends it, "" for the
// operator. The conversations of the target chats learn of the message with their next
// turn, except that of origin, whose transcript has it.
func (d *Directory) Send(ctx context.Context, origin chat.Address, turn string, m Message) ([]outbox.Row, error) {
	to, err := d.Resolve(ctx, m.To, origin)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, errors.New("that names no place to send to")
	}
	var rows []outbox.Row
	for _, at := range to {
		f := delivery.Draft{To: at, Turn: turn, Role: outbox.Notice}
		if strings.TrimSpace(m.Text) != "" {
			rows = append(rows, d.parts.Delivery.Render(m.Text, f)...)
		}
		for i := range m.Files {
			rows = append(rows, outbox.Row{Role: f.Role, Turn: f.Turn, Msg: chat.Outbound{To: at, File: &m.Files[i]}})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("there is nothing to send: neither text nor files")
	}
	d.announceMu.Lock() // held until the announcements are stored
	defer d.announceMu.Unlock()
	if rows, err = d.parts.Delivery.Enqueue(ctx, rows...); err != nil {
		return nil, err
	}
	source, text := "sent from another conversation", m.Text
	if turn == "" {
		source = "sent by the operator"
	}
	for _, f := range m.Files {
		text = strings.TrimSpace(text + "\n[file " + f.Name + "]")
	}
	d.storeAnnouncementLocked(context.WithoutCancel(ctx), announcement{Origin: source, Creator: m.Creator, Text: text}, slices.DeleteFunc(to, func(at chat.Address) bool { return at == origin }))
	return rows, nil
}

// Notify enqueues a notice of the daemon. It does nothing if nothing can be sent to the
// address unasked.
func (d *Directory) Notify(ctx context.Context, at chat.Address, md string) error {
	if !d.parts.Accounts.CanSendUnasked(at) {
		return nil
	}
	return d.parts.Delivery.SendNotice(ctx, md, delivery.Draft{To: at})
}
