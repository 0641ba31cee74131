// Package telegram is a Telegram Bot API server for tests, demonstrations and
// benchmarks. Unchanged bot libraries talk to it over a loopback address or in
// memory; people are played by the methods of User and Chat; everything that
// happens is written into a ledger that belongs to the server and therefore
// judges the bot from outside.
//
// # What it promises
//
// Updates follow the rules of the real server:
//
//	offered ──▶ pending ──▶ delivered ──▶ confirmed
//	               ▲            │   (a later getUpdates with a higher offset,
//	               └────────────┘    or a 2xx answer of the webhook)
//
// An update stays pending until an offset above its id confirms it or 24 hours
// have passed; a negative offset forgets all but the last ones; an offset that
// lies more than ten above the next id, or far below it, confirms nothing and
// reads from the beginning. One poll waits at a time: a second one that has to
// wait ends the first with 409. A webhook and getUpdates exclude each other.
// The ids of a bot start at a place of their own and start anew, anywhere,
// after a quiet week (or at once, by Bot.Reseed).
//
// Calls have the real effects and the real refusals: lengths in UTF-16 units,
// parse modes, entities, topics, replies, membership, edits, deletes, files,
// keyboards, reactions and rate limits, with the descriptions that Telegram
// gives. A method that the server does not know is answered 404.
//
// Faults happen on demand (Server.Inject) and are recorded with the call that
// they hit, so that a test knows whether the call had its effect.
//
// # What it does not do
//
// Nothing is kept on disk; nobody but the given people and bots exists;
// inline mode, payments, games, stories, business accounts and sticker sets
// are left out.
//
// All methods may be called side by side. Time is the time of package time, so
// a server made inside a synctest bubble runs in that bubble's time.
package telegram
