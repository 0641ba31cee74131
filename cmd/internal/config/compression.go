package config

import (
	"time"

	"hermesd/internal/secret"
)

// Compression configures when and how conversations are compacted.
type Compression struct {
	Enabled                 bool          `yaml:"enabled" default:"true" doc:"Summarise the older part of a conversation before it fills the model's context. Nothing is deleted: it is archived, and can be searched."`
	Threshold               float64       `yaml:"threshold" default:"0.5" range:"0..1" doc:"Share of the context at which the agent compacts inside a turn. A value that is written holds as it is."`
	TargetRatio             float64       `yaml:"target_ratio" default:"0.2" range:"0.1..0.8" doc:"Share of the threshold that stays as it was, at the end."`
	ProtectLastN            int           `yaml:"protect_last_n" default:"20" range:"1..10000" doc:"Messages at the end that stay as they are, at least."`
	ProtectFirstN           int           `yaml:"protect_first_n" default:"3" range:"1..100" doc:"Messages at the beginning that stay as they are, the system prompt counted."`
	MinThresholdTokens      int           `yaml:"min_threshold_tokens" default:"64000" range:"0..10000000" doc:"The threshold is at least this, and at most 0.8 of the context: half of a small one is mostly prompt. 0: exactly threshold, as also where only threshold is written."`
	HygieneHardMessageLimit int           `yaml:"hygiene_hard_message_limit" default:"5000" range:"0..10000000" doc:"Messages from which on a conversation is compacted before a turn whatever its tokens are; 0: no such limit."`
	HygieneMaxWait          time.Duration `yaml:"hygiene_max_wait" default:"30s" range:"0s..10m" doc:"How long a message waits for the summary of a compaction before its turn; then the summary is made without a model. It waits longer if 95 % of the context are used."`
	RefreshMemory           bool          `yaml:"refresh_memory" default:"false" doc:"Read memories again at a compaction, as part of the same break of the provider's cache."`
}

// Context selects the context engine.
type Context struct {
	Engine string `yaml:"engine" default:"compressor" doc:"compressor: one summary. lcm: a tree of summaries, from which every message can be brought back. Another name: a program in plugins/context_engine/NAME."`
}

// Auxiliary configures the models of tasks other than answering.
type Auxiliary struct {
	Compression     Task         `yaml:"compression"`
	Vision          OptionalTask `yaml:"vision"`
	TitleGeneration OptionalTask `yaml:"title_generation"`
	Approval        OptionalTask `yaml:"approval"`
}

// OptionalTask configures the model of a task that is off unless a model is named.
type OptionalTask struct {
	Provider string        `yaml:"provider" enum:"|auto|main|anthropic|openai|openrouter|ollama|custom|demo" doc:"Who does it: main is the model that answers; empty and auto: nobody."`
	Model    string        `yaml:"model" doc:"As model.default; empty: the provider's usual one."`
	BaseURL  string        `yaml:"base_url" doc:"As model.base_url."`
	APIKey   secret.Value  `yaml:"api_key" doc:"As model.api_key."`
	Timeout  time.Duration `yaml:"timeout" default:"60s" range:"5s..10m" doc:"How long one call may take."`
}

// Task configures the model of one task.
type Task struct {
	Provider      string        `yaml:"provider" default:"auto" enum:"auto|main|anthropic|openai|openrouter|ollama|custom|demo" doc:"Who does it. auto and main: the model that answers."`
	Model         string        `yaml:"model" doc:"As model.default; empty: the provider's usual one."`
	BaseURL       string        `yaml:"base_url" doc:"As model.base_url."`
	APIKey        secret.Value  `yaml:"api_key" doc:"As model.api_key."`
	Timeout       time.Duration `yaml:"timeout" default:"120s" range:"5s..1h" doc:"How long one call may take."`
	ContextLength int           `yaml:"context_length" default:"0" range:"0..100000000" doc:"Tokens its context holds; 0: found out."`
}
