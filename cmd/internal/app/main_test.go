package app_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/brv"
)

// TestMain lets more tests run in parallel than there are processors.
func TestMain(m *testing.M) {
	if address := os.Getenv(listenVariable); address != "" {
		listen(address)
	}
	if brv.Called() {
		brv.Main()
	}
	flag.Parse()
	if err := os.Setenv("SOME_PROVIDER_API_KEY", "sk-nobody-else-sees-this"); err != nil { // a command of the agent looks for it
		panic(err)
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
