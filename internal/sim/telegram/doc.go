// Package telegram implements a Telegram Bot API server for tests,
// demonstrations and benchmarks. Unmodified bot libraries connect to it over a
// loopback address or in memory. The methods of User and Chat act for people. A
// Recorder records everything that happens on the server side, so that tests do
// not have to trust the bot.
//
// # Guarantees
//
// Updates follow the rules of the real server:
//
//	offered ──▶ pending ──▶ delivered ──▶ confirmed
//	               ▲            │   (a later getUpdates with a higher offset,
//	               └────────────┘    or a 2xx answer of the webhook)
//
// An update stays pending until an offset above its ID confirms it or 24 hours
// have passed. A negative offset drops all but the last updates. An offset more
// than ten above the next ID, or far below it, confirms nothing and reads from
// the beginning. Only one poll waits at a time: a second one that has to wait
// ends the first with 409. A webhook and getUpdates exclude each other. The
// update IDs of each bot start at their own value and restart at any value
// after a week without updates (or immediately, by Bot.Reseed).
//
// Calls have the effects and errors of the real server, with Telegram's
// descriptions: lengths in UTF-16 units, parse modes, entities, topics,
// replies, membership, edits, deletes, files, keyboards, reactions and rate
// limits. An unknown method is answered with 404.
//
// Faults are injected with Server.Inject and recorded with the call to which
// they were applied, so that a test knows whether the call had its effect.
//
// # Limitations
//
// Nothing is stored on disk. Only the people and bots that a test adds exist.
// Inline mode, payments, games, stories, business accounts and sticker sets are
// left out.
//
// All methods may be called from any goroutine. Time comes from package time,
// so a server made inside a testing/synctest bubble uses the time of that
// bubble.
package telegram
