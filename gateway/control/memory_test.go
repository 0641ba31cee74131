package control_test

import (
	"errors"
	"strings"
	"testing"

	"hermesd/gateway/access"
	externalmemory "hermesd/gateway/memory"
)

func TestMemoryCommandSaysWhyTheProviderCannotBeUsed(t *testing.T) {
	w := newHarness(t)
	c := call("/memory")
	c.Principal.Level = access.Owner
	if got := w.run(c).Text; strings.Contains(got, "External memory") {
		t.Errorf("without a provider: %q", got)
	}
	w.parts.Runtime.Memory = externalmemory.Unusable("mem0", errors.New("mode oss runs only inside Python"))
	if got := w.run(c).Text; !strings.Contains(got, "**External memory** (mem0)") || !strings.Contains(got, "mode oss runs only inside Python") {
		t.Errorf("got %q", got)
	}
}
