//go:build race

package app_test

// days is how many turns the long conversation has. The race detector makes it
// slow, and finds nothing more in a longer one.
const days = 50

// parallel is how many daemons run at once: the race detector makes each ten times as much work.
const parallel = "16"
