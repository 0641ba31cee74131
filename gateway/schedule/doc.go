// Package schedule decides when scheduled prompts are due, and keeps account of
// every instant at which one was.
//
// # Slots
//
// A slot is one instant at which one job is due. It is a record and not a timer:
//
//	            ┌─► running(entry) ─► ran(ok | failed)
//	slot due ───┼─► skipped(reason)   the run before still went on, ...
//	            └─► missed(reason)    the daemon was down
//
// There is at most one record for a job and an instant. Running is written in
// the transaction that accepts the run's entry into the inbox, ran in the
// transaction that ends the entry. So a process can be killed anywhere: a slot
// without a record is decided by the next process, one that is running goes on
// with its entry, and none runs twice.
//
// # Clocks
//
// The Scheduler asks the wall clock what is due, again and again, and trusts no
// timer for longer than a tick. If the clock jumps forward the slots in between
// are treated as after a time in which the daemon was down; if it jumps back
// those that have a record do not run again.
//
// A job's schedule yields the same instants for ever. On the days on which a zone
// changes its clock a wall time that does not exist is due at the first instant
// after it, and one that exists twice is due once, the first time.
//
// # Who does what
//
// Book is the one place in which jobs are made and changed: the tool, the
// command line and the slash command all use it. The Scheduler hands due slots to
// a Runner, which is the gateway; a Store keeps everything.
package schedule
