package app

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/demo"
	"hermesd/agent/llm/openai"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/media"
	"hermesd/internal/safehttp"
)

// provider builds the model and those to fall back to.
func (a *App) provider() llm.Provider {
	main := a.opts.Report.Model
	a.opts.Say("🧠 Model: " + main.String())
	a.opts.Say(llm.CachingLine(main.Provider, main.Model, main.BaseURL, a.opts.Config.PromptCaching.CacheTTL))
	a.models = newModels(a.opts.Config, a.opts.Report, a.endpoint, a.lengths.of)
	return a.models.provider(main)
}

func (a *App) endpoint(e config.Endpoint) llm.Provider { return a.telemetry.Provider(a.service(e)) }

func (a *App) service(e config.Endpoint) llm.Provider {
	switch e.Provider {
	case "demo":
		return demo.New(demo.Options{Delay: a.opts.Config.Model.DemoPause})
	case "anthropic":
		return anthropic.New(anthropic.Options{BaseURL: e.BaseURL, Key: e.APIKey, MaxTokens: a.opts.Config.Model.MaxTokens})
	}
	return openai.New(openai.Options{Name: e.Provider, BaseURL: e.BaseURL, Key: e.APIKey, MaxTokens: a.opts.Config.Model.MaxTokens})
}

// sees reports whether the provider's models are given images as images.
func sees(provider string) bool {
	switch provider {
	case "anthropic", "openai", "openrouter":
		return true
	}
	return false
}

// downloads says how files of an account are fetched: from the public internet,
// and from the API server that the operator has named, wherever it is.
func downloads(s config.Account) (safehttp.Options, error) {
	o := safehttp.Options{Environment: s.Proxy == "", Idle: 64}
	if s.Proxy != "" {
		u, err := url.Parse(s.Proxy.Reveal())
		if err != nil {
			return o, fmt.Errorf("proxy is not a URL") // its text may hold a password
		}
		o.Proxy = u
	}
	if s.APIURL != "" {
		u, err := url.Parse(s.APIURL)
		if err != nil || u.Host == "" {
			return o, fmt.Errorf("api_url %q is not a URL", s.APIURL)
		}
		o.Allow = []string{withPort(u)}
	}
	return o, o.Validate()
}

func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// fetcher downloads what people send into the cache.
func (a *App) fetcher() media.Fetcher {
	from := func(on chat.Account) chat.FileFetcher { f, _ := a.adapters[on].(chat.FileFetcher); return f }
	return media.Fetcher{Cache: a.cache, From: from, Limit: maxFile, Mask: a.opts.Report.Secrets.Mask, Log: a.opts.Log}
}

// homes are the home channels of the platforms: the platform's own, or else that
// of the first of its accounts that has one.
func homes(c *config.Config) map[chat.Platform]chat.Address {
	m := make(map[chat.Platform]chat.Address)
	for account, s := range c.Accounts() {
		if was, ok := m[account.Platform]; s.HomeChannel == "" || ok && was.Account < account.Name {
			continue
		}
		at := chat.Address{Platform: account.Platform, Account: account.Name, Kind: chat.Group}
		at.Chat, at.Thread, _ = strings.Cut(s.HomeChannel, ":")
		if at.Platform == chat.Telegram && !strings.HasPrefix(at.Chat, "-") {
			at.Kind = chat.DM // as the person's own messages have it: answers and what is sent here keep one order
		}
		m[account.Platform] = at
	}
	return m
}

// quotes are the reply_to_mode of the accounts.
func quotes(c *config.Config) map[chat.Account]string {
	m := map[chat.Account]string{{Platform: chat.Console}: "off"}
	for account, s := range c.Accounts() {
		m[account] = s.ReplyToMode
	}
	return m
}
