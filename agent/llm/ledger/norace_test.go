//go:build !race

package ledger_test

// manyTurns is the number of turns of the long conversation.
const manyTurns = 200
