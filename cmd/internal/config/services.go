package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An API is the protocol of a model provider.
type API string

// The APIs.
const (
	OpenAI    API = "openai"    // Chat Completions
	Anthropic API = "anthropic" // Messages
	Ollama    API = "ollama"    // OpenAI's, and Ollama's own for context lengths
	Demo      API = "demo"      // the built-in model
)

// A Service describes a model provider that the configuration can name.
type Service struct {
	Name      string // as model.provider has it
	Label     string // in set-up
	API       API
	BaseURL   string         // its own address; "" if it has none
	Domain    string         // of its hosts; "" if it has none
	Model     string         // its usual model; "" if it has none
	Variable  string         // that holds its key; "" if none does
	KeyPrefix string         // of its keys; "" if they cannot be recognized
	KeyPath   string         // path that only a valid key may get; "": that of the list of models
	Models    *regexp.Regexp // matches the names of its models, in lower case; nil: any
	Vision    bool           // its models get images as images
}

// Services returns the providers that model.provider accepts besides auto, in the order in
// which they are offered to users, and in which their keys are looked for.
var Services = sync.OnceValue(func() []Service {
	return []Service{
		{
			Name: "anthropic", Label: "Anthropic (Claude)", API: Anthropic, BaseURL: "https://api.anthropic.com", Domain: "anthropic.com", Model: "claude-opus-4-6",
			Variable: "ANTHROPIC_API_KEY", KeyPrefix: "sk-ant-", Models: regexp.MustCompile(`^(anthropic/|claude[^/]*$)`), Vision: true,
		},
		{
			Name: "openrouter", Label: "OpenRouter (models of many makers)", API: OpenAI, BaseURL: "https://openrouter.ai/api/v1", Domain: "openrouter.ai", Model: "anthropic/claude-opus-4.6",
			Variable: "OPENROUTER_API_KEY", KeyPrefix: "sk-or-", KeyPath: "/key", Models: regexp.MustCompile(`/`), Vision: true,
		},
		{
			Name: "openai", Label: "OpenAI", API: OpenAI, BaseURL: "https://api.openai.com/v1", Domain: "openai.com",
			Variable: "OPENAI_API_KEY", KeyPrefix: "sk-", Models: regexp.MustCompile(`^(gpt|chatgpt|o[134])[^/]*$`), Vision: true,
		},
		{Name: "ollama", Label: "Ollama, on this machine or another", API: Ollama, BaseURL: "http://127.0.0.1:11434/v1"},
		{Name: "custom", Label: "Another server that speaks OpenAI's API (vLLM, llama.cpp, LM Studio, …)", API: OpenAI},
		{Name: "demo", Label: "None yet: the built-in demo model, which is not intelligent", API: Demo, Model: "demo"},
	}
})

// ServiceOf returns the provider with that name; the zero Service if there is none.
func ServiceOf(name string) Service {
	for _, s := range Services() {
		if s.Name == name {
			return s
		}
	}
	return Service{}
}

// Service returns the provider of e.
func (e Endpoint) Service() Service { return ServiceOf(e.Provider) }

// ModelName returns how s itself calls a model; "" is its usual one.
func (s Service) ModelName(model string) string {
	switch s.API {
	case Demo:
		return s.Model
	case Anthropic: // OpenRouter's names say who made the model
		model = strings.TrimPrefix(model, "anthropic/")
	}
	return cmp.Or(model, s.Model)
}

// ofURL returns the provider that serves an address.
func ofURL(s string) string {
	u, err := url.Parse(s)
	if err == nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/anthropic") {
		return "anthropic"
	}
	for _, p := range Services() {
		if err == nil && (p.Domain != "" && strings.HasSuffix("."+strings.ToLower(u.Hostname()), "."+p.Domain) || p.API == Ollama && u.Port() == "11434") {
			return p.Name
		}
	}
	return "custom"
}

func withKeys() []Service {
	return slices.DeleteFunc(slices.Clone(Services()), func(s Service) bool { return s.Variable == "" })
}

// candidates returns the providers with keys that may have a model: those to which its name
// belongs, else all.
func candidates(model string) []Service {
	named := slices.DeleteFunc(withKeys(), func(s Service) bool { return s.Models == nil || !s.Models.MatchString(strings.ToLower(model)) })
	if len(named) > 0 {
		return named
	}
	return withKeys()
}

// ServiceVariables returns the variables that hold keys of providers, as a text.
func ServiceVariables() string {
	var names []string
	for _, s := range withKeys() {
		names = append(names, s.Variable)
	}
	slices.Sort(names)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// A ServiceName is the name of a provider in a key of the configuration.
type ServiceName string

// Choices returns the names of the providers: first those with keys.
func (ServiceName) Choices() (names []string) {
	all := slices.Clone(Services())
	slices.SortStableFunc(all, func(a, b Service) int { return strings.Compare(cmp.Or(a.Variable, "~"), cmp.Or(b.Variable, "~")) })
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}
