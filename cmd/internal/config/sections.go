package config

import (
	"path/filepath"
	"time"

	"hermesd/agent"
	"hermesd/cmd/internal/config/timezone"
	"hermesd/internal/secret"
)

// The sections below belong to packages that do not define their own settings.

// Model configures the main model.
type Model struct {
	Default       string        `yaml:"default" doc:"Name of the model as its provider knows it; empty: the provider's usual one, where there is one. May be written as model: NAME."`
	Provider      ServiceName   `yaml:"provider" default:"auto" enum:"auto" doc:"Who serves it. auto looks at base_url, then at which key is set, else takes the built-in demo model."`
	BaseURL       string        `yaml:"base_url" doc:"Where it is served; OpenAI-compatible: up to and including /v1, Anthropic: without /v1. Empty: the provider's own address."`
	APIKey        secret.Value  `yaml:"api_key" doc:"Key for it; empty: $variables, by provider."`
	ContextLength int           `yaml:"context_length" default:"0" range:"0..100000000" doc:"Context length in tokens; 0: detected. It does not change Ollama's: num_ctx in the Modelfile or OLLAMA_CONTEXT_LENGTH on the server sets that."`
	DemoDelay     time.Duration `yaml:"demo_delay" deprecated:"demo_pause" default:"15ms" range:"0s..10s" doc:"Pause of the built-in demo model before each piece of an answer."`
	MaxTokens     int           `yaml:"max_tokens" default:"0" range:"0..100000000" doc:"Most tokens of one answer; 0: the provider's limit."`
}

// Fallback configures a model that is used if the main model fails.
type Fallback struct {
	Provider ServiceName  `yaml:"provider" default:"auto" enum:"auto" doc:"As model.provider."`
	Model    string       `yaml:"model" doc:"As model.default."`
	BaseURL  string       `yaml:"base_url" doc:"As model.base_url."`
	APIKey   secret.Value `yaml:"api_key" doc:"As model.api_key."`
	// ContextLength is that of this model at this provider.
	ContextLength int `yaml:"context_length" default:"0" range:"0..10000000" doc:"As model.context_length."`
}

// CustomProvider configures a self-hosted server, in upstream's format.
type CustomProvider struct {
	Name    string                 `yaml:"name" doc:"What you call it."`
	BaseURL string                 `yaml:"base_url" doc:"Where it is: this is the entry of models with that base_url."`
	APIKey  secret.Value           `yaml:"api_key" doc:"Key of models there that have none of their own."`
	Models  map[string]CustomModel `yaml:"models" names:"any" doc:"What its models take, by their names: NAME: {context_length: 32768}."`
}

// CustomModel configures a model of a CustomProvider.
type CustomModel struct {
	ContextLength int `yaml:"context_length" default:"0" range:"0..10000000" doc:"As model.context_length."`
}

// Agent configures the agent and what the gateway adds to its prompts.
type Agent struct {
	agent.Config          `yaml:",inline"`
	EphemeralSystemPrompt string            `yaml:"ephemeral_system_prompt" env:"HERMES_EPHEMERAL_SYSTEM_PROMPT" alias:"system_prompt" doc:"Text that goes with every model call and is never stored."`
	OverlayPlacement      string            `yaml:"overlay_placement" default:"tail" enum:"tail|turn|system" doc:"Where text that is never stored is placed: at the end of each call; with the turn's own message (always, if the model reasons); or, for ephemeral_system_prompt, in its own system block."`
	PrefillMessagesFile   string            `yaml:"prefill_messages_file" env:"HERMES_PREFILL_MESSAGES_FILE" doc:"JSON file of messages that stand between the prompt and the conversation in every call, relative to the home; HERMES_PREFILL_MESSAGES_FILE."`
	ToolUseEnforcement    []string          `yaml:"tool_use_enforcement" default:"auto" doc:"Models that are instructed to use tools instead of announcing it: auto, on, off, or parts of their names."`
	SkipContextFiles      bool              `yaml:"skip_context_files" default:"false" doc:"Omit SOUL.md and the project's context files: the built-in identity is used."`
	LoadSoul              bool              `yaml:"load_soul" default:"false" doc:"Scheduled prompts that name no folder to work in keep SOUL.md; project files stay out of them in any case."`
	DisabledToolsets      []string          `yaml:"disabled_toolsets" doc:"Tools that no conversation gets, by their names or those of toolsets."`
	Personalities         map[string]string `yaml:"personalities" doc:"Texts by name for /personality, in addition to the built-in ones."`
}

