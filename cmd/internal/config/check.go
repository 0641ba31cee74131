package config

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known on machines that have no list of them

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/internal/secret"
)

// problemAt notes that something is wrong with the key at path, where it was
// set. One problem with a key is enough.
func (l *loader) problemAt(path, format string, args ...any) {
	if l.bad[path] {
		return
	}
	l.bad[path] = true
	l.problems = append(l.problems, l.place(path, fmt.Sprintf(format, args...)))
}

// warnAt notes something that the operator should know of the key at path.
func (l *loader) warnAt(path, format string, args ...any) {
	l.warnings = append(l.warnings, l.place(path, fmt.Sprintf(format, args...)))
}

// place returns a problem where the key at path was set, or else where the
// nearest section around it, or anything in that section, was.
func (l *loader) place(path, msg string) Problem {
	p := Problem{Key: path, Text: msg}
	switch o := l.origins[path]; o.Kind {
	case FromFile:
		p.File, p.Line, p.Column = o.Name, o.Line, o.Column
	case FromDotenv:
		p.File, p.Line, p.Column = l.dotFile, o.Line, o.Column
		p.Key = o.Name
	case FromEnv:
		p.File, p.Key = "environment", o.Name
	case FromFlag:
		p.File = "flag"
	default:
		if o, ok := l.around(path); ok {
			p.File, p.Line, p.Column = o.Name, o.Line, o.Column
		}
	}
	return p
}

// around returns the first place in the file at which something of the same
// section, or of one around it, was set.
func (l *loader) around(path string) (at Origin, ok bool) {
	for ; ; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if path == "" {
			return Origin{}, false
		}
		for p, o := range l.origins {
			if o.Kind == FromFile && (p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[")) &&
				(!ok || o.Line < at.Line || o.Line == at.Line && o.Column < at.Column) {
				at, ok = o, true
			}
		}
		if ok {
			return at, true
		}
	}
}

// check looks at what one key alone cannot tell.
func (l *loader) check(c *Config) {
	if c.Timezone != "" {
		if _, err := time.LoadLocation(c.Timezone); err != nil {
			l.problemAt("timezone", "there is no such time zone; want a name such as Europe/Berlin or UTC")
		}
	}
	l.modelURL("model.base_url", c.Model.Provider, c.Model.BaseURL)
	for i, f := range c.FallbackProviders {
		l.modelURL(fmt.Sprintf("fallback_providers[%d].base_url", i), f.Provider, f.BaseURL)
	}
	l.owners("access.owners", "", c.Access.Owners)
	l.ids("access.allow_from", "", c.Access.AllowFrom)
	for _, p := range c.Platforms.all() {
		path := "platforms." + string(p.platform)
		l.account(p.platform, path, p.Account)
		for name, a := range p.Accounts {
			l.account(p.platform, path+".accounts."+name, a)
		}
		if p.platform != chat.Telegram && (p.Enabled || len(p.Accounts) > 0) {
			l.warnAt(path+".enabled", "the adapter for %s is not there yet: it stays off", p.platform)
		}
	}
	if s := c.Platforms.Slack; s.Enabled && s.AppToken == "" {
		l.warnAt("platforms.slack.app_token", "Slack needs an app token too: set SLACK_APP_TOKEN")
	}
	l.validators(l.fields, l.root, "")
	if len(l.problems) == 0 {
		if _, err := access.New(c.AccessPolicy()); err != nil {
			l.problemAt("access", "%v", err)
		}
	}
	l.everybody(c)
}

// everybody warns of what lets in people that nobody named.
func (l *loader) everybody(c *Config) {
	if c.Access.AllowAll {
		l.warnAt("access.allow_all", "everybody on every platform may speak to the agent")
	}
	for _, p := range c.Platforms.all() {
		if p.Enabled && p.AllowAll {
			l.warnAt("platforms."+string(p.platform)+".allow_all", "everybody on %s may speak to the agent", p.platform)
		}
		if p.Enabled && len(p.AllowedChats) > 0 {
			l.warnAt("platforms."+string(p.platform)+".allowed_chats", "everybody in these chats may speak to the agent, as a guest; with Hermes this key only chooses which groups are listened to")
		}
	}
}

// account checks one account.
func (l *loader) account(p chat.Platform, path string, a Account) {
	l.ids(path+".allow_from", p, a.AllowFrom)
	l.owners(path+".allow_admin_from", p, a.AllowAdminFrom)
	for i, m := range a.MentionPatterns {
		if _, err := regexp.Compile("(?i)" + m); err != nil {
			l.problemAt(l.element(path+".mention_patterns", i), "this is not a regular expression of RE2, which has no look-ahead and no back-references")
		}
	}
	for key, rate := range map[string]string{"account": a.Rate.Account, "chat": a.Rate.Chat} {
		if _, err := outbox.ParseRate(rate); err != nil {
			l.problemAt(path+".rate."+key, "%v", err)
		}
	}
	if a.Enabled && a.Token == "" {
		l.problemAt(path+".enabled", "it is switched on but has no token: set %s_BOT_TOKEN in .env, or token here", strings.ToUpper(string(p)))
	}
	for key, s := range map[string]secret.Value{"token": a.Token, "webhook_secret": a.WebhookSecret} {
		if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			l.problemAt(path+"."+key, "there is a space or a control character in it")
		}
	}
	l.address(path+".api_url", a.APIURL, "http", "https")
	l.address(path+".proxy", a.Proxy.Reveal(), "http", "https", "socks5", "socks5h")
	l.address(path+".webhook_url", a.WebhookURL, "http", "https")
	if a.WebhookURL != "" && a.WebhookSecret == "" {
		l.problemAt(path+".webhook_url", "webhook_secret is needed too: without it anybody could send messages in the platform's name")
	}
	if _, _, err := net.SplitHostPort(a.WebhookListen); a.WebhookListen != "" && err != nil {
		l.problemAt(path+".webhook_listen", "want an address and a port, such as 127.0.0.1:8443")
	}
}

