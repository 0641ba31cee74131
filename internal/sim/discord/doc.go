// Package discord is a Discord for tests, demonstrations and benchmarks: REST
// interface, gateway and file store in one server. Unchanged bot libraries talk
// to it over a loopback address or in memory; people are played by the methods
// of User, Guild and Channel; everything that happens is written into a ledger
// that belongs to the server and therefore judges the bot from outside.
//
// # Ways to it
//
// All hosts and paths of Discord are served by one server, so that a client
// keeps its addresses and only its connections are led here:
//
//	s := discord.New(discord.Options{})
//	defer s.Close()
//	bot := s.AddBot(discord.BotOptions{})
//	web := discord.Transport(s.Dial)   // or s.DialLoopback after s.Start
//	client, _ := discordgo.New("Bot " + bot.Token())
//	client.Client = &http.Client{Transport: web}
//	client.Dialer = discord.Websocket(s.Dial)
//
// A client that comes by another name than Discord's, such as the URL that
// Start returns, is given gateway and file addresses of that name.
//
// # What it promises
//
// Events follow the rules of the gateway:
//
//	offered ──▶ in the session ──▶ delivered ──▶ acked
//	   │            ▲    │        (a heartbeat or resume counts it in)
//	   │            └────┘ RESUME within the window, while the buffer reaches back
//	   └──▶ missed: nobody was there, only the channel's history can tell
//
// A session lives through a cut and can be resumed for ResumeWindow; a close
// with 1000 or 1001 by the client ends it. Every session of a bot hears every
// event for which it has the intent. Contents are withheld without the message
// content intent, but for direct messages, mentions and the bot's own.
//
// Calls have the real effects and the real refusals in Discord's shape: lengths
// in code points, nonces with enforce_nonce, replies, mentions, permissions,
// archived and locked threads, one thread for a message, forum posts, commands,
// interactions with their deadlines of 3 s and 15 min, attachments whose URLs
// expire, rates with their headers, the ban after too many invalid requests. A
// route that the server does not know is answered 404.
//
// Faults of the REST interface happen on demand (Server.Inject) and are
// recorded with the call that they hit, so that a test knows whether the call
// had its effect. Faults of the gateway are CutAll, Swallow, Reconnect,
// Invalidate, CloseAll and ForgetSessions; Down and Up take the whole server
// away and bring it back.
//
// # What it does not do
//
// Nothing is kept on disk; nobody but the given people and bots exists.
// Compression, shards beyond one, voice, webhooks of channels, autocomplete,
// modals, polls, stickers, components of the second version, audit logs and
// moderation are left out. Threads are archived only by hand. A nonce is told
// to its sender when the message is made and never in the history.
//
// Ids carry the time only after 2015. A bubble of testing/synctest begins in
// the year 2000: its ids only count up, unless it first lets the time pass.
//
// In a bubble the clock stands while a goroutine waits for a mutex. discordgo
// sleeps with locks in its hand: for 1 s in Close (the session), and for a rate
// limit, or until the answer comes, in every request (its bucket). Whatever
// waits for such a lock meanwhile stops the bubble: a second request of the
// same route and channel, a cut before the first heartbeat of a connection.
//
// All methods may be called side by side. Time is the time of package time, so
// a server made inside a bubble runs in that bubble's time.
package discord
