package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

// TestRoutingOfModels shows which rules for the providers behind OpenRouter hold for a
// model: an entry takes the general value of each key that it leaves out.
func TestRoutingOfModels(t *testing.T) {
	c, r := setup{yaml: `
provider_routing:
  data_collection: deny
  ignore: [x]
  sort: price
  models:
    anthropic/claude-opus-4.6: {only: [anthropic], ignore: []}
    qwen3.6:27b: {order: [a, b], data_collection: allow}
`}.good(t)
	if texts(r.Warnings) != "" {
		t.Error(texts(r.Warnings))
	}
	general := config.Routing{DataCollection: "deny", Ignore: []string{"x"}, Sort: "price"}
	opus := config.Routing{DataCollection: "deny", Only: []string{"anthropic"}, Sort: "price"}
	for model, want := range map[string]config.Routing{
		"anthropic/claude-opus-4.6":            opus,
		"anthropic/claude-opus-4-6":            opus,
		"claude-opus-4.6":                      opus,
		"openrouter/anthropic/Claude-opus-4-6": opus,
		"other/claude-opus-4.6":                general,
		"anthropic/claude-opus-4.6:free":       general,
		"vendor/qwen3.6:27b":                   {DataCollection: "allow", Ignore: []string{"x"}, Order: []string{"a", "b"}, Sort: "price"},
		"":                                     general,
	} {
		if d := cmp.Diff(want, c.ProviderRouting.For(model)); d != "" {
			t.Errorf("%q: (-want +got)\n%s", model, d)
		}
	}
}

// TestNamesOfModels shows that tables of models take the names that models have.
func TestNamesOfModels(t *testing.T) {
	c, _ := setup{yaml: "custom_providers: [{name: rack, base_url: 'http://h:1/v1', models: {'Qwen/Qwen3-8B:q4.1': {context_length: 9000}}}]"}.good(t)
	if got := c.CustomProviders[0].Models["Qwen/Qwen3-8B:q4.1"].ContextLength; got != 9000 {
		t.Errorf("the context is %d", got)
	}
}
