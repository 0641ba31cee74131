package telegram

import (
	"slices"
	"strconv"
)

func (c *call) getChat() (any, *apiError) {
	ch, err := c.room(reading)
	if err != nil {
		return nil, err
	}
	w := wireFullChat{wireChat: ch.wire(), MaxReactionCount: 11}
	if w.Username != "" {
		w.ActiveUsernames = []string{w.Username}
	}
	return w, nil
}

func (ch *Chat) memberLocked(u *User) wireMember {
	st := ch.statusLocked(u.ID())
	w := wireMember{Status: string(st), User: u.person}
	no, forever := false, int64(0)
	switch st {
	case Kicked:
		w.UntilDate = &forever
	case Creator, Admin:
		w.IsAnonymous = &no
	}
	return w
}

func (c *call) getChatMember() (any, *apiError) {
	ch, err := c.room(reading)
	if err != nil {
		return nil, err
	}
	id, _ := strconv.ParseInt(c.str("user_id"), 10, 64)
	u := c.s.people[id]
	if u == nil {
		return nil, badRequest("member not found")
	}
	return ch.memberLocked(u), nil
}

func (c *call) getChatAdministrators() (any, *apiError) {
	ch, err := c.room(reading)
	if err != nil {
		return nil, err
	}
	if ch.kind == Private {
		return nil, badRequest("there are no administrators in the private chat")
	}
	out := []wireMember{}
	for id, st := range ch.members {
		if u := c.s.people[id]; u != nil && u.bot != c.bot && (st == Creator || st == Admin) {
			out = append(out, ch.memberLocked(u))
		}
	}
	slices.SortFunc(out, func(a, b wireMember) int { return int(a.User.ID - b.User.ID) })
	return out, nil
}

func (c *call) getChatMemberCount() (any, *apiError) {
	ch, err := c.room(reading)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, st := range ch.members {
		if st.inside() {
			n++
		}
	}
	return n, nil
}

func (c *call) leaveChat() (any, *apiError) {
	ch, err := c.room(editing)
	if err != nil {
		return nil, err
	}
	if ch.kind == Private {
		return nil, badRequest("chat is a private chat, can't leave it")
	}
	ch.members[c.bot.ID()] = Left
	return true, nil
}

func (c *call) createForumTopic() (any, *apiError) {
	ch, err := c.room(writing)
	if err != nil {
		return nil, err
	}
	name := c.str("name")
	switch {
	case name == "":
		return nil, badRequest("TOPIC_NAME_INVALID")
	case !ch.forum && !(ch.kind == Private && c.bot.me.HasTopicsEnabled):
		return nil, badRequest("the chat is not a forum")
	case ch.forum && ch.members[c.bot.ID()] == Member:
		return nil, badRequest("not enough rights to create a topic")
	}
	id := ch.addTopicLocked(c.bot.me.Person, name)
	c.made = id
	return wireForumTopic{MessageThreadID: id, Name: name, IconColor: 7322096}, nil
}

func (c *call) noPhotos() (any, *apiError) {
	return struct {
		Total  int     `json:"total_count"`
		Photos [][]int `json:"photos"`
	}{Photos: [][]int{}}, nil
}
