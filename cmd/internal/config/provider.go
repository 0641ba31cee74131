package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
)

// An Endpoint is a model that can be called: the configured values with all missing
// ones resolved.
type Endpoint struct {
	Provider string       `json:"provider"` // never auto
	Model    string       `json:"model"`
	BaseURL  string       `json:"base_url,omitempty"` // without a slash at its end; "" for demo
	APIKey   secret.Value `json:"api_key,omitempty"`
	// Reason is why this provider was chosen, in a few words, for the start-up log.
	Reason string `json:"reason"`
}

func (e Endpoint) String() string {
	if e.Model == "" || e.Model == e.Provider {
		return e.Provider + " (" + e.Reason + ")"
	}
	return e.Provider + " " + e.Model + " (" + e.Reason + ")"
}

func (l *loader) endpoints(c *Config) (main Endpoint, fallbacks []Endpoint) {
	l.custom = c.CustomProviders
	main = l.endpoint("model", "default", Fallback{Provider: c.Model.Provider, Model: c.Model.Default, BaseURL: c.Model.BaseURL, APIKey: c.Model.APIKey})
	for i, f := range c.FallbackProviders {
		path := fmt.Sprintf("fallback_providers[%d]", i)
		if l.BadBelow(path) {
			continue
		}
		e := l.endpoint(path, "model", f)
		if e.Provider == "demo" && f.Provider == "auto" {
			l.WarnAt(path, "nothing says who serves this fallback: it has no effect; set provider, base_url or api_key")
			continue
		}
		fallbacks = append(fallbacks, e)
	}
	return main, fallbacks
}

// summary resolves the model that writes summaries.
func (l *loader) summary(c *Config) Endpoint {
	t := c.Auxiliary.Compression
	said := OptionalTask{Provider: t.Provider, Model: t.Model, BaseURL: t.BaseURL, APIKey: t.APIKey}
	if t.BaseURL == "" && t.APIKey == "" && (t.Provider == "auto" || t.Provider == "main") {
		if t.Model == "" {
			return Endpoint{}
		}
		said.Provider = "main" // another model of the same provider
	}
	return l.aside("auxiliary.compression", c, said)
}

// aside resolves the model of an optional task; the zero Endpoint if none is named.
func (l *loader) aside(path string, c *Config, t OptionalTask) Endpoint {
	said := Fallback{Provider: t.Provider, Model: t.Model, BaseURL: t.BaseURL, APIKey: t.APIKey}
	switch {
	case t.Provider == "main":
		said.Provider, said.BaseURL, said.APIKey = c.Model.Provider, c.Model.BaseURL, c.Model.APIKey
		said.Model = cmp.Or(said.Model, c.Model.Default)
	case t.Provider == "" || t.Provider == "auto":
		if t.BaseURL == "" && t.APIKey == "" {
			return Endpoint{}
		}
		said.Provider = "auto"
	}
	return l.endpoint(path, "model", said)
}

// custom returns the entry of custom_providers for an address.
func custom(all []CustomProvider, baseURL string) (p CustomProvider, ok bool) {
	for _, p := range all {
		if at := strings.TrimRight(p.BaseURL, "/"); at != "" && at == strings.TrimRight(baseURL, "/") {
			return p, true
		}
	}
	return p, false
}

// ContextOf returns the context length of e that a fallback or a custom provider
// entry configures; 0 if none does.
func (c *Config) ContextOf(e Endpoint) int {
	for _, f := range c.FallbackProviders {
		if f.ContextLength > 0 && cmp.Or(f.Model, e.Service().Model) == e.Model && (string(f.Provider) == e.Provider || f.Provider == "auto") {
			return f.ContextLength
		}
	}
	p, _ := custom(c.CustomProviders, e.BaseURL)
	return p.Models[e.Model].ContextLength
}

// endpoint resolves one model. path is its section, modelKey the key of its
// name there.
func (l *loader) endpoint(path, modelKey string, said Fallback) Endpoint {
	e := Endpoint{Provider: string(said.Provider), Model: said.Model, BaseURL: strings.TrimRight(said.BaseURL, "/"), APIKey: said.APIKey, Reason: path + ".provider"}
	if said.Provider == "auto" || said.Provider == "" {
		e.Provider, e.Reason = l.guess(path, said.Model, said.BaseURL, said.APIKey)
	}
	s := e.Service()
	e.BaseURL = cmp.Or(e.BaseURL, s.BaseURL)
	e.Model = s.ModelName(e.Model)
	if own, ok := custom(l.custom, e.BaseURL); ok {
		e.Reason += ", " + cmp.Or(own.Name, "custom_providers")
		e.APIKey = cmp.Or(e.APIKey, own.APIKey)
	}
	if e.APIKey == "" && s.Variable != "" {
		v, _ := l.look(s.Variable)
		e.APIKey = secret.Value(v)
	}
	switch {
	case e.Provider == "custom" && e.BaseURL == "":
		l.ProblemAt(path+".base_url", "the provider custom needs an address: up to and including /v1")
	case e.Model == "":
		l.ProblemAt(path+"."+modelKey, "%s has no usual model: name one", e.Provider)
	case e.APIKey == "" && s.Variable != "" && said.BaseURL == "":
		l.WarnAt(path+".api_key", "there is no key for %s: set %s in .env; until then every turn fails", e.Provider, s.Variable)
	case e.APIKey != "" && insecure(e.BaseURL):
		l.WarnAt(path+".base_url", "the key goes over the network unencrypted: use https")
	}
	return e
}

