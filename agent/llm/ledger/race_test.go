//go:build race

package ledger_test

// manyTurns is the number of turns of the long conversation. The race detector makes the
// simulator's JSON ten times slower, and more turns would not find more.
const manyTurns = 40
