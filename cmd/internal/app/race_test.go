//go:build race

package app_test

// days is how many turns the long conversation has. The race detector makes it
// slow, and finds nothing more in a longer one.
const days = 50
