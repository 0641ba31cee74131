package cmdpolicy_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/cmdpolicy"
)

//go:embed testdata/addresses.txt
var addressCorpus string

// A command that names an address that is not public needs an approval, however the address
// is written.
func TestCommandsWithAddresses(t *testing.T) {
	n := 0
	for line := range strings.Lines(addressCorpus) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		want, command, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("no tab in %q", line)
		}
		n++
		switch r := cmdpolicy.Evaluate(command, cmdpolicy.Place{}); {
		case want != "-" && r.Decision == cmdpolicy.Run:
			t.Errorf("%s runs, want an approval for %s", command, want)
		case want == "-" && slices.Contains(r.Rules, "address"):
			t.Errorf("%s asks for %q", command, r.Details)
		}
	}
	if n < 200 {
		t.Errorf("the corpus has %d commands", n)
	}
}

func TestApprovalOfAddressCoversOnlyIt(t *testing.T) {
	at := cmdpolicy.Place{Dir: "/w", Listening: func(port uint16) bool { return port == 8000 }}
	for command, want := range map[string]string{
		"curl http://10.0.0.5/a": "curl 10.0.0.5:80 in /w", "wget http://0xA000005": "wget 10.0.0.5:80 in /w", "curl -s http://10.0.0.5:81/a": "curl 10.0.0.5:81 in /w", "ping 10.0.0.5": "ping 10.0.0.5 in /w",
		"curl http://localhost:8000/x": "", "curl http://localhost:8001/x": "curl localhost:8001 in /w", "curl http://8.8.8.8": "",
	} {
		r := cmdpolicy.Evaluate(command, at)
		if got := strings.Join(r.Shapes, "\n"); got != want || (want == "") != (r.Decision == cmdpolicy.Run) {
			t.Errorf("%s: %s, shapes %q, want %q", command, r.Decision, got, want)
		}
	}
}
