package app_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/spawn"
)

// TestMain lets all faults be played side by side: they wait far more than they
// work.
func TestMain(m *testing.M) {
	spawn.Main() // the sandbox of the terminal begins with this program
	flag.Parse()
	if err := os.Setenv("SOME_PROVIDER_API_KEY", "sk-nobody-else-sees-this"); err != nil { // looked for by a command of the agent
		panic(err)
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
