package llm_test

import (
	"testing"

	"hermesd/agent/llm"
)

func TestCacheBreakpoints(t *testing.T) {
	for _, c := range []struct {
		provider, model, url string
		on                   bool
		line                 string
	}{
		{"anthropic", "claude-opus-4-8", "", true, "💾 Prompt caching: ENABLED (native Anthropic, 5m TTL)"},
		{"anthropic", "next-model", "https://api.anthropic.com/v1", true, "💾 Prompt caching: ENABLED (native Anthropic, 5m TTL)"},
		{"anthropic", "claude-opus-4-8", "https://proxy.test", true, "💾 Prompt caching: ENABLED (Anthropic-compatible endpoint, 5m TTL)"},
		{"anthropic", "MiniMax-M3", "https://api.minimax.io/anthropic", false, "Prompt caching: off (MiniMax-M3 is no claude model, and api.minimax.io is not Anthropic's)"},
		{"openrouter", "anthropic/Claude-Opus-4.8", "", true, "💾 Prompt caching: ENABLED (Claude via OpenRouter, 5m TTL)"},
		{"custom", "anthropic/claude-opus-4.8", "https://openrouter.ai/api/v1", true, "💾 Prompt caching: ENABLED (Claude via OpenRouter, 5m TTL)"},
		{"openrouter", "openai/gpt-5", "https://openrouter.ai/api/v1", false, "Prompt caching: off (OpenRouter takes marks only for claude models; others keep equal prefixes by themselves, or not at all)"},
		{"custom", "claude-opus-4-8", "https://notopenrouter.ai/v1", false, "Prompt caching: off (custom keeps equal prefixes by itself, or not at all)"},
		{"openai", "gpt-5", "", false, "Prompt caching: off (openai keeps equal prefixes by itself, or not at all)"},
		{"anthropic", "gpt", "%zz", false, "Prompt caching: off (gpt is no claude model, and %zz is not Anthropic's)"},
	} {
		if on, _ := llm.CacheBreakpoints(c.provider, c.model, c.url); on != c.on {
			t.Errorf("%s %s %s: got %v", c.provider, c.model, c.url, on)
		}
		if got := llm.CachingLine(c.provider, c.model, c.url, "5m"); got != c.line {
			t.Errorf("got %q, want %q", got, c.line)
		}
	}
	if got := llm.CachingLine("anthropic", "claude", "", "2h"); got != "Prompt caching: off (prompt_caching.cache_ttl is neither 5m nor 1h)" {
		t.Errorf("got %q", got)
	}
	if !llm.ValidTTL("1h") || llm.ValidTTL("") || llm.ValidTTL("10m") {
		t.Error("ValidTTL is wrong")
	}
}
