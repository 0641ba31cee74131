package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/turn"
)

// homeChannelsKey is the store key of the home channels that users have set.
const homeChannelsKey = "homes"

// homeChannels returns the home channels: the configured ones, overridden by those that users
// have set.
func (g *Gateway) homeChannels() map[chat.Platform]chat.Address {
	all := maps.Clone(g.settings.Load().HomeChannels)
	if all == nil {
		all = make(map[chat.Platform]chat.Address)
	}
	if set := g.homeOverrides.Load(); set != nil {
		maps.Copy(all, *set)
	}
	for p, at := range all {
		all[p] = g.opts.Moves.Current(at)
	}
	return all
}

// loadHomeChannels loads the home channels that users have set.
func (g *Gateway) loadHomeChannels(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, homeChannelsKey)
	if err != nil || raw == nil {
		return err
	}
	var set map[chat.Platform]chat.Address
	if err := json.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("decode home channels: %w", err)
	}
	g.homeOverrides.Store(&set)
	return nil
}

// SetHome makes a chat the home channel of its platform and stores it. It fails if the
// daemon cannot send to the chat on its own.
func (g *Gateway) SetHome(ctx context.Context, at chat.Address) error {
	if !g.opts.Accounts.CanSendUnasked(at) {
		return i18n.Errorf("nothing can be sent to %s unasked", at.Platform)
	}
	set := make(map[chat.Platform]chat.Address)
	if old := g.homeOverrides.Load(); old != nil {
		maps.Copy(set, *old)
	}
	set[at.Platform] = at
	raw, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("encode home channels: %w", err)
	}
	if err := g.opts.Store.SetValue(ctx, homeChannelsKey, raw); err != nil {
		return err
	}
	g.homeOverrides.Store(&set)
	return nil
}

// SetHome calls Gateway.SetHome.
func (e env) SetHome(ctx context.Context, at chat.Address) error { return e.g.SetHome(ctx, at) }

