package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for hosts without a time zone database

	"hermesd/adapters/telegram"
	"hermesd/agent/cmdpolicy"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/hygiene"
	"hermesd/internal/secret"
)

// check validates what depends on more than the type of a single key.
func (l *loader) check(c *Config) {
	if c.Timezone != "" {
		if _, err := time.LoadLocation(c.Timezone); err != nil {
			l.ProblemAt("timezone", "there is no such time zone; want a name such as Europe/Berlin or UTC")
		}
	}
	l.modelURL("model.base_url", c.Model.Provider, c.Model.BaseURL)
	for i, f := range c.FallbackProviders {
		l.modelURL(fmt.Sprintf("fallback_providers[%d].base_url", i), f.Provider, f.BaseURL)
	}
	for i, p := range c.CustomProviders {
		path := fmt.Sprintf("custom_providers[%d].base_url", i)
		l.address(path, p.BaseURL, "http", "https")
		if p.BaseURL == "" {
			l.WarnAt(path, "without an address nothing belongs to this entry: it has no effect")
		}
	}
	l.known("reset_by_type", slices.Sorted(maps.Keys(c.ResetByType)), []string{"dm", "group", "thread", "channel"})
	l.known("reset_by_platform", slices.Sorted(maps.Keys(c.ResetByPlatform)), platformNames())
	l.service("stt.base_url", c.STT.BaseURL, c.STT.APIKey)
	l.service("tts.base_url", c.TTS.BaseURL, c.TTS.APIKey)
	l.address("web.search.base_url", c.Web.Search.BaseURL, "http", "https")
	if c.Web.Search.Provider == "searxng" && c.Web.Search.BaseURL == "" {
		l.ProblemAt("web.search.provider", "searxng needs web.search.base_url: where the instance is, such as http://127.0.0.1:8888")
	}
	l.readPaths(c)
	l.toolsets("toolsets", c.Toolsets)
	l.toolsets("agent.disabled_toolsets", c.Agent.DisabledToolsets)
	l.toolsets("platform_toolsets.cli", c.PlatformToolsets.CLI)
	l.toolsets("platform_toolsets.api_server", c.PlatformToolsets.APIServer)
	l.toolsets("platform_toolsets.cron", c.PlatformToolsets.Cron)
	l.guards(c)
	l.owners("access.owners", "", c.Access.Owners)
	l.ids("access.allow_from", "", c.Access.AllowFrom)
	for account, a := range c.allAccounts() {
		l.account(account.Platform, SectionOf(account), a)
	}
	yamlconf.Walk(&c.Platforms, l.platformValue)
	l.Validate()
	if len(l.Problems) == 0 {
		check, err := access.New(c.AccessPolicy())
		switch {
		case err != nil:
			l.ProblemAt("access", "%v", err)
		case check.Ownerless():
			memory := ", and memory is off"
			if c.Memory.Scope == "user" {
				memory = ""
			}
			l.WarnAt("access.owners", "several ids are allowed, and none of them is an owner's: on chat platforms nobody can run commands or change files%s; put your own id here", memory)
		}
	}
	l.everybody(c)
	l.compression(c.Compression)
}

// compression warns about settings with which a request may exceed its usual limit.
func (l *loader) compression(c Compression) {
	switch {
	case !c.Enabled:
		l.WarnAt("compression.enabled", "nothing keeps a conversation within the context of the model: a server that drops what is too long, as Ollama does, forgets without an error")
	case c.Threshold > hygiene.MaxShare:
		l.WarnAt("compression.threshold", "a request may then have more than 85 %% of the context, up to this share: little is left for the answer")
	}
}

// everybody warns about settings that grant access to users who are not listed.
func (l *loader) everybody(c *Config) {
	if c.Access.AllowAll {
		l.WarnAt("access.allow_all", "everybody on every platform may speak to the agent")
	}
	for account, a := range c.Accounts() {
		if account.Name == "" && a.AllowAll {
			l.WarnAt(SectionOf(account)+".allow_all", "everybody on %s may speak to the agent", account.Platform)
		}
		if account.Name == "" && len(a.GroupAllowedChats) > 0 {
			l.WarnAt(SectionOf(account)+".group_allowed_chats", "everybody in these chats may speak to the agent, as a guest")
		}
	}
}

