// Package bolt keeps everything of the daemon in one bbolt file.
//
// # Writing
//
// One goroutine writes. Callers hand it operations and wait; it takes all that
// have gathered, runs them in one transaction and answers them after the
// commit's fsync. Nothing is delayed to make a group larger: while one commit is
// under way the next group gathers.
//
//	Accept ─┐
//	Claim  ─┼─► gathered ─► one transaction ─► fsync ─► mirror ─► answers
//	Settle ─┘
//
// An operation that is refused (a stale claim) has written nothing. One that
// meets an error half-way fails alone: the group runs again without it. If the
// commit fails, all fail, the file is put back to what it was before and opened
// again; the store stays usable and mends itself when the disk does.
//
// # Records
//
// A value is one version byte, the CRC-32C of bucket, key and content, and the
// content. A damaged one is an error that names the record. Where it would
// block a queue it is set aside (bucket damaged) and ended, so that what stands
// behind it goes on.
//
//	entries      id                  every accepted event
//	lanes        lane, id            those that are not done: state and turn
//	keys, ages   account+key, id     what was accepted before, and when
//	turns, steps turn, turn+n        claims and what they have completed
//	rows         id                  every outbound message
//	queues       address, id         those that are not terminal
//	dead         id                  dead letters
//	jobs, slots  id, job+time        scheduled prompts, and when they were due
//	sessions, prompts, current, recent, transcripts, moved, values, meta
//
// At open only lanes, queues and dead are read, so the time to start depends on
// what is not done and not on what is kept.
//
// # Memory
//
// A mirror of what is not done is kept: counts per lane and the head of each
// queue. It changes after the commit, never before. Transcripts are not cached.
package bolt
