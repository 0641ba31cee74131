package config_test

import (
	"strings"
	"testing"

	"hermesd/cmd/internal/config"
)

func TestEveryProviderIsAService(t *testing.T) {
	names := []string{"auto"}
	for _, s := range config.Services() {
		names = append(names, s.Name)
		base := s.BaseURL
		if s.Name == "custom" {
			base = "http://127.0.0.1:1/v1"
		}
		c, r := setup{yaml: "model: {provider: " + s.Name + ", default: m, base_url: '" + base + "'}\n", env: map[string]string{s.Variable: "sk-key-of-it"}}.good(t)
		if c.Model.Provider != s.Name || s.Variable != "" && r.Model.APIKey != "sk-key-of-it" {
			t.Errorf("%+v gives %+v", s, r.Model)
		}
	}
	got := setup{yaml: "model: {provider: nobody}\n"}.problems(t)
	for _, name := range names {
		if !strings.Contains(got, name+",") {
			t.Errorf("%s is no provider: %s", name, got)
		}
	}
	if strings.Count(got, ",") != len(names) {
		t.Errorf("%s; services are %v", got, names)
	}
}
