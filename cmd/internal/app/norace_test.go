//go:build !race

package app_test

// days is how many turns the long conversation has.
const days = 200
