// Package bolt implements all stores of the daemon in one bbolt file.
//
// The main type is [Store]; its methods may be called from any goroutine. The
// package neither creates nor locks the home directory: see package storage.
//
// # Writing
//
// One goroutine writes. Callers submit operations and wait; the writer takes all
// pending operations, runs them in one transaction and answers them after the
// fsync of the commit. Nothing is delayed to make a group larger: while one commit
// is in progress the next group accumulates.
//
//	Accept ─┐
//	Claim  ─┼─► pending ─► one transaction ─► fsync ─► mirror ─► answers
//	Settle ─┘
//
// A rejected operation (a stale claim) has written nothing. An operation that fails
// after it has written something fails alone: the group runs again without it. If
// the commit fails, all operations fail. As long as the newest meta page that can be
// read is that of the commit before, nothing was stored: the store stays usable and
// recovers by itself as soon as the disk does. Otherwise it is not known whether the
// commit survives a power cut, and the store writes nothing more until it is opened
// again, which begins with a commit of its own: see Options.OnUnknown.
//
// # Records
//
// A value is one version byte, the CRC-32C of bucket, key and content, and the
// content. Reading a damaged value returns an error that names the record. Where
// the record would block a queue, its bytes are moved to bucket damaged and the
// record is ended, so that the queue continues.
//
//	entries      id                  every accepted event
//	lanes        lane, id            unfinished entries: state and turn
//	keys, ages   account+key, id     known idempotency keys and their age
//	turns, steps turn, turn+n        claims and the steps they have completed
//	rows         id                  every outbound message
//	queues       address, id         rows that are not terminal
//	dead         id                  dead letters
//	jobs, slots  id, job+time        jobs and their occurrences
//	events       queue, id           events for outside services
//	eventindex   kind, ...           the keys, groups and due times of the events
//	sessions, prompts, current, recent, transcripts, moved, values, meta
//
// The buckets events and eventindex exist since the first event. The index says of each
// event its place in its group, and orders the first waiting events of the groups by
// their due time. A damaged event, or entry of the index, has the index built again.
//
// Opening reads only lanes, queues, dead and eventindex, so its duration depends on the number
// of unfinished records and not on the number of stored ones.
//
// # Memory
//
// A mirror of the unfinished records is kept in memory: counts per lane, the head of
// each queue, counts per queue of events and the first waiting event of each group. It changes after the commit, never before. Transcripts are
// not cached.
package bolt