// Memory configures the memory stores.
type Memory struct {
	MemoryEnabled      bool   `yaml:"memory_enabled" default:"true" doc:"The agent keeps notes in memories/MEMORY.md."`
	UserProfileEnabled bool   `yaml:"user_profile_enabled" default:"true" doc:"The agent keeps what it knows of its owner in memories/USER.md."`
	MemoryCharLimit    int    `yaml:"memory_char_limit" default:"2200" range:"200..100000" doc:"Most characters of MEMORY.md; all of them stand in every prompt."`
	UserCharLimit      int    `yaml:"user_char_limit" default:"1375" range:"200..100000" doc:"Most characters of USER.md."`
	NudgeInterval      int    `yaml:"nudge_interval" default:"10" range:"0..1000" doc:"Turns after which the agent is reminded to keep what it has learnt; 0: never."`
	WriteApproval      bool   `yaml:"write_approval" default:"false" doc:"true: nothing is kept without an approval. hermesd cannot ask for one here, so the agent reads what is kept and keeps nothing."`
	Scope              string `yaml:"scope" default:"home" enum:"home|platform|user" doc:"Who shares the memories: the owners, on all platforms; each platform has its own; each person has their own."`

	// What follows configures the external provider.
	Provider       string        `yaml:"provider" enum:"|honcho|openviking|mem0|hindsight|holographic|retaindb|byterover|supermemory" doc:"External memory, in addition to the files above; empty: none. Its keys are in its own files and variables, as in Hermes; see docs/memory-providers.md."`
	RecallWait     time.Duration `yaml:"recall_wait" default:"800ms" range:"0s..10s" doc:"How long an answer waits at most for what the provider remembers."`
	RecallMaxChars int           `yaml:"recall_max_chars" default:"10000" range:"1000..50000" doc:"Most characters of what is recalled in one turn."`
	People         string        `yaml:"people" default:"owners" enum:"owners|members|everyone" doc:"Whose words go to the provider and who gets what it remembers: owners, also members, or guests too. Everybody but the owners has a memory of their own."`
	Rooms          bool          `yaml:"rooms" default:"false" doc:"A conversation that several people share has a memory of its own; false: none."`
	CronRecall     bool          `yaml:"cron_recall" default:"false" doc:"Scheduled prompts of owners get what is remembered. Nothing of them is stored in any case."`
	Sync           bool          `yaml:"sync" default:"true" doc:"Finished turns are sent to the provider."`
	Mirror         bool          `yaml:"mirror" default:"true" doc:"The entries of MEMORY.md and USER.md are sent to the provider too."`
	SyncTools      bool          `yaml:"sync_tools" default:"false" doc:"Calls of tools and their results are sent with the turns; OpenViking only."`
	QueueMax       int           `yaml:"queue_max" default:"20000" range:"100..1000000" doc:"Most events that wait for a provider that does not answer; what comes then is not sent, and an owner is told."`

	OpenViking OpenViking `yaml:"openviking"`
	RetainDB   RetainDB   `yaml:"retaindb"`
	ByteRover  ByteRover  `yaml:"byterover"`
}

// OpenViking says where the configuration of OpenViking's own program is.
type OpenViking struct {
	UseCLIConfig  bool   `yaml:"use_ovcli_config" json:"use_ovcli_config" default:"false" doc:"Address and key are those of OpenViking's command line program."`
	CLIConfigPath string `yaml:"ovcli_config_path" json:"ovcli_config_path,omitempty" doc:"File of that program; empty: ~/.openviking/ovcli.conf."`
}

