// Package slack implements a simulator of Slack for tests, demonstrations and
// benchmarks: workspaces, Socket Mode and the Web API. Unmodified client
// libraries connect to it over a loopback address or in memory. The methods of
// Channel and User act for people. A Recorder records everything that happens on
// the server side, so that tests do not have to trust the app.
//
// # Guarantees
//
// Events follow the rules of Socket Mode:
//
//	offered ──▶ sent in an envelope ──▶ acknowledged
//	               ▲            │   (envelope_id, within 3 s, on the same socket)
//	               └────────────┘
//	   a new envelope_id, the same event_id, retry_attempt 1, 2, 3
//	   1 s, 1 min, 5 min after the failure; then the event is lost
//
// An event is sent to one of the open sockets. If none is open, the delivery
// fails immediately, and the app can get the event only by a retry. Slash
// commands and button presses are sent once; if the app does not acknowledge,
// the person sees an error. An app has at most ten sockets, each opened with a
// URL that works once. Before a socket is closed, the app may get a disconnect
// message and a grace period. Pings are sent every ten seconds.
//
// A message that mentions a bot results in a message event and an app_mention
// event, with two event IDs and the same ts. An app receives its own messages,
// edits and deletes as events, as on Slack. A ts is unique in its channel and
// increases.
//
// Calls have the effects and errors of Slack, as {"ok": false, "error": …}:
// tokens, scopes, membership, lengths, blocks, metadata, threads, edits,
// histories with bounds and cursors, file uploads in three steps, response
// URLs, and rate limits by channel and tier with 429 and Retry-After. An
// unknown method is answered with unknown_method.
//
// Faults are injected with Server.Inject for calls, App.Spoil for envelopes,
// and App.Cut, App.Swallow, App.Disconnect and Server.Down for connections.
//
// # Usage
//
//	s := slack.New(slack.Options{})             s.Start() or s.Client() and s.Dialer()
//	team := s.AddTeam("Acme")                   any number
//	app := s.AddApp(slack.AppOptions{})         app.Token() is the xapp token
//	bot := app.Install(team)                    bot.Token() is the xoxb token
//	ann := team.AddUser(slack.Person{})         ann.DM(bot), ann.OpenAssistant(bot)
//	room := team.AddChannel(…)                  members: ann, bot.User()
//	room.Say(ann, …), Reply, Post, Edit, Delete, Upload, React, Slash, Press, Forge, Join
//	room.WaitText(ctx, …), FromBots, Thread, Ephemeral, Status
//	s.Recorder().Offers(), Calls(), Links(), Counts(), WaitFor; slack.Judge{}.Judge(s)
//
// # Limitations
//
// Nothing is stored on disk. OAuth, HTTP delivery of events, views, streams,
// workflows, shared channels, user tokens and Enterprise Grid are left out.
// Where Slack's documentation does not specify a behavior, comments in the code
// name the choice: whether an acknowledgement on another socket counts
// (Options.AckAnySocket), how long the URL of a socket can be used, and how the
// length of block texts is counted.
//
// All methods may be called from any goroutine. Time comes from package time,
// so a server made inside a testing/synctest bubble uses the time of that
// bubble. A bubble that contains a server with an open socket never becomes
// permanently idle, because pings continue.
package slack
