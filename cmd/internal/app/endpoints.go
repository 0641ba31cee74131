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
	"hermesd/cmd/internal/metrics"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/gateway/media"
	"hermesd/internal/safehttp"
)

// mainProvider returns the main model with its fallbacks.
func (a *App) mainProvider() llm.Provider {
	main := a.opts.Report.Model
	a.opts.Say("🧠 Model: " + main.String())
	a.opts.Say(llm.CachingLine(main.Provider, main.Model, main.BaseURL, a.opts.Config.PromptCaching.TTL()))
	return a.models.providerFor(main)
}

// providers make the providers of endpoints.
type providers struct {
	config  *config.Config
	metrics *metrics.Metrics // count the calls
}

// of returns the provider of an endpoint; its calls are counted.
func (p providers) of(e config.Endpoint) llm.Provider { return p.metrics.Provider(p.client(e)) }

// client creates the client of the API that an endpoint names.
func (p providers) client(e config.Endpoint) llm.Provider {
	switch e.Service().API {
	case config.Demo:
		return demo.New(demo.Options{Delay: p.config.Model.DemoDelay})
	case config.Anthropic:
		return anthropic.New(anthropic.Options{Name: e.Provider, BaseURL: e.BaseURL, Key: e.APIKey, MaxTokens: p.config.Model.MaxTokens})
	}
	o := openai.Options{Name: e.Provider, BaseURL: e.BaseURL, Key: e.APIKey, MaxTokens: p.config.Model.MaxTokens}
	if e.Provider == "openrouter" {
		o.Routing = openai.Routing(p.config.ProviderRouting.For(e.Model))
	}
	return openai.New(o)
}

// downloadOptions returns how files of an account are downloaded: from the public
// internet, and from the API server that the operator has configured, even at a
// private address.
func downloadOptions(s config.Account) (safehttp.Options, error) {
	o := safehttp.Options{Environment: s.Secrets["proxy"] == "", Idle: 64}
	if s.Secrets["proxy"] != "" {
		u, err := url.Parse(s.Secrets["proxy"].Reveal())
		if err != nil {
			return o, fmt.Errorf("proxy is not a URL") // the URL may contain a password
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

// withPort returns the host and port of u, with the default port of its scheme.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// fetcher returns what downloads incoming files into the media cache.
func (a *App) fetcher() media.Fetcher {
	connected := a.outgoing.Accounts
	from := func(on chat.Account) (f chat.FileFetcher, ok bool) {
		ad, _ := connected.Adapter(on)
		f, ok = ad.(chat.FileFetcher)
		return f, ok
	}
	return media.Fetcher{Cache: a.cache, From: from, Limit: maxFileBytes, Mask: a.opts.Report.Secrets.Mask, Log: a.opts.Log}
}

// homeChannels returns the home channel of each platform: that of the account
// without a name, otherwise that of the account with the first name that has one.
func homeChannels(c *config.Config) map[chat.Platform]chat.Address {
	m := make(map[chat.Platform]chat.Address)
	for account, s := range c.Accounts() {
		if prev, ok := m[account.Platform]; s.HomeChannel == "" || ok && prev.Account < account.Name {
			continue
		}
		address := chat.Address{Platform: account.Platform, Account: account.Name}
		address.Chat, address.Thread, _ = strings.Cut(s.HomeChannel, ":")
		// As incoming messages of this chat: then answers and sent messages share one order.
		address.Kind = platforms.Profiles().Of(address.Platform).KindOf(address.Chat)
		m[account.Platform] = address
	}
	return m
}

// replyModes returns reply_to_mode of each account.
func replyModes(c *config.Config) map[chat.Account]string {
	m := map[chat.Account]string{{Platform: chat.Console}: "off"}
	for account, s := range c.Accounts() {
		m[account] = s.ReplyToMode
	}
	return m
}