// RetainDB configures the provider RetainDB.
type RetainDB struct {
	BaseURL string `yaml:"base_url" json:"base_url,omitempty" doc:"Address of a server of your own, if RETAINDB_BASE_URL names none; empty: the service."`
	Project string `yaml:"project" json:"project,omitempty" doc:"Project there, if RETAINDB_PROJECT names none; empty: default, or hermes- and the name of the profile or of a home that is not .hermes."`
}

// ByteRover configures the provider ByteRover.
type ByteRover struct {
	AutoExtract bool `yaml:"auto_extract" json:"auto_extract" default:"true" doc:"Finished turns are curated."`
}

// Honcho configures the provider Honcho, where its own file and variables say nothing.
type Honcho struct {
	BaseURL string  `yaml:"base_url" json:"base_url,omitempty" doc:"Address of a Honcho server of your own, if honcho.json and HONCHO_BASE_URL name none."`
	Timeout float64 `yaml:"timeout" json:"timeout,omitempty" alias:"request_timeout" default:"0" range:"0..3600" doc:"Seconds that a call to Honcho may take, if honcho.json and HONCHO_TIMEOUT do not say it; 0: 30."`
}

// Plugins configures what Hermes has as plugins and hermesd has built in.
type Plugins struct {
	Holographic Holographic `yaml:"hermes-memory-store"`
}

// Holographic configures the provider Holographic.
type Holographic struct {
	DBPath           string  `yaml:"db_path" json:"db_path,omitempty" doc:"File of the facts; $HERMES_HOME and ~ are replaced. Empty: memory_store.db in the home."`
	AutoExtract      bool    `yaml:"auto_extract" json:"auto_extract" default:"false" doc:"Sentences such as \"I prefer …\" become facts when a conversation ends."`
	DefaultTrust     float64 `yaml:"default_trust" json:"default_trust" default:"0.5" range:"0..1" doc:"Trust in a new fact."`
	MinTrust         float64 `yaml:"min_trust_threshold" json:"min_trust_threshold" default:"0.3" range:"0..1" doc:"Least trust in a fact that is recalled."`
	Dimensions       int     `yaml:"hrr_dim" json:"hrr_dim" default:"1024" range:"64..8192" doc:"Length of the vectors."`
	VectorWeight     float64 `yaml:"hrr_weight" json:"hrr_weight" default:"0.3" range:"0..1" doc:"Weight of the vectors in the order of results."`
	TemporalHalfLife int     `yaml:"temporal_decay_half_life" json:"temporal_decay_half_life" default:"0" range:"0..36500" doc:"Days after which a fact counts half; 0: never."`
}

// Skills configures where skills are.
type Skills struct {
	ExternalDirs []string `yaml:"external_dirs" doc:"More directories with skills, read only, relative to the home."`
	Disabled     []string `yaml:"disabled" doc:"Names of skills that are not offered."`
	// WriteApproval leaves out the tool that changes skills.
	WriteApproval bool `yaml:"write_approval" default:"false" doc:"true: no skill is changed without an approval. hermesd cannot ask for one here, so the agent changes none."`
}

// SessionSearch configures the search in past conversations.
type SessionSearch struct {
	Summarize bool `yaml:"summarize" default:"false" doc:"The model that writes summaries (auxiliary.compression, else the one that answers) says what each conversation found tells about the query, instead of its passages."`
}

// ProviderRouting says which of the providers behind OpenRouter may get requests.
type ProviderRouting struct {
	Routing `yaml:",inline"`
	Models  map[string]Routing `yaml:"models" names:"any" doc:"Other rules for single models, by their names: NAME: {only: [...]}, with the keys above; a key that is left out is that above."`
}

// Routing says for a model which providers may get its requests.
type Routing struct {
	DataCollection    string   `yaml:"data_collection" enum:"|allow|deny" doc:"deny: none that may keep or train on requests; empty: as your account is set."`
	Only              []string `yaml:"only" doc:"These providers and no others."`
	Ignore            []string `yaml:"ignore" doc:"Not these providers."`
	Order             []string `yaml:"order" doc:"These providers first, in this order."`
	RequireParameters bool     `yaml:"require_parameters" default:"false" doc:"None that ignores a parameter of the request."`
	Sort              string   `yaml:"sort" enum:"|price|throughput|latency" doc:"Which provider is tried first; empty: OpenRouter decides."`
}

