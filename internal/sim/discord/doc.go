// Package discord implements a simulator of Discord for tests, demonstrations
// and benchmarks: REST API, gateway and file store in one server. Unmodified
// bot libraries connect to it over a loopback address or in memory. The methods
// of User, Guild and Channel act for people. A Recorder records everything that
// happens on the server side, so that tests do not have to trust the bot.
//
// # Connecting
//
// One server serves all hosts and paths of Discord, so that a client keeps its
// addresses and only its connections are redirected:
//
//	s := discord.New(discord.Options{})
//	defer s.Close()
//	bot := s.AddBot(discord.BotOptions{})
//	web := discord.Transport(s.Dial)   // or s.DialLoopback after s.Start
//	client, _ := discordgo.New("Bot " + bot.Token())
//	client.Client = &http.Client{Transport: web}
//	client.Dialer = discord.Websocket(s.Dial)
//
// A client that uses another host name than Discord's, such as the URL that
// Start returns, gets gateway and file addresses with that name.
//
// # Guarantees
//
// Events follow the rules of the gateway:
//
//	offered ──▶ in the session ──▶ delivered ──▶ acked
//	   │            ▲    │        (a heartbeat or resume acknowledges it)
//	   │            └────┘ RESUME within the window, while the buffer has the event
//	   └──▶ missed: no session; only the history of the channel contains it
//
// A session survives a cut and can be resumed for ResumeWindow; a close with
// 1000 or 1001 by the client ends it. Every session of a bot receives every
// event for which it has the intent. Without the message content intent
// contents are hidden, except in direct messages, mentions and the bot's own
// messages.
//
// Calls have the effects and errors of the real server in Discord's format:
// lengths in code points, nonces with enforce_nonce, replies, mentions,
// permissions, archived and locked threads, one thread per message, forum
// posts, commands, interactions with their deadlines of 3 s and 15 min,
// attachments with URLs that expire, rate limits with their headers, and the
// ban after too many invalid requests. An unknown route is answered with 404.
//
// Faults of the REST API are injected with Server.Inject and recorded with the
// call to which they were applied, so that a test knows whether the call had
// its effect. Faults of the gateway are CutAll, Swallow, Reconnect, Invalidate,
// CloseAll and ForgetSessions; Down and Up take the whole server off the
// network and back.
//
// # Limitations
//
// Nothing is stored on disk. Only the people and bots that a test adds exist.
// Compression, more than one shard, voice, channel webhooks, autocomplete,
// modals, polls, stickers, components of version 2, audit logs and moderation
// are left out. Threads are archived only by calls. A nonce is sent to its
// sender when the message is created and is never part of the history.
//
// IDs contain the time only after 2015. A testing/synctest bubble begins in the
// year 2000: its IDs only count up, unless the bubble first advances the time.
//
// In a bubble the clock stops while a goroutine waits for a mutex. discordgo
// sleeps while it holds locks: for 1 s in Close (the lock of the session), and
// for a rate limit or until the answer arrives in every request (the lock of
// the bucket). A goroutine that waits for such a lock meanwhile stops the
// bubble: a second request of the same route and channel, or a cut before the
// first heartbeat of a connection.
//
// All methods may be called from any goroutine. Time comes from package time,
// so a server made inside a bubble uses the time of that bubble.
package discord
