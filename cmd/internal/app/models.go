package app

import (
	"strings"
	"sync"

	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/retry"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// models chooses the models of sessions: the configured one, its fallbacks, and any
// other model of the same providers. It is safe for concurrent use.
type models struct {
	endpoints   []config.Endpoint // the main model first
	retries     int
	newProvider func(config.Endpoint) llm.Provider
	lengths     *contextLengths
	effort      string
	ttl         string
	prices      *pricing.Table

	mu        sync.Mutex // guards what follows
	providers map[string]llm.Provider
}

func newModels(c *config.Config, r config.Report, newProvider func(config.Endpoint) llm.Provider, lengths *contextLengths) *models {
	m := &models{
		endpoints: endpoints(r), retries: c.Agent.APIMaxRetries, prices: r.Prices, newProvider: newProvider, lengths: lengths,
		effort: c.Agent.ReasoningEffort, ttl: c.PromptCaching.TTL(), providers: make(map[string]llm.Provider),
	}
	if m.retries == 0 {
		m.retries = -1 // 0 in Options means the default
	}
	return m
}

// endpoints returns the main model and its fallbacks.
func endpoints(r config.Report) []config.Endpoint {
	return append([]config.Endpoint{r.Model}, r.Fallbacks...)
}

// providerFor returns the provider that calls e and, if e fails, the fallbacks.
func (m *models) providerFor(e config.Endpoint) llm.Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := e.Provider + "/" + e.Model
	if p, ok := m.providers[name]; ok {
		return p
	}
	var targets []retry.Target
	for _, t := range append([]config.Endpoint{e}, m.endpoints[1:]...) {
		targets = append(targets, retry.Target{Provider: m.newProvider(t), Model: t.Model, Limits: m.lengths.outputLimits(t)})
	}
	p := retry.New(targets, retry.Options{Retries: m.retries})
	m.providers[name] = p
	return p
}

// endpointFor returns the endpoint that the settings of a session select.
func (m *models) endpointFor(s session.Settings) (config.Endpoint, error) {
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

// Choose implements control.Models.
func (m *models) Choose(s session.Settings) (conversation.ModelChoice, error) {
	e, err := m.endpointFor(s)
	if err != nil {
		e, s = m.endpoints[0], session.Settings{}
	}
	c := conversation.ModelChoice{Provider: m.providerFor(e), Model: e.Model, Effort: m.effort, CacheTTL: m.ttl, Vision: e.Service().Vision, Window: m.lengths.lengthOf(e)}
	if s.Effort != "" {
		c.Effort = s.Effort
	}
	return c, err
}

// modelName returns the name of a model for users: PROVIDER/MODEL.
func modelName(e config.Endpoint) string {
	if e.Model == "" || e.Model == e.Provider {
		return e.Provider
	}
	return e.Provider + "/" + e.Model
}

// Names implements control.Models.
func (m *models) Names() []string {
	names := make([]string, len(m.endpoints))
	for i, e := range m.endpoints {
		names[i] = modelName(e)
	}
	return names
}

// Name implements control.Models.
func (m *models) Name(s session.Settings) string {
	e, err := m.endpointFor(s)
	if err != nil {
		return s.Provider + "/" + s.Model
	}
	return modelName(e)
}

// Resolve implements control.Models. It accepts a name prefixed by a configured
// provider, the full name of a configured model, and any model of the main provider.
func (m *models) Resolve(name string) (provider, model string, err error) {
	name = strings.TrimSpace(name)
	if strings.ContainsAny(name, " \t\n") || len(name) > 200 {
		return "", "", i18n.Errorf("%.40q is not the name of a model", name)
	}
	main := m.endpoints[0]
	for i, e := range m.endpoints {
		if name == e.Model || name == modelName(e) {
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