// owners checks a list of people who may do everything.
func (l *loader) owners(path string, p chat.Platform, entries []string) {
	l.ids(path, p, entries)
	for i, e := range entries {
		if strings.TrimSpace(e) == "*" {
			l.problemAt(l.element(path, i), "not everybody can be an owner")
		}
	}
}

// ids checks a list of people.
func (l *loader) ids(path string, p chat.Platform, entries []string) {
	for i, e := range entries {
		if err := access.CheckID(p, e); err != nil {
			l.problemAt(l.element(path, i), "%v", err)
		}
	}
}

// element returns the path of one element of a list, if it has a place of its
// own, else that of the list.
func (l *loader) element(path string, i int) string {
	if p := fmt.Sprintf("%s[%d]", path, i); l.origins[path].Kind == FromFile && l.origins[p].Kind == FromFile {
		return p
	}
	return path
}

// address checks a URL that may be empty. It returns nil if there is nothing to
// check further.
func (l *loader) address(path, s string, schemes ...string) *url.URL {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		l.problemAt(path, "want a URL such as %s://host", schemes[len(schemes)-1])
		return nil
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return u
		}
	}
	l.problemAt(path, "want a URL that begins with %s://", strings.Join(schemes, ":// or "))
	return nil
}

var version = regexp.MustCompile(`/v[0-9][a-z0-9]*(/openai)?$`)

// modelURL checks the address of a model.
func (l *loader) modelURL(path, provider, s string) {
	u := l.address(path, s, "http", "https")
	if u == nil {
		return
	}
	if provider == "auto" {
		provider = ofURL(s)
	}
	p := strings.TrimRight(u.Path, "/")
	switch {
	case u.User != nil:
		l.problemAt(path, "a key does not belong into an address: set api_key")
	case u.RawQuery != "" || u.Fragment != "":
		l.problemAt(path, "want an address without ? and #")
	case strings.HasSuffix(p, "/chat/completions"), strings.HasSuffix(p, "/messages"), strings.HasSuffix(p, "/responses"):
		l.problemAt(path, "leave out what stands behind /v1: hermesd adds it")
	case provider == "anthropic" && strings.HasSuffix(p, "/v1"):
		l.problemAt(path, "an Anthropic address stands without /v1")
	case provider == "anthropic" || provider == "demo":
	case p == "":
		l.problemAt(path, "an OpenAI-compatible address goes up to and including /v1")
	case !version.MatchString(p):
		l.warnAt(path, "an OpenAI-compatible address usually ends in /v1")
	}
}

// validators asks the sections that can check themselves, unless something in
// them is wrong already.
func (l *loader) validators(fs []*field, v reflect.Value, path string) {
	for _, f := range fs {
		if f.kind != section {
			continue
		}
		fv, p := v.FieldByIndex(f.index), join(path, f.name)
		l.validators(f.sub, fv, p)
		c, ok := fv.Interface().(interface{ Validate() error })
		if !ok || l.badBelow(p) {
			continue
		}
		for _, err := range flatten(c.Validate()) {
			key, msg := p, err.Error()
			if first, rest, ok := strings.Cut(msg, ":"); ok && find(f.sub, first) != nil {
				key, msg = join(p, first), strings.TrimSpace(rest)
			}
			l.problemAt(key, "%s", msg)
		}
	}
}

func (l *loader) badBelow(path string) bool {
	for p := range l.bad {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

// flatten returns the errors that were joined into err.
func flatten(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return []error{err}
}
