package slack

import (
	"cmp"
	"encoding/json"
	"slices"
)

// wire returns the message as the API and the events show it.
func (m *message) wire() obj {
	o := obj{"type": "message", "ts": m.TS, "text": m.Text, "user": m.User, "team": m.Team}
	put := func(name, value string) {
		if value != "" {
			o[name] = value
		}
	}
	put("client_msg_id", m.ClientID)
	put("subtype", m.Subtype)
	put("bot_id", m.Bot)
	put("app_id", m.App)
	if len(m.Blocks) > 0 {
		o["blocks"] = m.Blocks
	} else if m.Text != "" && m.Subtype != "channel_join" {
		o["blocks"] = richText(m.Text)
	}
	if len(m.Attachments) > 0 {
		o["attachments"] = m.Attachments
	}
	if m.author.bot != nil {
		o["bot_profile"] = m.author.bot.profile()
	}
	if m.Subtype == "bot_message" {
		o["username"] = m.author.person.Name
		delete(o, "user")
	}
	if len(m.Files) > 0 {
		files := make([]obj, len(m.Files))
		for i, f := range m.Files {
			files[i] = f.wire()
		}
		o["files"], o["upload"], o["display_as_bot"] = files, false, false
	}
	if !m.Changed.IsZero() {
		o["edited"] = obj{"user": cmp.Or(m.Bot, m.User), "ts": stamp(m.Changed)}
	}
	if len(m.Reactions) > 0 {
		list := make([]obj, len(m.Reactions))
		for i, r := range m.Reactions {
			list[i] = obj{"name": r.Name, "users": slices.Clone(r.Users), "count": len(r.Users)}
		}
		o["reactions"] = list
	}
	m.wireThread(o)
	return o
}

// wireThread adds the fields about the thread of the message.
func (m *message) wireThread(o obj) {
	c := m.channel
	if m.Thread == "" || m.Thread == m.TS {
		replies := m.repliesLocked()
		if len(replies) == 0 {
			return
		}
		var users []string
		for _, r := range replies {
			if !slices.Contains(users, r.User) {
				users = append(users, r.User)
			}
		}
		o["thread_ts"], o["reply_count"], o["reply_users"] = m.TS, len(replies), users
		o["reply_users_count"], o["latest_reply"] = len(users), replies[len(replies)-1].TS
		o["is_locked"], o["subscribed"] = false, false
		return
	}
	o["thread_ts"] = m.Thread
	root := c.byTS[m.Thread]
	if root == nil {
		return
	}
	o["parent_user_id"] = root.User
	if m.Broadcast {
		shown := root.wire()
		delete(shown, "blocks")
		o["root"] = shown
	}
}

// withMetadata adds the metadata, which is sent only on request.
func (m *message) withMetadata(o obj) obj {
	if len(m.Metadata) > 0 {
		o["metadata"] = m.Metadata
	}
	return o
}

// richText returns the block that Slack creates from a text.
func richText(text string) []obj {
	return []obj{{
		"type": "rich_text", "block_id": "sim",
		"elements": []obj{{"type": "rich_text_section", "elements": []obj{{"type": "text", "text": text}}}},
	}}
}

func (b *Bot) profile() obj {
	return obj{
		"id": b.botID, "app_id": b.app.id, "user_id": b.user.ID(), "name": b.app.opts.Name, "team_id": b.team.id,
		"deleted": false, "updated": 0, "icons": obj{},
	}
}

// wire returns the user as the API shows it.
func (u *User) wire(email bool) obj {
	profile := obj{
		"real_name": u.person.RealName, "real_name_normalized": u.person.RealName,
		"display_name": u.person.Name, "display_name_normalized": u.person.Name, "team": u.team.id,
	}
	if email && u.person.Email != "" {
		profile["email"] = u.person.Email
	}
	if u.isBot() {
		profile["bot_id"] = u.botID
	}
	if u.bot != nil {
		profile["api_app_id"] = u.bot.app.id
	}
	return obj{
		"id": u.ID(), "team_id": u.team.id, "name": u.person.Name, "real_name": u.person.RealName, "deleted": u.gone,
		"is_bot": u.isBot(), "is_app_user": false, "is_admin": false, "is_owner": false, "is_restricted": false,
		"tz": "Europe/Amsterdam", "tz_label": "Central European Time", "tz_offset": 3600, "updated": 0, "profile": profile,
	}
}

// wire returns the channel as the API shows it to a bot.
func (c *Channel) wire(b *Bot) obj {
	o := obj{
		"id": c.id, "created": c.created.Unix(), "is_archived": c.archived, "is_channel": c.kind == Public,
		"is_group": c.kind == Private, "is_im": c.kind == DM, "is_mpim": c.kind == GroupDM, "is_private": c.kind != Public,
		"is_general": false, "is_shared": false, "is_org_shared": false, "is_ext_shared": false, "unlinked": 0,
		"context_team_id": c.team.id, "updated": c.created.UnixMilli(),
	}
	if c.kind == DM {
		o["is_open"] = true
		for _, u := range c.members {
			if u != b.user {
				o["user"] = u.ID()
			}
		}
		return o
	}
	o["name"], o["name_normalized"], o["is_member"] = c.name, c.name, c.hasLocked(b.user)
	o["num_members"], o["creator"] = len(c.members), ""
	o["topic"] = obj{"value": "", "creator": "", "last_set": 0}
	o["purpose"] = obj{"value": "", "creator": "", "last_set": 0}
	return o
}

// blockTexts returns the texts in blocks, in reading order.
func blockTexts(blocks json.RawMessage) []string {
	var v any
	if json.Unmarshal(blocks, &v) != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if text, ok := v["text"].(string); ok {
				out = append(out, text)
			}
			for _, name := range []string{"text", "fields", "elements", "accessory"} {
				walk(v[name])
			}
		}
	}
	walk(v)
	return out
}