// SectionOf returns the path of the section of an account.
func SectionOf(a chat.Account) string {
	path := "platforms." + string(a.Platform)
	if a.Name != "" {
		path += ".accounts." + a.Name
	}
	return path
}

// platformValue checks a value that platforms have in their adapters' sections.
func (l *loader) platformValue(path string, v any) {
	path = "platforms." + path
	switch v := v.(type) {
	case secret.Value:
		if !strings.HasSuffix(path, ".proxy") && strings.ContainsFunc(v.Reveal(), func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			l.ProblemAt(path, "there is a space or a control character in it")
		}
	case []string:
		if !strings.HasSuffix(path, ".mention_patterns") {
			return
		}
		for i, m := range v {
			if _, err := regexp.Compile("(?i)" + m); err != nil {
				l.ProblemAt(l.Element(path, i), "this is not a regular expression of RE2, which has no look-ahead and no back-references")
			}
		}
	}
}

func (l *loader) account(p chat.Platform, path string, a Account) {
	l.toolsets(path+".toolsets", a.Toolsets)
	l.ids(path+".allow_from", p, a.AllowFrom)
	l.owners(path+".allow_admin_from", p, a.AllowAdminFrom)
	for key, rate := range map[string]string{"per_account": a.RateLimit.PerAccount, "per_chat": a.RateLimit.PerChat} {
		if _, err := outbox.ParseRate(rate); err != nil {
			l.ProblemAt(path+".rate_limit."+key, "%v", err)
		}
	}
	for _, s := range platforms.Profiles().Of(p).Secrets {
		if a.Enabled && a.Secrets[s.Key] == "" {
			l.ProblemAt(path+".enabled", "it is switched on but has no %s: set %s in .env, or %s here", s.Is, s.Env, s.Key)
		}
	}
	l.address(path+".api_url", a.APIURL, "http", "https")
	l.address(path+".proxy", a.Secrets["proxy"].Reveal(), "http", "https", "socks5", "socks5h")
	if t, ok := a.Adapter.(telegram.Config); ok {
		l.webhook(path, t)
	}
}

func (l *loader) webhook(path string, a telegram.Config) {
	l.address(path+".webhook_url", a.WebhookURL, "http", "https")
	if a.WebhookURL != "" && a.WebhookSecret == "" {
		l.ProblemAt(path+".webhook_url", "webhook_secret is needed too: without it anybody could send messages in the platform's name")
	}
	if _, _, err := net.SplitHostPort(a.WebhookListen); a.WebhookListen != "" && err != nil {
		l.ProblemAt(path+".webhook_listen", "want an address and a port, such as 127.0.0.1:8443")
	}
}

func (l *loader) owners(path string, p chat.Platform, entries []string) {
	l.ids(path, p, entries)
	for i, e := range entries {
		if strings.TrimSpace(e) == "*" {
			l.ProblemAt(l.Element(path, i), "not everybody can be an owner")
		}
	}
}

func (l *loader) ids(path string, p chat.Platform, entries []string) {
	for i, e := range entries {
		if err := access.CheckID(platforms.Profiles(), p, e); err != nil {
			l.ProblemAt(l.Element(path, i), "%v", err)
		}
	}
}

// address checks a URL that may be empty. It returns nil if there is nothing to
// check further.
func (l *loader) address(path, s string, schemes ...string) *url.URL {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		l.ProblemAt(path, "want a URL such as %s://host", schemes[len(schemes)-1])
		return nil
	}
	if slices.Contains(schemes, u.Scheme) {
		return u
	}
	l.ProblemAt(path, "want a URL that begins with %s://", strings.Join(schemes, ":// or "))
	return nil
}

// known checks the names in a table.
func (l *loader) known(path string, names, want []string) {
	for _, n := range names {
		if !slices.Contains(want, n) {
			l.ProblemAt(path+"."+n, "want one of %s", strings.Join(want, ", "))
		}
	}
}

// service checks the address of a speech service.
func (l *loader) service(path, s string, key secret.Value) {
	u := l.address(path, s, "http", "https")
	switch {
	case u == nil:
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		l.ProblemAt(path, "want an address without a name, a password, ? and #: a key belongs into api_key")
	case key != "" && insecure(s):
		l.WarnAt(path, "the key goes over the network unencrypted: use https")
	}
}

