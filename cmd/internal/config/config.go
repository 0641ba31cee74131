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
	"hermesd/gateway"
	"hermesd/gateway/access"
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
	Skills            Skills           `yaml:"skills"`
	SessionSearch     SessionSearch    `yaml:"session_search"`
	PricesFile        string           `yaml:"prices_file" doc:"File of prices that go before the built-in ones, YAML or JSON, relative to the home; see docs/caching.md#prices. Empty: none."`
	Timezone          string           `yaml:"timezone" doc:"IANA time zone such as Europe/Berlin; empty: that of the machine."`

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

	Toolsets   []string   `yaml:"toolsets" doc:"Tools that conversations get, by their names or those of toolsets (file, terminal, web, …); all: all. Empty: all, or small where the prompt with all tools exceeds 20 % of the model's context window. Taken when a conversation begins."`
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
