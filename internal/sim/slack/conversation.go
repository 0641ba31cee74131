package slack

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func conversationInfo(c *call) (obj, *apiError) {
	ch, refused := c.channelLocked(c.str("channel"))
	if refused == nil {
		refused = c.needLocked(ch.kind.noun() + ":read")
	}
	if refused != nil {
		return nil, refused
	}
	return obj{"channel": ch.wire(c.bot)}, nil
}

// page returns one page of a list that is in the order of IDs.
func page[T any](c *call, list []T, id func(T) string, otherwise int) ([]T, obj, *apiError) {
	from, refused := c.cursor("id:")
	if refused != nil {
		return nil, nil, refused
	}
	limit := otherwise
	if n, err := strconv.Atoi(c.str("limit")); err == nil && n > 0 {
		limit = min(n, 1000)
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	list = slices.DeleteFunc(list, func(e T) bool { return id(e) < from })
	next := obj{"next_cursor": ""}
	if len(list) > limit {
		next = nextCursor("id:", id(list[limit]))
		list = list[:limit]
	}
	return list, next, nil
}

var kindNames = map[string]Kind{"public_channel": Public, "private_channel": Private, "mpim": GroupDM, "im": DM}

func conversationList(c *call) (obj, *apiError) {
	want := map[Kind]bool{}
	for _, name := range strings.Split(cmp.Or(c.str("types"), "public_channel"), ",") {
		kind, ok := kindNames[strings.TrimSpace(name)]
		if !ok {
			return nil, refuse("invalid_types")
		}
		if refused := c.needLocked(kind.noun() + ":read"); refused != nil {
			return nil, refused
		}
		want[kind] = true
	}
	var list []*Channel
	for _, ch := range c.s.channels {
		hidden := ch.kind != Public && !ch.hasLocked(c.bot.user) || ch.archived && c.bool("exclude_archived")
		if ch.team == c.bot.team && (want[ch.kind] || c.s.opts.AllTypes) && !hidden {
			list = append(list, ch)
		}
	}
	list, next, refused := page(c, list, func(ch *Channel) string { return ch.id }, 100)
	if refused != nil {
		return nil, refused
	}
	out := make([]obj, len(list))
	for i, ch := range list {
		out[i] = ch.wire(c.bot)
	}
	return obj{"channels": out, "response_metadata": next}, nil
}

func conversationMembers(c *call) (obj, *apiError) {
	ch, refused := c.channelLocked(c.str("channel"))
	if refused == nil {
		refused = c.needLocked(ch.kind.noun() + ":read")
	}
	if refused != nil {
		return nil, refused
	}
	ids := make([]string, len(ch.members))
	for i, u := range ch.members {
		ids[i] = u.ID()
	}
	ids, next, refused := page(c, ids, func(id string) string { return id }, 100)
	if refused != nil {
		return nil, refused
	}
	return obj{"members": ids, "response_metadata": next}, nil
}

// conversationOpen implements conversations.open, with channel or with users.
func conversationOpen(c *call) (obj, *apiError) {
	if id := c.str("channel"); id != "" {
		ch, refused := c.channelLocked(id)
		if refused != nil {
			return nil, refused
		}
		return obj{"channel": obj{"id": ch.id}}, nil
	}
	var users []*User
	for _, id := range strings.Split(c.str("users"), ",") {
		u := c.s.users[strings.TrimSpace(id)]
		if u == nil || u.team != c.bot.team {
			return nil, refuse("user_not_found")
		}
		users = append(users, u)
	}
	kind, scope := DM, "im:write"
	if len(users) > 1 {
		kind, scope = GroupDM, "mpim:write"
	}
	if refused := c.needLocked(scope); refused != nil {
		return nil, refused
	}
	var ch *Channel
	switch {
	case kind == GroupDM:
		ch = c.groupLocked(append(users, c.bot.user))
	case users[0] == c.bot.user || users[0].gone:
		return nil, refuse("cannot_dm_bot")
	default:
		ch = users[0].dmLocked(c.bot.user)
	}
	out := ch.wire(c.bot)
	if !c.bool("return_im") {
		out = obj{"id": ch.id}
	}
	return obj{"channel": out}, nil
}

// groupLocked returns the group direct message of these members.
func (c *call) groupLocked(members []*User) *Channel {
	for _, ch := range c.s.channels {
		same := ch.kind == GroupDM && len(ch.members) == len(members)
		for _, u := range members {
			same = same && ch.hasLocked(u)
		}
		if same {
			return ch
		}
	}
	return c.bot.team.groupLocked(members)
}

func userInfo(c *call) (obj, *apiError) {
	u := c.s.users[c.str("user")]
	if u == nil || u.team != c.bot.team {
		return nil, refuse("user_not_found")
	}
	return obj{"user": u.wire(c.bot.hasLocked("users:read.email"))}, nil
}

func userList(c *call) (obj, *apiError) {
	var list []*User
	for _, u := range c.s.users {
		if u.team == c.bot.team {
			list = append(list, u)
		}
	}
	list, next, refused := page(c, list, (*User).ID, 1000)
	if refused != nil {
		return nil, refused
	}
	out := make([]obj, len(list))
	for i, u := range list {
		out[i] = u.wire(c.bot.hasLocked("users:read.email"))
	}
	return obj{"members": out, "cache_ts": 0, "response_metadata": next}, nil
}

// reactedLocked returns the message that a reaction call names.
func (c *call) reactedLocked() (*message, *apiError) {
	switch {
	case strings.Trim(c.str("name"), ":") == "":
		return nil, refuse("invalid_name")
	case c.str("timestamp") == "" || c.str("channel") == "":
		return nil, refuse("no_item_specified")
	}
	ch, refused := c.channelLocked(c.str("channel"))
	if refused != nil {
		return nil, refused
	}
	m := ch.liveLocked(c.str("timestamp"))
	switch {
	case m == nil:
		return nil, refuse("message_not_found")
	case !ch.hasLocked(c.bot.user):
		return nil, refuse("not_in_channel")
	case ch.archived:
		return nil, refuse("is_archived")
	}
	return m, nil
}

func reactionAdd(c *call) (obj, *apiError) {
	m, refused := c.reactedLocked()
	if refused != nil {
		return nil, refused
	}
	if !m.reactLocked(c.bot.user, strings.Trim(c.str("name"), ":")) {
		return nil, refuse("already_reacted")
	}
	c.made = m.TS
	c.s.recorder.note(func(*Counts) {})
	return nil, nil
}

func reactionRemove(c *call) (obj, *apiError) {
	m, refused := c.reactedLocked()
	if refused != nil {
		return nil, refused
	}
	name := strings.Trim(c.str("name"), ":")
	for i := range m.Reactions {
		r := &m.Reactions[i]
		at := slices.Index(r.Users, c.bot.user.ID())
		if r.Name != name || at < 0 {
			continue
		}
		r.Users = slices.Delete(r.Users, at, at+1)
		m.Reactions = slices.DeleteFunc(m.Reactions, func(r Reaction) bool { return len(r.Users) == 0 })
		c.made = m.TS
		return nil, nil
	}
	return nil, refuse("no_reaction")
}

// setStatus implements assistant.threads.setStatus.
func setStatus(c *call) (obj, *apiError) {
	ch, refused := c.channelLocked(c.str("channel_id"))
	if refused != nil {
		return nil, refused
	}
	thread := c.str("thread_ts")
	if ch.liveLocked(thread) == nil {
		return nil, refuse("invalid_thread_ts")
	}
	ch.status[thread] = c.str("status")
	if c.str("status") == "" {
		delete(ch.status, thread)
	}
	c.s.recorder.note(func(*Counts) {})
	return nil, nil
}
