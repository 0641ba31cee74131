package app

import (
	"cmp"
	"strings"
	"sync"

	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/retry"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// models are those that sessions may be answered by: the configured one, its
// fallbacks, and any other model of the same providers.
type models struct {
	endpoints []config.Endpoint // the configured one first
	retries   int
	connect   func(config.Endpoint) llm.Provider
	window    func(config.Endpoint) int
	effort    string
	ttl       string
	prices    *pricing.Table

	mu    sync.Mutex // guards what follows
	built map[string]llm.Provider
}

func newModels(c *config.Config, r config.Report, connect func(config.Endpoint) llm.Provider, window func(config.Endpoint) int) *models {
	m := &models{
		endpoints: append([]config.Endpoint{r.Model}, r.Fallbacks...), retries: c.Agent.APIMaxRetries, prices: cmp.Or(r.Prices, pricing.Builtin()), connect: connect, window: window,
		effort: c.Agent.ReasoningEffort, ttl: c.PromptCaching.CacheTTL, built: make(map[string]llm.Provider),
	}
	if m.retries == 0 {
		m.retries = -1 // the option's zero means its default
	}
	return m
}

// provider returns what asks e, and when it cannot answer the fallbacks.
func (m *models) provider(e config.Endpoint) llm.Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := e.Provider + "/" + e.Model
	if p, ok := m.built[name]; ok {
		return p
	}
	var targets []retry.Target
	for _, t := range append([]config.Endpoint{e}, m.endpoints[1:]...) {
		targets = append(targets, retry.Target{Provider: m.connect(t), Model: t.Model})
	}
	p := retry.New(targets, retry.Options{Retries: m.retries})
	m.built[name] = p
	return p
}

// of returns the endpoint that settings choose.
func (m *models) of(s session.Settings) (config.Endpoint, error) {
	if s.Model == "" {
		return m.endpoints[0], nil
	}
	for _, e := range m.endpoints {
		if e.Provider == s.Provider {
			e.Model = s.Model
			return e, nil
		}
	}
	return config.Endpoint{}, i18n.Errorf("%s is not configured any more", s.Provider)
}

// Choose implements gateway.Models.
func (m *models) Choose(s session.Settings) (turn.ModelChoice, error) {
	e, err := m.of(s)
	if err != nil {
		return turn.ModelChoice{}, err
	}
	c := turn.ModelChoice{Provider: m.provider(e), Model: e.Model, Effort: m.effort, CacheTTL: m.ttl, Vision: sees(e.Provider), Window: m.window(e)}
	if s.Effort != "" {
		c.Effort = s.Effort
	}
	return c, nil
}

func nameOf(e config.Endpoint) string {
	if e.Model == "" || e.Model == e.Provider {
		return e.Provider
	}
	return e.Provider + "/" + e.Model
}

// Names implements gateway.Models.
func (m *models) Names() []string {
	names := make([]string, len(m.endpoints))
	for i, e := range m.endpoints {
		names[i] = nameOf(e)
	}
	return names
}

// Name implements gateway.Models.
func (m *models) Name(s session.Settings) string {
	e, err := m.of(s)
	if err != nil {
		return s.Provider + "/" + s.Model
	}
	return nameOf(e)
}

// Resolve implements gateway.Models: a name with a configured provider in front
// of it, the whole name of a configured model, or any model of the main
// provider.
func (m *models) Resolve(name string) (provider, model string, err error) {
	name = strings.TrimSpace(name)
	if strings.ContainsAny(name, " \t\n") || len(name) > 200 {
		return "", "", i18n.Errorf("%.40q is not the name of a model", name)
	}
	main := m.endpoints[0]
	for i, e := range m.endpoints {
		if name == e.Model || name == nameOf(e) {
			if i == 0 {
				return "", "", nil
			}
			return e.Provider, e.Model, nil
		}
	}
	for _, e := range m.endpoints {
		if rest, ok := strings.CutPrefix(name, e.Provider+"/"); ok && rest != "" && e.Provider != "demo" {
			return e.Provider, rest, nil
		}
	}
	switch {
	case name == "":
		return "", "", nil
	case main.Provider == "demo":
		return "", "", i18n.Errorf("no provider is configured that has %s; set a key first", name)
	}
	return main.Provider, name, nil
}
