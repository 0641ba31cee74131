package discord

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

func placeRoutes() map[string]func(*call) (any, *apiError) {
	return map[string]func(*call) (any, *apiError){
		RouteGatewayBot:    getGatewayBot,
		RouteMe:            getMe,
		RouteUser:          getUser,
		RouteMyGuilds:      getMyGuilds,
		RouteCreateDM:      createDM,
		RouteApplication:   getApplication,
		RouteGuild:         getGuild,
		RouteGuildChannels: getGuildChannels,
		RouteMember:        getMember,
		RouteChannel:       getChannel,
		RouteEditChannel:   editChannel,
		RouteDeleteChannel: deleteChannel,
	}
}

// getGateway handles RouteGateway.
func getGateway(c *call) (any, *apiError) { return obj{"url": gatewayURL(c.r.Host)}, nil }

// getGatewayBot handles RouteGatewayBot.
func getGatewayBot(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	left := c.bot.startsLeftLocked()
	return obj{"url": gatewayURL(c.r.Host), "shards": 1, "session_start_limit": obj{
		"total": c.s.opts.SessionStarts, "remaining": max(0, left),
		"reset_after": time.Until(c.bot.startsEnd).Milliseconds(), "max_concurrency": 1,
	}}, nil
}

// getMe handles RouteMe.
func getMe(c *call) (any, *apiError) { return c.bot.user.wire(), nil }

// getUser handles RouteUser.
func getUser(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u := c.s.users[c.path("user")]
	if u == nil {
		return nil, unknown(10013, "User")
	}
	return u.wire(), nil
}

// getApplication handles RouteApplication.
func getApplication(c *call) (any, *apiError) {
	return obj{"id": c.bot.user.ID, "name": c.bot.user.Name, "flags": c.bot.flags(), "bot_public": true}, nil
}

// getMyGuilds handles RouteMyGuilds.
func getMyGuilds(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	out := []obj{}
	for _, g := range c.s.guilds {
		if g.members[c.bot.user.ID] != nil {
			out = append(out, obj{
				"id": g.id, "name": g.name, "owner": g.owner == c.bot.user,
				"permissions": decimal(g.permsLocked(c.bot.user)), "features": []string{},
			})
		}
	}
	return out, nil
}

// createDM handles RouteCreateDM.
func createDM(c *call) (any, *apiError) {
	var in struct {
		Recipient string `json:"recipient_id"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u := c.s.users[in.Recipient]
	switch {
	case u == nil:
		return nil, invalid("recipient_id", "INVALID_RECIPIENT", "Invalid Recipient(s)")
	case u.bot != nil:
		return nil, refuse(http.StatusBadRequest, 50007, "Cannot send messages to this user")
	}
	return c.bot.dmLocked(u).wireLocked(c.viewLocked()), nil
}

// guildLocked returns the guild of a call.
func (c *call) guildLocked() (*Guild, *apiError) {
	for _, g := range c.s.guilds {
		if g.id == c.path("guild") {
			if g.members[c.bot.user.ID] == nil {
				return nil, missingAccess()
			}
			return g, nil
		}
	}
	return nil, unknown(10004, "Guild")
}

// getGuild handles RouteGuild.
func getGuild(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	g, err := c.guildLocked()
	if err != nil {
		return nil, err
	}
	return g.wire(), nil
}

// getGuildChannels handles RouteGuildChannels: all channels except threads,
// including those that the bot may not see.
func getGuildChannels(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	g, err := c.guildLocked()
	if err != nil {
		return nil, err
	}
	out := []obj{}
	for _, ch := range c.s.order {
		if ch.guild == g && !ch.isThread() {
			out = append(out, ch.wireLocked(c.viewLocked()))
		}
	}
	return out, nil
}

// getMember handles RouteMember.
func getMember(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	g, err := c.guildLocked()
	if err != nil {
		return nil, err
	}
	m := g.members[c.path("user")]
	switch {
	case c.s.users[c.path("user")] == nil:
		return nil, unknown(10013, "User")
	case m == nil:
		return nil, unknown(10007, "Member")
	}
	return m.wireWithUser(), nil
}

// getChannel handles RouteChannel.
func getChannel(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, _, err := c.placeLocked()
	if err != nil {
		return nil, err
	}
	return ch.wireLocked(c.viewLocked()), nil
}

// editChannel handles RouteEditChannel.
func editChannel(c *call) (any, *apiError) {
	var in struct {
		Name     *string `json:"name"`
		Topic    *string `json:"topic"`
		Archived *bool   `json:"archived"`
		Locked   *bool   `json:"locked"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	switch {
	case err != nil:
		return nil, err
	case ch.guild == nil:
		return nil, refuse(http.StatusForbidden, 50003, "Cannot execute action on a DM channel")
	case in.Name != nil && badName(*in.Name):
		return nil, badLength("name", 1, maxName)
	}
	if ch.isThread() {
		waking := in.Archived != nil && !*in.Archived
		mine := (ch.owner == c.bot.user || waking && ch.inThread[c.bot.user.ID]) && !ch.locked && in.Locked == nil
		switch {
		case !mine && p&ManageThreads == 0:
			return nil, missingPermissions()
		case ch.archived && !waking:
			return nil, ch.frozenLocked(p)
		}
	} else if p&ManageChannels == 0 {
		return nil, missingPermissions()
	}
	set(&ch.name, in.Name)
	set(&ch.topic, in.Topic)
	if in.Archived != nil && ch.archived != *in.Archived {
		ch.archivedAt = time.Now()
	}
	set(&ch.archived, in.Archived)
	set(&ch.locked, in.Locked)
	ch.updatedLocked()
	return ch.wireLocked(c.viewLocked()), nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

const maxName = 100

func badName(name string) bool {
	n := utf8.RuneCountInString(strings.TrimSpace(name))
	return n < 1 || n > maxName
}

// updatedLocked offers the event about a changed channel.
func (c *Channel) updatedLocked() {
	kind := "CHANNEL_UPDATE"
	if c.isThread() {
		kind = "THREAD_UPDATE"
	}
	c.announceLocked(kind, IntentGuilds, c.wireLocked)
}

// deleteChannel handles RouteDeleteChannel. A direct message channel is only
// closed, which changes nothing.
func deleteChannel(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	need := ManageChannels
	if ch != nil && ch.isThread() {
		need = ManageThreads
	}
	switch {
	case err != nil:
		return nil, err
	case ch.guild == nil:
	case p&need == 0:
		return nil, missingPermissions()
	default:
		ch.removeLocked()
	}
	return ch.wireLocked(c.viewLocked()), nil
}
