package delivery

import (
	"context"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

// A Store stores the rows of the outbox, one queue per address. When a method
// returns without an error its change is on disk.
type Store interface {
	// Enqueue adds rows, in order, and returns them with their IDs. The first
	// row of a queue that is otherwise empty is registered as attempted in the
	// same transaction.
	Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error)
	// Next returns the first row of an address's queue, with an attempt registered
	// for it: now, or in the transaction that wrote it. ok is false if the queue is
	// empty or its first row is not due; in the latter case wait is the time until it
	// is.
	Next(ctx context.Context, to chat.Address) (r outbox.Row, wait time.Duration, ok bool, err error)
	// Settle stores the result of an attempt. If the queue's next row is due, its
	// attempt is registered in the same transaction and Next returns it without
	// another write.
	Settle(ctx context.Context, s outbox.Settlement) error
	// Row returns one row.
	Row(ctx context.Context, id outbox.ID) (outbox.Row, error)
	// Queues returns the addresses with rows that are not terminal.
	Queues(ctx context.Context) ([]chat.Address, error)
}