// searchKey reads the key of the search service from its environment variable and
// reports a problem if it is missing.
func (l *loader) searchKey(c *Config) {
	variable := map[string]string{"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}[c.Web.Search.Provider]
	if variable == "" || c.Web.Search.APIKey != "" {
		return
	}
	v, _ := l.look(variable)
	if c.Web.Search.APIKey = secret.Value(v); v == "" {
		l.ProblemAt("web.search.api_key", "%s needs a key: set %s in .env", c.Web.Search.Provider, variable)
	}
}

var version = regexp.MustCompile(`/v[0-9][a-z0-9]*(/openai)?$`)

// modelURL checks the address of a model.
func (l *loader) modelURL(path string, provider ServiceName, s string) {
	u := l.address(path, s, "http", "https")
	if u == nil {
		return
	}
	if provider == "auto" {
		provider = ServiceName(ofURL(s))
	}
	api := ServiceOf(string(provider)).API
	p := strings.TrimRight(u.Path, "/")
	switch {
	case u.User != nil:
		l.ProblemAt(path, "a key does not belong into an address: set api_key")
	case u.RawQuery != "" || u.Fragment != "":
		l.ProblemAt(path, "want an address without ? and #")
	case strings.HasSuffix(p, "/chat/completions"), strings.HasSuffix(p, "/messages"), strings.HasSuffix(p, "/responses"):
		l.ProblemAt(path, "leave out what stands behind /v1: hermesd adds it")
	case api == Anthropic && strings.HasSuffix(p, "/v1"):
		l.ProblemAt(path, "an Anthropic address stands without /v1")
	case api == Anthropic || api == Demo:
	case p == "":
		l.ProblemAt(path, "an OpenAI-compatible address goes up to and including /v1")
	case !version.MatchString(p):
		l.WarnAt(path, "an OpenAI-compatible address usually ends in /v1")
	}
}

// toolsets warns about unknown tools and toolsets: conversations would silently
// have fewer tools than intended.
func (l *loader) toolsets(path string, names []string) {
	for i, n := range names {
		_, set := tool.Toolsets()[n]
		_, known := access.ToolLevels()[n]
		if !set && !known && !tool.MeansAll(n) && n != NoTools {
			l.WarnAt(l.Element(path, i), "there is no tool or toolset called %q", n)
		}
	}
}

// readPaths checks the paths that commands may read in addition. None may make a file
// of the home directory visible.
func (l *loader) readPaths(c *Config) {
	home, work := resolve(l.home), resolve(c.Workspace(l.home))
	for i, path := range c.Terminal.ReadPaths {
		at := l.Element("terminal.read_paths", i)
		if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
			l.ProblemAt(at, "want an absolute path, or one that begins with ~/, not %q", path)
			continue
		}
		switch dir := resolve(InHome(l.home, path)); {
		case isBelow(dir, home):
			l.ProblemAt(at, "%s contains the home of the daemon, %s, whose files commands must not read; name the directories in it that they need", path, l.home)
		case isBelow(home, dir) && (work == home || !isBelow(work, dir)):
			l.ProblemAt(at, "%s is in the home of the daemon, whose files commands must not read; move what they need to another place", path)
		}
	}
}

// commands returns the table of commands with the given rows, nil if there are none, and
// reports those that are invalid.
func (l *loader) commands(rows []string) *cmdpolicy.Table {
	if len(rows) == 0 {
		return nil
	}
	valid := true
	for i, row := range rows {
		if _, err := cmdpolicy.NewTable([]string{row}); err != nil {
			l.ProblemAt(l.Element("approvals.commands", i), "%v", err)
			valid = false
		}
	}
	t, err := cmdpolicy.NewTable(rows)
	if err != nil && valid {
		l.ProblemAt("approvals.commands", "%v", err)
	}
	return t
}

// resolve returns path without symbolic links, as far as it exists.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, name := filepath.Split(filepath.Clean(path))
	if name == "" || dir == "" {
		return path
	}
	return filepath.Join(resolve(dir), name)
}

func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
