package spawn_test

import (
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/spawn"
)

func TestMain(m *testing.M) {
	spawn.Main()
	goleak.VerifyTestMain(m)
}
