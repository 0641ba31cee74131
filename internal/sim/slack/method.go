package slack

import "strings"

// tierChannel marks methods that are limited per channel.
const tierChannel = 0

// A method is a method of the Web API.
type method struct {
	run     func(*call) (obj, *apiError) // called under s.mu
	scope   string                       // scope that the token needs; of several, separated by commas, one is enough
	tier    int
	appOnly bool // needs the app-level token
	history bool
}

func methodTable() map[string]method {
	return map[string]method{
		"apps.connections.open": {run: connectionsOpen, appOnly: true},

		"auth.test": {run: authTest, tier: 4},

		"chat.postMessage":   {run: postMessage, scope: "chat:write", tier: tierChannel},
		"chat.postEphemeral": {run: postEphemeral, scope: "chat:write", tier: 4},
		"chat.update":        {run: updateMessage, scope: "chat:write", tier: 3},
		"chat.delete":        {run: deleteMessage, scope: "chat:write", tier: 3},

		"conversations.history": {run: history, scope: anyOf("history"), tier: 3, history: true},
		"conversations.replies": {run: replies, scope: anyOf("history"), tier: 3, history: true},
		"conversations.info":    {run: conversationInfo, scope: anyOf("read"), tier: 3},
		"conversations.list":    {run: conversationList, scope: anyOf("read"), tier: 2},
		"conversations.members": {run: conversationMembers, scope: anyOf("read"), tier: 4},
		"conversations.open":    {run: conversationOpen, scope: "im:write,mpim:write", tier: 3},

		"users.info": {run: userInfo, scope: "users:read", tier: 4},
		"users.list": {run: userList, scope: "users:read", tier: 2},

		"reactions.add":    {run: reactionAdd, scope: "reactions:write", tier: 3},
		"reactions.remove": {run: reactionRemove, scope: "reactions:write", tier: 2},

		"files.getUploadURLExternal":   {run: uploadURL, scope: "files:write", tier: 4},
		"files.completeUploadExternal": {run: completeUpload, scope: "files:write", tier: 4},
		"files.info":                   {run: fileInfo, scope: "files:read", tier: 4},

		"assistant.threads.setStatus": {run: setStatus, scope: "assistant:write,chat:write", tier: 4},
	}
}

func anyOf(verb string) string {
	return "channels:" + verb + ",groups:" + verb + ",mpim:" + verb + ",im:" + verb
}

// dispatchLocked checks token, scope and rate limit, and runs the method.
func (c *call) dispatchLocked() (obj, *apiError) {
	switch c.method {
	case MethodUpload:
		return c.takeUploadLocked()
	case MethodDownload:
		return c.downloadLocked()
	case MethodReply:
		return c.replyLocked()
	case methodPage:
		return c.pageLocked()
	}
	m, ok := c.s.methods[c.method]
	if !ok {
		return nil, refuse("unknown_method")
	}
	if refused := c.tokenLocked(m); refused != nil {
		return nil, refused
	}
	if m.appOnly {
		return m.run(c)
	}
	if refused := c.needLocked(m.scope); refused != nil {
		return nil, refused
	}
	if refused := c.s.chargeLocked(c.bot, c.method, c.str("channel"), m); refused != nil {
		return nil, refused
	}
	return m.run(c)
}

func (c *call) tokenLocked(m method) *apiError {
	switch {
	case c.req.token == "":
		return refuse("not_authed")
	case c.app == nil:
		return refuse("invalid_auth")
	case m.appOnly && c.bot != nil, !m.appOnly && c.bot == nil:
		return refuse("not_allowed_token_type")
	case m.appOnly && c.app.opts.NoSocketScope:
		return &apiError{code: "missing_scope", needed: "connections:write", provided: "authorizations:read"}
	case c.bot != nil && c.bot.refused != "":
		return refuse(c.bot.refused)
	}
	return nil
}

// needLocked refuses the call if the token has none of the scopes.
func (c *call) needLocked(scopes string) *apiError {
	if scopes == "" {
		return nil
	}
	for _, scope := range strings.Split(scopes, ",") {
		if c.bot.hasLocked(scope) {
			return nil
		}
	}
	return &apiError{code: "missing_scope", needed: scopes, provided: strings.Join(c.bot.scopes, ",")}
}

func authTest(c *call) (obj, *apiError) {
	return obj{
		"url": "https://" + c.bot.team.domain + ".slack.test/", "team": c.bot.team.name, "user": c.bot.user.person.Name,
		"team_id": c.bot.team.id, "user_id": c.bot.user.ID(), "bot_id": c.bot.botID, "is_enterprise_install": false,
	}, nil
}
