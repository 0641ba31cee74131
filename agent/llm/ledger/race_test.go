//go:build race

package ledger_test

// manyTurns is how long the long conversation is. The race detector makes the
// service's JSON ten times slower and learns nothing from more of it.
const manyTurns = 40
