// Package slack is Slack for tests, demonstrations and benchmarks: workspaces,
// Socket Mode and the Web API. Unchanged client libraries talk to it over a
// loopback address or in memory; people are played by the methods of Channel and
// User; everything that happens is written into a ledger that belongs to the
// server and therefore judges the app from outside.
//
// # What it promises
//
// Events follow the rules of Socket Mode:
//
//	offered ──▶ sent in an envelope ──▶ acknowledged
//	               ▲            │   (envelope_id, within 3 s, on the same socket)
//	               └────────────┘
//	   a new envelope_id, the same event_id, retry_attempt 1, 2, 3
//	   1 s, 1 min, 5 min after the failure; then the event is lost
//
// An event goes to one of the open sockets. With none open the delivery fails at
// once, and the retries are all that the app will see. Slash commands and button
// presses are sent once; if nobody acknowledges, the person sees an error. An app
// has at most ten sockets, each from a URL that works once; it is told to leave
// (disconnect) with a grace, or is not told. Pings come every ten seconds.
//
// A message that mentions a bot comes as message and as app_mention, with two
// event ids and one ts. An app's own messages, edits and deletes come back to it
// as events, as Slack sends them. A ts is unique in its channel and grows.
//
// Calls have the real effects and the real refusals, as {"ok": false, "error":
// …}: tokens, scopes, membership, lengths, blocks, metadata, threads, edits,
// histories with bounds and cursors, files in three steps, response URLs, rates
// by channel and tier with 429 and Retry-After. A method that the server does not
// know is unknown_method.
//
// Faults happen on demand: Server.Inject for calls, App.Spoil for envelopes,
// App.Cut, App.Swallow, App.Disconnect and Server.Down for connections.
//
// # How a test uses it
//
//	s := slack.New(slack.Options{})             s.Start() or s.Client() and s.Dialer()
//	team := s.AddTeam("Acme")                   as many as you like
//	app := s.AddApp(slack.AppOptions{})         app.Token() is the xapp token
//	bot := app.Install(team)                    bot.Token() is the xoxb token
//	ann := team.AddUser(slack.Person{})         ann.DM(bot), ann.OpenAssistant(bot)
//	room := team.AddChannel(…)                  members: ann, bot.User()
//	room.Say(ann, …), Reply, Post, Edit, Delete, Upload, React, Slash, Press, Forge, Join
//	room.WaitText(ctx, …), FromBots, Thread, Ephemeral, Status
//	s.Ledger().Offers(), Calls(), Links(), Counts(), WaitFor; slack.Judge{}.Judge(s)
//
// # What it does not do
//
// Nothing is kept on disk. OAuth, HTTP delivery of events, views, streams,
// workflows, shared channels, user tokens and Enterprise Grid are left out. Where
// Slack's documents are silent the code says what it chose: whether an
// acknowledgement on another socket counts (Options.AckAnySocket), how long a
// socket's URL can be used, how the texts of blocks are summed up.
//
// All methods may be called side by side. Time is the time of package time, so a
// server made inside a synctest bubble runs in that bubble's time. A bubble that
// holds a server with an open socket never stands still for good: pings go on.
package slack
