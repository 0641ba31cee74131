package config

// A Service describes a model provider that Load knows.
type Service struct {
	Name     string // as model.provider has it
	BaseURL  string // its own address; "" if it has none
	Model    string // its usual model; "" if it has none
	Variable string // that holds its key; "" if none does
}

// Services returns the providers that model.provider accepts besides auto, in the
// order in which they are offered to users.
func Services() []Service {
	var all []Service
	for _, name := range []string{"anthropic", "openrouter", "openai", "ollama", "custom", "demo"} {
		s := services()[name]
		all = append(all, Service{Name: name, BaseURL: s.baseURL, Model: s.model, Variable: providerKeys()[name]})
	}
	return all
}
