// Package schedule decides when stored prompts (jobs) are due and records every
// instant at which one was. A Manager creates and changes jobs; a Scheduler passes
// due occurrences to a Runner. Both may be used from any goroutine. The package
// runs no agent turn: the Runner is the gateway, and a Store keeps all state.
//
// # Occurrences
//
// An occurrence is one instant at which one job is due. It is a record and not a
// timer:
//
//	                  ┌─► running(entry) ─► ran(ok | failed)
//	occurrence due ───┼─► skipped(reason)   the previous run was still running, ...
//	                  └─► missed(reason)    the daemon was down
//
// There is at most one record per job and instant. Running is written in the
// transaction that accepts the run's entry into the inbox, ran in the transaction
// that ends the entry. The process can therefore be killed at any point: the next
// process decides an occurrence without a record and continues the entry of a
// running one, and no occurrence runs twice.
//
// # Clocks
//
// The Scheduler compares the wall clock with the due times at every tick and trusts
// no timer for longer than a tick. If the clock jumps forward, the occurrences in
// between are treated as if the daemon had been down; if it jumps back, those that
// have a record do not run again.
//
// A job's schedule always yields the same instants. On days on which a zone changes
// its clock, a wall time that does not exist is due at the first instant after it,
// and one that exists twice is due once, the first time.
//
// # Changes to jobs
//
// All changes go through the Manager: the tool, the command line and the chat
// command use it.
package schedule
