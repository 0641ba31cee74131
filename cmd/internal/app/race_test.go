//go:build race

package app_test

// longTurns is the number of turns of the long conversation. The race detector makes it
// slow and finds nothing more in a longer one.
const longTurns = 50

// parallel is the number of daemons that run at once: the race detector multiplies
// the work of each by ten.
const parallel = "8"