// guess returns the provider of a model without a configured provider, and the
// reason for the choice.
func (l *loader) guess(path, model, baseURL string, key secret.Value) (provider, reason string) {
	if baseURL != "" {
		p := ofURL(baseURL)
		return p, path + ".base_url"
	}
	if k := key.Reveal(); k != "" {
		for _, s := range Services() {
			if s.KeyPrefix != "" && strings.HasPrefix(k, s.KeyPrefix) {
				return s.Name, path + ".api_key"
			}
		}
	}
	if strings.EqualFold(model, "demo") {
		return "demo", path + " names it"
	}
	var variables []string
	for _, s := range candidates(model) {
		if v, ok := l.look(s.Variable); ok && v != "" {
			return s.Name, s.Variable + " is set"
		}
		variables = append(variables, s.Variable)
	}
	if key != "" {
		l.ProblemAt(path+".provider", "nothing says whose key this is: set provider")
		return "demo", "nothing says whose the key is"
	}
	if model != "" && path == "model" {
		l.WarnAt("model.default", "no key fits this model, so the built-in demo model answers; set %s in .env, or model.base_url", strings.Join(variables, " or "))
	}
	return "demo", "no key and no model.base_url are set, so the built-in demo model answers; `hermesd setup` asks for them"
}

// insecure reports whether data sent to an address is readable in transit.
func insecure(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	private := ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
	return !private && host != "localhost" && strings.Contains(host, ".")
}

// For returns the rules for a model: those of the entry with its name, else the general
// ones. As in upstream Hermes an entry also holds if the names differ in dots and dashes,
// or only one of them says who made the model.
func (p ProviderRouting) For(model string) Routing {
	if r, ok := p.Models[model]; ok {
		return r
	}
	plain := func(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }
	for _, name := range slices.Sorted(maps.Keys(p.Models)) {
		a, b := plain(name), plain(model)
		if a == b || strings.HasSuffix(a, "/"+b) || strings.HasSuffix(b, "/"+a) {
			return p.Models[name]
		}
	}
	return p.Routing
}

// prices is the content of a price file in YAML or JSON.
type prices struct {
	Date   string  `yaml:"date"`
	Source string  `yaml:"source"`
	Models []price `yaml:"models"`
}

type price struct {
	Match   string  `yaml:"match"`
	Input   float64 `yaml:"input" range:"0..100000"`
	Output  float64 `yaml:"output" range:"0..100000"`
	Read    float64 `yaml:"cache_read" range:"0..100000"`
	Write5m float64 `yaml:"cache_write_5m" range:"0..100000"`
	Write1h float64 `yaml:"cache_write_1h" range:"0..100000"`
}

// prices returns the built-in price table with the entries of prices_file on top.
// Errors in that file are problems with their line.
func (l *loader) prices(c *Config) *pricing.Table {
	if c.PricesFile == "" {
		return pricing.Builtin()
	}
	path := InHome(l.home, c.PricesFile)
	data, err := yamlconf.ReadFile(path, maxFile)
	if err != nil {
		l.ProblemAt("prices_file", "%s cannot be read: %v", path, err)
		return pricing.Builtin()
	}
	var p prices
	f := yamlconf.New(&p, yamlconf.Options{File: path, LookupEnv: l.look, Foreign: func(string) (string, bool) { return "", false }})
	f.Decode(data)
	if _, err := time.Parse(time.DateOnly, p.Date); err != nil && len(f.Problems) == 0 {
		f.Problems = append(f.Problems, Problem{File: path, Line: max(f.Origins["date"].Line, 1), Column: max(f.Origins["date"].Column, 1), Key: "date", Text: "say from which day the prices are, such as 2026-01-31"})
	}
	models := make([]pricing.Override, len(p.Models))
	for i, m := range p.Models {
		at := fmt.Sprintf("models[%d]", i)
		said := func(key string, v *float64) *float64 {
			if _, ok := f.Origins[at+"."+key]; !ok {
				return nil
			}
			return v
		}
		models[i] = pricing.Override{
			Match: m.Match, Input: said("input", &m.Input), Output: said("output", &m.Output), Read: said("cache_read", &m.Read),
			Write5m: said("cache_write_5m", &m.Write5m), Write1h: said("cache_write_1h", &m.Write1h),
		}
		switch {
		case strings.Trim(m.Match, "* \t") == "":
			f.ProblemAt(at, "match names no model")
		case models[i].Input == nil || models[i].Output == nil:
			f.ProblemAt(at, "input and output are needed, in dollars for a million tokens")
		}
	}
	l.Warnings = append(l.Warnings, f.Warnings...)
	l.Problems = append(l.Problems, f.Problems...)
	if len(f.Problems) > 0 {
		return pricing.Builtin()
	}
	p.Source = cmp.Or(p.Source, path)
	table, err := pricing.Builtin().WithModels(p.Date, p.Source, models)
	if err != nil {
		l.ProblemAt("prices_file", "%s: %v", path, err)
		return pricing.Builtin()
	}
	return table
}
