//go:build race

package app_test

// longTurns is the number of turns of the long conversation. The race detector makes it
// slow and finds nothing more in a longer one.
const longTurns = 50
