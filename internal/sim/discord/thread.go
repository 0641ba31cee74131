package discord

import (
	"net/http"
	"time"
)

func threadRoutes() map[string]func(*call) (any, *apiError) {
	return map[string]func(*call) (any, *apiError){
		RouteThreadFrom:    threadFromMessage,
		RouteThread:        startThread,
		RouteJoinThread:    joinThread,
		RouteActiveThreads: activeThreads,
	}
}

// A thread holds the parameters with which a bot starts a thread.
type thread struct {
	Name      string      `json:"name"`
	Archiving int         `json:"auto_archive_duration"`
	Kind      ChannelKind `json:"type"`
	Message   *draft      `json:"message"`
}

func (t *thread) check() *apiError {
	if badName(t.Name) {
		return badLength("name", 1, maxName)
	}
	switch t.Archiving {
	case 0, 60, 1440, 4320, 10080:
	default:
		return invalid("auto_archive_duration", "BASE_TYPE_CHOICES", "Value must be one of {60, 1440, 4320, 10080}.")
	}
	if t.Message != nil {
		return t.Message.check()
	}
	return nil
}

// threadFromMessage handles RouteThreadFrom.
func threadFromMessage(c *call) (any, *apiError) {
	var t thread
	if err := c.decode(&t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	switch {
	case err != nil:
		return nil, err
	case m.ch.kind != Text && m.ch.kind != Announcement:
		return nil, wrongChannel()
	case p&CreateThreads == 0, p&ReadMessageHistory == 0:
		return nil, missingPermissions()
	case m.Thread != "":
		return nil, refuse(http.StatusBadRequest, 160004, "A thread has already been created for this message")
	}
	ch := m.threadLocked(c.bot.user, t)
	return created{ch.wireLocked(c.viewLocked())}, nil
}

// threadLocked starts the thread of a message. Both have the same ID.
func (m *message) threadLocked(by *User, t thread) *Channel {
	ch := m.ch.makeThreadLocked(m.ID, by, t)
	m.Thread = ch.id
	ch.tellMadeLocked()
	m.announceLocked("MESSAGE_UPDATE")
	first := ch.newMessageLocked(by, "")
	first.Type, first.starter = TypeThreadStarter, m
	first.announceLocked("MESSAGE_CREATE")
	return ch
}

// threadLocked starts a thread without a message.
func (c *Channel) threadLocked(by *User, t thread) *Channel {
	id := c.s.newIDLocked()
	ch := c.makeThreadLocked(id, by, t)
	ch.tellMadeLocked()
	if c.takesMessages() && ch.kind != PrivateThread {
		note := c.newMessageLocked(by, t.Name)
		note.Type, note.about = TypeThreadCreated, ch
		note.announceLocked("MESSAGE_CREATE")
	}
	return ch
}

func (c *Channel) makeThreadLocked(id string, by *User, t thread) *Channel {
	kind := PublicThread
	switch {
	case c.kind == Announcement:
		kind = AnnouncementThread
	case t.Kind == PrivateThread:
		kind = PrivateThread
	}
	if t.Archiving == 0 {
		t.Archiving = 1440
	}
	ch := &Channel{
		s: c.s, id: id, kind: kind, guild: c.guild, parent: c, owner: by, name: t.Name, archiving: t.Archiving,
		made: time.Now(), archivedAt: time.Now(), inThread: map[string]bool{by.ID: true}, byID: map[string]*message{},
	}
	c.s.channels[id] = ch
	c.s.order = append(c.s.order, ch)
	return ch
}

func (c *Channel) tellMadeLocked() {
	c.announceLocked("THREAD_CREATE", IntentGuilds, func(v view) obj {
		w := c.wireLocked(v)
		w["newly_created"] = true
		return w
	})
}

// firstLocked creates the first message of a forum post; it has the ID of the
// post.
func (c *Channel) firstLocked(by *User, text string) *message {
	m := c.newMessageLocked(by, text)
	delete(c.byID, m.ID)
	m.ID = c.id
	c.byID[m.ID] = m
	return m
}

// startThread handles RouteThread: a thread without a message, or a forum post.
func startThread(c *call) (any, *apiError) {
	var t thread
	if err := c.decode(&t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	if err != nil {
		return nil, err
	}
	if ch.kind == Forum {
		return c.forumPostLocked(ch, p, t)
	}
	need := CreateThreads
	if t.Kind == PrivateThread {
		need = CreatePrivate
	}
	switch {
	case ch.kind != Text && ch.kind != Announcement:
		return nil, wrongChannel()
	case p&need == 0:
		return nil, missingPermissions()
	}
	return created{ch.threadLocked(c.bot.user, t).wireLocked(c.viewLocked())}, nil
}

func (c *call) forumPostLocked(forum *Channel, p Permission, t thread) (any, *apiError) {
	d := t.Message
	switch {
	case d == nil:
		return nil, invalid("message", "BASE_TYPE_REQUIRED", "This field is required")
	case p&SendMessages == 0:
		return nil, missingPermissions()
	case d.text() == "" && len(d.Embeds) == 0 && len(c.files) == 0:
		return nil, refuse(http.StatusBadRequest, 50006, "Cannot send an empty message")
	}
	post := forum.threadLocked(c.bot.user, t)
	m := post.firstLocked(c.bot.user, d.text())
	d.fillLocked(m)
	m.mentionLocked(d.Allowed, p)
	c.storeLocked(m)
	c.sentByBotLocked(m)
	m.announceLocked("MESSAGE_CREATE")
	w := post.wireLocked(c.viewLocked())
	w["message"] = m.wireLocked(c.viewLocked())
	return created{w}, nil
}

// wakeLocked unarchives a thread before a message is sent in it.
func (c *Channel) wakeLocked() {
	if c.archived {
		c.archived, c.archivedAt = false, time.Now()
		c.updatedLocked()
	}
}

// frozenLocked returns an error if the thread does not allow changes: an
// archived thread allows none, a locked thread only those of members who may
// manage threads.
func (c *Channel) frozenLocked(p Permission) *apiError {
	switch {
	case c.archived:
		return refuse(http.StatusBadRequest, 50083, "Thread is archived")
	case c.locked && p&ManageThreads == 0:
		return refuse(http.StatusForbidden, 160005, "Thread is locked")
	}
	return nil
}

// closedLocked returns an error if the thread does not allow sends. A send
// unarchives an archived thread unless it is locked.
func (c *Channel) closedLocked(p Permission) *apiError {
	if !c.locked || p&ManageThreads != 0 {
		return nil
	}
	return c.frozenLocked(p)
}

// joinThread handles RouteJoinThread.
func joinThread(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, _, err := c.placeLocked()
	switch {
	case err != nil:
		return nil, err
	case !ch.isThread():
		return nil, wrongChannel()
	}
	if err := ch.frozenLocked(allPermissions); err != nil {
		return nil, err
	}
	ch.inThread[c.bot.user.ID] = true
	return nil, nil
}

// activeThreads handles RouteActiveThreads.
func activeThreads(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	g, err := c.guildLocked()
	if err != nil {
		return nil, err
	}
	threads := []obj{}
	for _, ch := range c.s.order {
		if ch.guild == g && ch.isThread() && !ch.archived && ch.permsLocked(c.bot.user)&ViewChannel != 0 {
			threads = append(threads, ch.wireLocked(c.viewLocked()))
		}
	}
	return obj{"threads": threads, "members": []obj{}}, nil
}