// Targets returns the addresses that a comma-separated list of targets names, each
// once: "origin", a platform (its home channel), platform:chat[:thread],
// platform:#name, "all" (every home channel) or "local" (none). origin is the address
// of the request; with the zero Address "origin" is an error.
func (g *Gateway) Targets(ctx context.Context, text string, origin chat.Address) ([]chat.Address, error) {
	var all []chat.Address
	for part := range strings.SplitSeq(text, ",") {
		found, err := g.resolveTarget(ctx, strings.TrimSpace(part), origin)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all, nil
}

func (g *Gateway) resolveTarget(ctx context.Context, name string, origin chat.Address) ([]chat.Address, error) {
	homes := g.homeChannels()
	switch name {
	case "", "local":
		return nil, nil
	case "origin":
		if origin.Platform == "" || origin.Platform == chat.Cron {
			return nil, i18n.Errorf("origin is nowhere: this did not come from a chat")
		}
		return []chat.Address{origin}, nil
	case "all":
		addresses := slices.SortedFunc(maps.Values(homes), func(a, b chat.Address) int { return cmp.Compare(a.Platform, b.Platform) })
		if len(addresses) == 0 {
			return nil, i18n.Errorf("no platform has a home channel; `/sethome` in a chat makes it one")
		}
		return addresses, nil
	}
	platform, chatRef, exact := strings.Cut(name, ":")
	if len(g.opts.Accounts.Names(chat.Platform(platform))) == 0 {
		return nil, i18n.Errorf("%q is no target: no platform of that name is connected", name)
	}
	if !exact {
		home, ok := homes[chat.Platform(platform)]
		if !ok {
			return nil, i18n.Errorf("%s has no home channel; `/sethome` in a chat makes it one", platform)
		}
		return []chat.Address{home}, nil
	}
	at, err := g.findChat(ctx, chat.Platform(platform), chatRef)
	if err != nil {
		return nil, err
	}
	return []chat.Address{g.opts.Moves.Current(at)}, nil
}

// findChat finds the chat of a platform by "ID[:thread]" or "#name". Names are known
// only of chats with stored sessions.
func (g *Gateway) findChat(ctx context.Context, p chat.Platform, text string) (chat.Address, error) {
	known, err := g.opts.Store.Sessions(ctx, maxScannedSessions)
	if err != nil {
		return chat.Address{}, err
	}
	id, thread, _ := strings.Cut(text, ":")
	name, byName := strings.CutPrefix(text, "#")
	var found []chat.Address
	for _, r := range known {
		at := r.Address
		switch {
		case at.Platform != p:
			continue
		case byName && !strings.EqualFold(strings.TrimPrefix(r.Name, "#"), name):
			continue
		case !byName && (at.Chat != id || at.Thread != thread):
			continue
		}
		if !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	switch {
	case len(found) == 1 || len(found) > 1 && !byName:
		return found[0], nil
	case len(found) > 1:
		return chat.Address{}, i18n.Errorf("%d chats of %s are called #%s; name one by its id", len(found), p, name)
	case byName:
		return chat.Address{}, i18n.Errorf("no chat of %s is known as #%s: nobody has spoken to me there", p, name)
	}
	return g.newChatAddress(p, id, thread)
}

// newChatAddress returns the address of a chat without sessions. It fails if the
// platform has several accounts.
func (g *Gateway) newChatAddress(p chat.Platform, id, thread string) (chat.Address, error) {
	at := chat.Address{Platform: p, Kind: chat.Group, Chat: id, Thread: thread}
	names := g.opts.Accounts.Names(p)
	if len(names) > 1 {
		return at, i18n.Errorf("%s has %d accounts, and nobody has written in %s yet; write there once, so that I know which", p, len(names), id)
	}
	at.Account = names[0]
	if p == chat.Telegram && !strings.HasPrefix(id, "-") {
		at.Kind = chat.DM
	}
	return at, nil
}

// A TargetInfo describes a target to which messages can be sent.
type TargetInfo struct {
	Name string // accepted by Targets
	Note string // description; untrusted
}

// KnownTargets returns the home channels and the chats with sessions.
func (g *Gateway) KnownTargets(ctx context.Context) ([]TargetInfo, error) {
	var all []TargetInfo
	homes := g.homeChannels()
	for _, p := range slices.Sorted(maps.Keys(homes)) {
		all = append(all, TargetInfo{string(p), "the home channel"})
	}
	known, err := g.opts.Store.Sessions(ctx, maxScannedSessions)
	for _, r := range known {
		if !g.opts.Accounts.CanSendUnasked(r.Address) {
			continue
		}
		d := TargetInfo{strings.TrimSuffix(string(r.Address.Platform)+":"+r.Address.Chat+":"+r.Address.Thread, ":"), strings.TrimSpace(string(r.Address.Kind) + " " + r.Name)}
		if !slices.ContainsFunc(all, func(o TargetInfo) bool { return o.Name == d.Name }) {
			all = append(all, d)
		}
	}
	return all, err
}

// An OutgoingMessage is a message that the agent or the operator sends to a target.
type OutgoingMessage struct {
	To    string // accepted by Targets
	Text  string // Markdown
	Files []chat.File
	// Creator is the creator of the scheduled prompt whose run sends it, zero for others.
	Creator access.Principal
}

// Send enqueues the text and files of p for all its targets and returns the rows. If
// any of it cannot be sent, nothing is. The conversations of the target chats learn of
// the message with their next turn, except that of origin, whose transcript has it.
func (g *Gateway) Send(ctx context.Context, origin chat.Address, turn string, p OutgoingMessage) ([]outbox.Row, error) {
	to, err := g.Targets(ctx, p.To, origin)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, errors.New("that names no place to send to")
	}
	var rows []outbox.Row
	for _, at := range to {
		d := delivery.Draft{To: at, Turn: turn, Role: outbox.Notice}
		if strings.TrimSpace(p.Text) != "" {
			rows = append(rows, g.delivery.Render(p.Text, d)...)
		}
		for i := range p.Files {
			rows = append(rows, outbox.Row{Role: d.Role, Turn: d.Turn, Msg: chat.Outbound{To: at, File: &p.Files[i]}})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("there is nothing to send: neither text nor files")
	}
	g.announceMu.Lock() // held until the announcements are stored
	defer g.announceMu.Unlock()
	if rows, err = g.delivery.Enqueue(ctx, rows...); err != nil {
		return nil, err
	}
	source, text := "sent from another conversation", p.Text
	if turn == "" {
		source = "sent by the operator"
	}
	for _, f := range p.Files {
		text = strings.TrimSpace(text + "\n[file " + f.Name + "]")
	}
	g.storeAnnouncementLocked(context.WithoutCancel(ctx), announcement{Origin: source, Creator: p.Creator, Text: text}, slices.DeleteFunc(to, func(at chat.Address) bool { return at == origin }))
	return rows, nil
}

func (g *Gateway) attachFiles(paths []string, scope turn.AttachScope) ([]chat.File, error) {
	var files []chat.File
	for _, p := range paths {
		if g.opts.Attach == nil {
			return nil, errors.New("files cannot be sent here")
		}
		f, err := g.opts.Attach(p, scope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// sendFor sends the message of a tool call in the turn of e.
func (g *Gateway) sendFor(ctx context.Context, e inbox.Entry, turnID string, m tool.Message, scope turn.AttachScope) (string, error) {
	files, err := g.attachFiles(m.Files, scope)
	if err != nil {
		return "", err
	}
	out := OutgoingMessage{To: m.To, Text: m.Text, Files: files}
	if e.Occurrence != nil {
		out.Creator = e.Principal
	}
	rows, err := g.Send(ctx, e.Inbound.Address, turnID, out)
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
