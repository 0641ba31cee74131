package injection_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermesd/agent/injection"
)

// processorTime returns the time for which this thread has run. Other load on the
// machine does not count.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Adversarial texts take no longer than others.
func TestScanTakesLinearTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, unit := range []string{
		"ignore ", "ignore previous ", "<!--", "<!-- -->", "<!-- ignore instructions", "<div ", "<div style=", "curl ", "|curl ", "curl $(", "`", "``` \n",
		"a ", "a  b", ".env ", ".env", "/", "$a_key ", "\u200B", "👩\u200D", "you no limits ", "忽略之前", "not ", "\"attack ", "[system", "\n\n", "env|curl\n",
	} {
		text := strings.Repeat(unit, 50_000/len(unit))
		start := processorTime(t)
		injection.Scan(text)
		if took := processorTime(t) - start; took > 2*time.Second {
			t.Errorf("%q: %v", unit, took)
		}
	}
}
