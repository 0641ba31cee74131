//go:build !race

package app_test

// longTurns is the number of turns of the long conversation.
const longTurns = 200
