// Package delivery renders, splits, streams, edits and retries what the daemon says.
package delivery

import (
	"context"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// A Store keeps the rows of the outbox, one queue per address. What a method
// reports as done is on disk.
type Store interface {
	// Enqueue adds rows, in order, and returns them with their ids. The first
	// row of a queue that is otherwise empty is registered as attempted in the
	// same transaction.
	Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error)
	// Next returns the row at the head of an address's queue, with an attempt
	// registered for it: now, or in the transaction that wrote it. If the head is
	// not due yet, wait says for how long; ok is false if the queue is empty or
	// its head is not due.
	Next(ctx context.Context, to chat.Address) (r outbox.Row, wait time.Duration, ok bool, err error)
	// Settle records what an attempt came to. If the queue's next row is due, its
	// attempt is registered in the same transaction and Next returns it without
	// another write.
	Settle(ctx context.Context, s outbox.Settlement) error
	// Row returns one row.
	Row(ctx context.Context, id outbox.ID) (outbox.Row, error)
	// Queues returns the addresses that have rows which are not terminal.
	Queues(ctx context.Context) ([]chat.Address, error)
}
