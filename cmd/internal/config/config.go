// Package config loads the configuration. It composes [Config] from the structs
// that other packages define for their settings and fills it from defaults,
// config.yaml, .env, the environment and flags; later sources override earlier ones.
//
// The struct tags are the only description of the keys. Defaults, validation, the
// JSON schema and config.example.yaml are derived from them. [Load] reports all
// problems at once with their positions. Keys of upstream Hermes that this program
// does not have are warnings. No message contains a secret, and every secret that
// was read is registered with the masker of the [Report]. Decoding is in package
// yamlconf.
package config

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/internal/secret"
)

// Config is the complete configuration with defaults applied.
type Config struct {
	Model             Model            `yaml:"model" short:"default"`
	FallbackProviders []Fallback       `yaml:"fallback_providers" doc:"Models to fall back to, in this order, while the main one cannot answer."`
	CustomProviders   []CustomProvider `yaml:"custom_providers" doc:"Servers of your own, and how many tokens their models take."`
	Agent             Agent            `yaml:"agent"`
	PromptCaching     PromptCaching    `yaml:"prompt_caching"`
	ProviderRouting   ProviderRouting  `yaml:"provider_routing"`
	Compression       Compression      `yaml:"compression"`
	Context           Context          `yaml:"context"`
	Auxiliary         Auxiliary        `yaml:"auxiliary"`
	Memory            Memory           `yaml:"memory"`
	Honcho            Honcho           `yaml:"honcho"`
	Plugins           Plugins          `yaml:"plugins"`
	Skills            Skills           `yaml:"skills"`
	SessionSearch     SessionSearch    `yaml:"session_search"`
	PricesFile        string           `yaml:"prices_file" doc:"File of prices that go before the built-in ones, YAML or JSON, relative to the home; see docs/caching.md#prices. Empty: none."`
	Timezone          string           `yaml:"timezone" env:"HERMES_TIMEZONE" doc:"IANA time zone such as Europe/Berlin; empty: that of the machine."`

	Display   Display   `yaml:"display"`
	Streaming Streaming `yaml:"streaming"`
	Delivery  Delivery  `yaml:"delivery"`

	GroupSessionsPerUser  bool                    `yaml:"group_sessions_per_user" default:"true" doc:"In groups, each person has a session of their own."`
	ThreadSessionsPerUser bool                    `yaml:"thread_sessions_per_user" default:"false" doc:"In threads and topics, each person has a session of their own."`
	SessionReset          SessionReset            `yaml:"session_reset"`
	ResetByType           map[string]SessionReset `yaml:"reset_by_type" doc:"Other rules by kind of chat (dm, group, thread, channel), with the keys of session_reset."`
	ResetByPlatform       map[string]SessionReset `yaml:"reset_by_platform" doc:"Other rules by platform, with the keys of session_reset; they go before those by kind of chat."`
	Gateway               gateway.Config          `yaml:"gateway"`
	Backlog               Backlog                 `yaml:"backlog"`

	Access                 access.Config `yaml:"access"`
	UnauthorizedDMBehavior string        `yaml:"unauthorized_dm_behavior" default:"pair" enum:"pair|ignore" doc:"What people who are not allowed get when they write directly: a code with which the operator can let them in (hermesd pairing), or nothing."`
	Platforms              Platforms     `yaml:"platforms"`

	PlatformToolsets PlatformToolsets `yaml:"platform_toolsets"`

	Toolsets   []string   `yaml:"toolsets" doc:"Tools that conversations get, by their names or those of toolsets (file, terminal, web, …); all: all. Empty: all, or small if the prompt with all tools exceeds 20 % of the model's context window. Applied when a conversation begins."`
	Terminal   Terminal   `yaml:"terminal"`
	Approvals  Approvals  `yaml:"approvals"`
	Web        Web        `yaml:"web"`
	STT        STT        `yaml:"stt"`
	TTS        TTS        `yaml:"tts"`
	Delegation Delegation `yaml:"delegation"`
	Cron       Cron       `yaml:"cron"`
	Sessions   Sessions   `yaml:"sessions"`
	Logging    Logging    `yaml:"logging"`
	Privacy    Privacy    `yaml:"privacy"`
	Security   Security   `yaml:"security"`
}

const exampleHead = `# Configuration of hermesd: ~/.hermes/config.yaml.
#
# Every key is here with its default. A line that begins with # and no space is
# a key: take the # away to change it.
#
# A key may also come from the environment or from ~/.hermes/.env, which is the
# place for secrets; flags go before the environment, the environment before
# .env, and .env before this file. In texts ${NAME} and ${NAME:-default} stand
# for variables, $$ for a dollar sign. Times are written 30s, 5m or 1h30m, or as
# a number of seconds. A secret KEY may be given as KEY_file: the name of a file
# that holds it. Check this file with: hermesd config check
`

// Example returns the example configuration: every key with its default, range
// and one line of explanation. Used unchanged it has no effect.
func Example() []byte { return withVariables(yamlconf.Example(new(Config), exampleHead)) }

// Schema returns the JSON schema of config.yaml, for editors. It is stricter
// than Load: it does not contain the keys that only upstream Hermes has.
func Schema() ([]byte, error) {
	s, err := yamlconf.Schema(new(Config), "hermesd config.yaml")
	return withVariables(s), err
}

// withVariables names in a description of the keys the variables with keys of providers.
func withVariables(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("$variables"), []byte(ServiceVariables()))
}

// A Setting is one key of the effective configuration. Of a secret it shows only
// whether it is set.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings returns every key of c with its value and origin, in the order of the
// example configuration.
func Settings(c *Config, r Report) (all []Setting) {
	yamlconf.Walk(c, func(path string, v any) {
		s := Setting{Key: path, Value: v, Origin: r.Origins[path].String()}
		switch x := s.Value.(type) {
		case time.Duration:
			s.Value = yamlconf.Span(x)
		case secret.Value:
			s.Value = x.String()
		}
		all = append(all, s)
	})
	return all
}

// Show writes the effective configuration to w: one key per line with its origin,
// and the models in use. No secret is shown.
func Show(w io.Writer, c *Config, r Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# home: %s\n", r.Home)
	switch {
	case r.File != "":
		fmt.Fprintf(&b, "# file: %s\n", r.File)
	default:
		fmt.Fprintf(&b, "# file: none (%s does not exist)\n", r.Missing)
	}
	fmt.Fprintf(&b, "# model: %s\n", r.Model)
	for _, f := range r.Fallbacks {
		fmt.Fprintf(&b, "# fallback: %s\n", f)
	}
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range Settings(c, r) {
		fmt.Fprintf(tw, "%s: %s\t# %s\n", s.Key, yamlconf.Flow(s.Value), s.Origin)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	if _, err := io.WriteString(w, r.Secrets.Mask(b.String())); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return nil
}
