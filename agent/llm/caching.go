package llm

import (
	"fmt"
	"net/url"
	"strings"
)

// CacheBreakpoints reports whether calls of model carry cache breakpoints. source names the
// owner of the cache, or the reason why there are none. It is evaluated for each call, so
// that a model switch or a fallback decides again.
//
// provider is the name of the provider; "anthropic" is every endpoint of the Messages API.
// baseURL may be empty for the provider's own address.
func CacheBreakpoints(provider, model, baseURL string) (on bool, source string) {
	claude := strings.Contains(strings.ToLower(model), "claude")
	switch host := hostOf(baseURL); {
	case provider == "anthropic" && (host == "" || isHost(host, "anthropic.com")):
		return true, "native Anthropic"
	case provider == "anthropic" && claude:
		return true, "Anthropic-compatible endpoint"
	case provider == "anthropic":
		return false, model + " is no claude model, and " + host + " is not Anthropic's"
	case provider == "openrouter" || isHost(host, "openrouter.ai"):
		if claude {
			return true, "Claude via OpenRouter"
		}
		return false, "OpenRouter takes marks only for claude models; others keep equal prefixes by themselves, or not at all"
	}
	return false, provider + " keeps equal prefixes by itself, or not at all"
}

// ValidTTL reports whether ttl is a time to live that a cache supports: "5m" or "1h".
func ValidTTL(ttl string) bool { return ttl == "5m" || ttl == "1h" }

// CachingLine returns the line about prompt caching that is shown at start-up and in the
// status. ttl "" means that cache breakpoints are switched off.
func CachingLine(provider, model, baseURL, ttl string) string {
	on, source := CacheBreakpoints(provider, model, baseURL)
	switch {
	case !on:
		return "Prompt caching: off (" + source + ")"
	case !ValidTTL(ttl):
		return "Prompt caching: off (prompt_caching.cache_ttl is neither 5m nor 1h)"
	}
	return fmt.Sprintf("💾 Prompt caching: ENABLED (%s, %s TTL)", source, ttl)
}

func hostOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return baseURL // matches no known service
	}
	return strings.ToLower(u.Hostname())
}

func isHost(host, domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