// PromptCaching configures the caching of prefixes by providers.
type PromptCaching struct {
	CacheTTL string `yaml:"cache_ttl" default:"5m" enum:"5m|1h|off" doc:"How long a provider keeps a prefix that is not used; 1h costs more to write. off: providers are not asked to keep any."`
}

// TTL returns the time for which prefixes are kept; "" if they are not to be.
func (p PromptCaching) TTL() string {
	if p.CacheTTL == "off" {
		return ""
	}
	return p.CacheTTL
}

// Display configures what users see of a turn.
type Display struct {
	Language      string `yaml:"language" default:"en" enum:"en|de" doc:"Language of what the daemon itself says in chats: commands, their help and menus, notices, errors, requests for approval."`
	BusyAck       bool   `yaml:"busy_ack_enabled" default:"false" doc:"Tell who writes to a busy agent that the message waits, at most once in 30 s."`
	BusyInputMode string `yaml:"busy_input_mode" default:"interrupt" enum:"interrupt|queue|steer" doc:"What a message does that comes while a turn runs: stops it, waits, or is shown to the model after the next tool."`
	ToolProgress  string `yaml:"tool_progress" default:"all" enum:"off|new|all|verbose" doc:"Which tool calls are shown while an answer is on its way: none, when the tool changes, all, or all with their arguments. Unless off, what the agent writes ahead of a call stays as a message of its own."`
}

// Streaming configures previews of answers.
type Streaming struct {
	Enabled      bool          `yaml:"enabled" default:"true" doc:"Show answers while they are written, where the platform can edit messages."`
	EditInterval time.Duration `yaml:"edit_interval" default:"1s" range:"200ms..1m" doc:"Least time between two edits of one message; a platform may need more (Slack 3 s)."`
}

// Delivery configures the delivery of replies.
type Delivery struct {
	Uncertain string `yaml:"uncertain" default:"resend" enum:"resend|hold|drop" doc:"When it is unknown whether a reply arrived: send it again marked as a possible repeat, keep it for the operator, or give it up."`
	EditFirst bool   `yaml:"edit_first" default:"false" doc:"Send a placeholder at once and make the reply an edit of it, which can be repeated without doubling."`
}

// SessionReset configures when a conversation starts a new session by itself.
type SessionReset struct {
	Mode        string `yaml:"mode" default:"none" enum:"none|idle|daily|both" doc:"When a session starts over by itself: never, when idle, once a day, or whichever comes first. Nothing is deleted."`
	IdleMinutes int    `yaml:"idle_minutes" default:"1440" range:"1..5256000" doc:"Minutes without a message after which a session is idle."`
	AtHour      int    `yaml:"at_hour" default:"4" range:"0..23" doc:"Hour of the day, in timezone, at which it is a new day."`
}

// Backlog configures what happens to messages sent while the daemon was down.
type Backlog struct {
	MaxAge time.Duration `yaml:"max_age" default:"24h" doc:"Messages that are older than this when they arrive are not answered; their sender is notified."`
}

// Logging configures the log.
type Logging struct {
	Level  string `yaml:"level" default:"info" enum:"debug|info|warn|error" doc:"Least important lines that are logged; what people write is logged at debug only."`
	Format string `yaml:"format" default:"console" enum:"console|json" doc:"Form of a line: for people or for machines."`
	File   string `yaml:"file" doc:"File to log to, relative to the home; empty: standard error."`
}

// Privacy configures what the model learns about users.
type Privacy struct {
	RedactPII bool `yaml:"redact_pii" default:"false" doc:"Show the model hashes instead of the ids of people and chats, on platforms where it needs no ids (Telegram)."`
}

