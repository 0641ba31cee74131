package doctor_test

import (
	"net/http"
	"testing"

	"hermesd/cmd/internal/doctor"
	sim "hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/mem0"
)

func TestExternalMemory(t *testing.T) {
	p := newHarness(t)
	p.put("config.yaml", "memory:\n  provider: holographic\n")
	p.requireFinding(doctor.OK, "external memory", "Holographic is configured")
	p.put("config.yaml", "memory:\n  provider: mem0\n")
	p.put("mem0.json", `{"mode":"oss"}`)
	p.requireFinding(doctor.Error, "external memory", "set host, or set mode platform")
}

// With --online the provider is asked.
func TestExternalMemoryOnline(t *testing.T) {
	p := newHarness(t)
	p.o.Online, p.o.Ping = true, doctor.Ping
	s := mem0.New(mem0.Options{Own: true, Keys: []string{"right"}})
	p.must(s.Start())
	t.Cleanup(s.Close)
	p.put("config.yaml", "memory:\n  provider: mem0\n")
	p.put("mem0.json", `{"host":"`+s.URL+`","api_key":"wrong"}`)
	p.requireFinding(doctor.Error, "external memory", "HTTP 401")
	p.put("mem0.json", `{"host":"`+s.URL+`","api_key":"right"}`)
	p.requireFinding(doctor.OK, "external memory", "Mem0 answers")
	s.Inject(sim.Fault{Kind: sim.Refuse, Status: http.StatusInternalServerError, Times: -1})
	p.requireFinding(doctor.Error, "external memory", "HTTP 500")
	p.put("mem0.json", `{"host":"http://mem0.example:1","api_key":"right"}`)
	p.o.Online = false
	p.requireFinding(doctor.Warning, "external memory", "without encryption")
}
