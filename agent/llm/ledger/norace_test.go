//go:build !race

package ledger_test

// manyTurns is how long the long conversation is.
const manyTurns = 200