// Security holds switches whose defaults are the safe values.
type Security struct {
	ProtectedInstructionFiles         bool             `yaml:"protected_instruction_files" default:"true" doc:"Changes of files that instruct the agent (AGENTS.md, CLAUDE.md, SOUL.md, .hermes.md, .cursorrules and the like) need an approval."`
	ProtectedInstructionExtraPatterns []string         `yaml:"protected_instruction_extra_patterns" doc:"Names of more such files, with * and ?."`
	WriteSafeRoot                     []string         `yaml:"write_safe_root" env:"HERMES_WRITE_SAFE_ROOT" paths:"true" doc:"Folders, separated as in PATH or as a list, below which alone the file tools change files; HERMES_WRITE_SAFE_ROOT. Empty: the whole workspace. Commands are limited by the sandbox only."`
	WebsiteBlocklist                  WebsiteBlocklist `yaml:"website_blocklist"`
	RedactSecrets                     bool             `yaml:"redact_secrets" env:"HERMES_REDACT_SECRETS" default:"true" doc:"Mask secrets in conversations: in what models read, what is stored and what chats show. Logs, exports and the output of commands are always masked."`
}

// WebsiteBlocklist configures pages that the agent does not read.
type WebsiteBlocklist struct {
	Enabled     bool     `yaml:"enabled" default:"false" doc:"The web tools read no page of these domains. Commands are limited by terminal.network only."`
	Domains     []string `yaml:"domains" doc:"Domains such as example.com, which means what is below it too."`
	SharedFiles []string `yaml:"shared_files" doc:"Files with a domain on each line, relative to the home. While one cannot be read, the agent has no web tools."`
}

// WriteRoots returns the absolute paths of security.write_safe_root without symbolic
// links.
func (c *Config) WriteRoots(home string) []string {
	var roots []string
	for _, path := range c.Security.WriteSafeRoot {
		roots = append(roots, resolve(InHome(home, path)))
	}
	return roots
}

// Workspace returns the working directory of tools.
func (c *Config) Workspace(home string) string {
	if c.Terminal.CWD == "" || c.Terminal.CWD == "." {
		return filepath.Join(home, "workspace")
	}
	return InHome(home, c.Terminal.CWD)
}

// ReadPaths returns the absolute paths of terminal.read_paths.
func (c *Config) ReadPaths(home string) []string {
	var paths []string
	for _, path := range c.Terminal.ReadPaths {
		paths = append(paths, InHome(home, path))
	}
	return paths
}

// LogFile returns the file to log to, "" for standard error.
func (c *Config) LogFile(home string) string {
	if c.Logging.File == "" {
		return ""
	}
	return InHome(home, c.Logging.File)
}

// Location returns the configured time zone. It is checked when the
// configuration is read.
func (c *Config) Location() *time.Location {
	if c.Timezone == "" {
		return timezone.Local()
	}
	l, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return time.Local
	}
	return l
}

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
	Provider ServiceName   `yaml:"provider" enum:"|auto|main" doc:"Provider of the model: main is the model that answers; empty and auto: none."`
	Model    string        `yaml:"model" doc:"As model.default; empty: the provider's usual one."`
	BaseURL  string        `yaml:"base_url" doc:"As model.base_url."`
	APIKey   secret.Value  `yaml:"api_key" doc:"As model.api_key."`
	Timeout  time.Duration `yaml:"timeout" default:"60s" range:"5s..10m" doc:"How long one call may take."`
}

// Task configures the model of one task.
type Task struct {
	Provider      ServiceName   `yaml:"provider" default:"auto" enum:"auto|main" doc:"Provider of the model. auto and main: the model that answers."`
	Model         string        `yaml:"model" doc:"As model.default; empty: the provider's usual one."`
	BaseURL       string        `yaml:"base_url" doc:"As model.base_url."`
	APIKey        secret.Value  `yaml:"api_key" doc:"As model.api_key."`
	Timeout       time.Duration `yaml:"timeout" default:"120s" range:"5s..1h" doc:"How long one call may take."`
	ContextLength int           `yaml:"context_length" default:"0" range:"0..100000000" doc:"Tokens its context holds; 0: found out."`
}
