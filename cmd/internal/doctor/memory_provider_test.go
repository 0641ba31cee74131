package doctor_test

import (
	"testing"

	"hermesd/cmd/internal/doctor"
)

func TestExternalMemory(t *testing.T) {
	p := newHarness(t)
	p.put("config.yaml", "memory:\n  provider: holographic\n")
	p.requireFinding(doctor.OK, "external memory", "Holographic is configured")
	p.put("config.yaml", "memory:\n  provider: mem0\n")
	p.put("mem0.json", `{"mode":"oss"}`)
	p.requireFinding(doctor.Error, "external memory", "set host, or set mode platform")
}
