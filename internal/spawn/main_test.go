package spawn_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// attackVariable is set for this program when it runs in a sandbox as an attacker.
const attackVariable = "SPAWN_TEST_ATTACK"

func TestMain(m *testing.M) {
	if targets := os.Getenv(attackVariable); targets != "" {
		os.Exit(runAttacks(targets))
	}
	goleak.VerifyTestMain(m)
}
