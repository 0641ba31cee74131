package config

import (
	"maps"
	"slices"
	"strings"
)

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
