//go:build !race

package app_test

// days is how many turns the long conversation has.
const days = 200

// parallel is how many daemons run at once: they mostly wait.
const parallel = "100"
