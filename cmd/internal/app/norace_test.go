//go:build !race

package app_test

// longTurns is the number of turns of the long conversation.
const longTurns = 200

// parallel is the number of daemons that run at once: they mostly wait. With more of them
// each one takes so long that timeouts end what does not hang.
const parallel = "16"
