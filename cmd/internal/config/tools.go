package config

import (
	"time"

	"hermesd/internal/secret"
)

// Terminal configures the working directory of tools and how commands run.
type Terminal struct {
	CWD            string        `yaml:"cwd" env:"TERMINAL_CWD" doc:"Working directory of tools, relative to the home; empty or a dot: workspace. May be written as workspace: DIR."`
	Enabled        bool          `yaml:"enabled" default:"true" doc:"The agent has a terminal: owners can have it run commands."`
	Sandbox        string        `yaml:"sandbox" default:"auto" enum:"auto|off" replaced:"require=auto" doc:"auto: commands run in the best sandbox that works on this machine; if none works, the agent has no terminal. off: commands may do what the account of the daemon may do."`
	ReadPaths      []string      `yaml:"read_paths" doc:"Absolute paths that commands in the sandbox may read and execute but not change, such as toolchains."`
	Network        bool          `yaml:"network" env:"TERMINAL_DOCKER_NETWORK" default:"true" doc:"Commands in the sandbox may speak to other machines."`
	Timeout        time.Duration `yaml:"timeout" env:"TERMINAL_TIMEOUT" default:"180s" range:"1s..1h" doc:"How long a command may take that the agent waits for. It may ask for up to 10 minutes."`
	MaxProcesses   int           `yaml:"max_processes" default:"512" range:"16..100000" doc:"Processes that may run at once in the sandbox."`
	EnvPassthrough []string      `yaml:"env_passthrough" doc:"Names of variables of the environment that commands get in addition to PATH, HOME and the like. No others are passed. Their values are masked as secrets, unless they are plain words or numbers."`
}

// PlatformToolsets configures the tools of conversations that are on none of the chat
// platforms, which have a key of their own.
type PlatformToolsets struct {
	CLI       []string `yaml:"cli" default:"all" doc:"Tools that conversations in the terminal get; all: what toolsets at the top says. For a chat platform this is its key toolsets."`
	APIServer []string `yaml:"api_server" default:"all" doc:"Tools that conversations over the HTTP API get."`
	Cron      []string `yaml:"cron" default:"all" doc:"Tools that scheduled prompts get."`
}

// Approvals configures which commands need an approval, and who gives it.
type Approvals struct {
	Mode     string        `yaml:"mode" default:"manual" enum:"manual|smart|off" doc:"Before a command that needs an approval: a user is asked, the auxiliary model decides whether a user is asked, or it runs. What is blocked never runs."`
	Timeout  time.Duration `yaml:"timeout" default:"300s" range:"10s..1h" doc:"How long a request waits for an answer; then it is denied."`
	Deny     []string      `yaml:"deny" doc:"Commands that never run, for any user, with *, ? and [...], such as \"git push --force*\"."`
	Commands []string      `yaml:"commands" doc:"Rows that are added to the table of commands that run without an approval. docs/approvals.md describes them."`
}

// Web configures the web search of the agent.
type Web struct {
	Search WebSearch `yaml:"search"`
}

// WebSearch configures a search service.
type WebSearch struct {
	Provider string       `yaml:"provider" enum:"|searxng|brave|tavily" doc:"The service that is asked; empty: the agent cannot search the web."`
	BaseURL  string       `yaml:"base_url" doc:"Where it is; searxng needs it, such as http://127.0.0.1:8888. Empty: the provider's own address."`
	APIKey   secret.Value `yaml:"api_key" doc:"Key for it; BRAVE_API_KEY, TAVILY_API_KEY."`
}

// STT configures the transcription of voice messages.
type STT struct {
	Enabled  bool         `yaml:"enabled" default:"true" doc:"Write down voice messages, once base_url or api_key is set."`
	BaseURL  string       `yaml:"base_url" doc:"A service with OpenAI's /audio/transcriptions, up to and including /v1; empty: https://api.openai.com/v1."`
	Model    string       `yaml:"model" default:"gpt-4o-mini-transcribe" doc:"The model that listens."`
	Language string       `yaml:"language" doc:"What people speak, such as de; empty: it is found out."`
	APIKey   secret.Value `yaml:"api_key" env:"STT_API_KEY" doc:"Key for it; STT_API_KEY."`
}

// TTS configures speech synthesis of answers.
type TTS struct {
	BaseURL string       `yaml:"base_url" doc:"A service with OpenAI's /audio/speech, up to and including /v1; empty: https://api.openai.com/v1 if api_key is set, else there is no /voice."`
	Model   string       `yaml:"model" default:"gpt-4o-mini-tts" doc:"The model that speaks."`
	Voice   string       `yaml:"voice" default:"alloy" doc:"Whose voice it has."`
	Format  string       `yaml:"format" default:"opus" enum:"opus|mp3" doc:"opus is shown as a voice message."`
	APIKey  secret.Value `yaml:"api_key" env:"TTS_API_KEY" doc:"Key for it; TTS_API_KEY."`
}

// openAI is the address of speech services without a configured address.
const openAI = "https://api.openai.com/v1"

// Address returns the address of the transcription service; "" if there is none.
func (s STT) Address() string {
	if !s.Enabled {
		return ""
	}
	return speechAddress(s.BaseURL, s.APIKey)
}

// Address returns the address of the speech synthesis service; "" if there is none.
func (t TTS) Address() string { return speechAddress(t.BaseURL, t.APIKey) }

func speechAddress(base string, key secret.Value) string {
	if base == "" && key != "" {
		return openAI
	}
	return base
}

// Delegation configures the sub-agents that delegate_task starts.
type Delegation struct {
	MaxConcurrent int           `yaml:"max_concurrent_children" env:"DELEGATION_MAX_CONCURRENT_CHILDREN" default:"3" range:"1..1000" doc:"Sub-agents of one call that run at once; the others of it wait. A call starts at most 3."`
	MaxIterations int           `yaml:"max_iterations" default:"50" range:"1..1000" doc:"Most model calls of a sub-agent; then one more without tools asks for its report."`
	Timeout       time.Duration `yaml:"child_timeout_seconds" default:"0s" range:"0s..24h" doc:"How long a sub-agent may take, as a duration or in seconds; then it is stopped. 0: no limit of its own."`
	MaxReport     int           `yaml:"max_summary_chars" default:"0" range:"0..10000000" doc:"Most characters of a sub-agent's report, at most 20,000; 0: 20,000."`
}

// Cron configures scheduled prompts.
type Cron struct {
	CatchUp              string `yaml:"catch_up" default:"once" enum:"once|none|all" doc:"Which occurrences missed during downtime run at start: the newest, none, or all."`
	MaxParallelJobs      int    `yaml:"max_parallel_jobs" default:"4" range:"0..1000" doc:"Scheduled prompts that run at once; others wait. 0: no limit."`
	AttachToSession      bool   `yaml:"attach_to_session" default:"true" doc:"The conversation of a chat knows what scheduled prompts have said there."`
	AllowAgentScheduling bool   `yaml:"allow_agent_scheduling" default:"false" doc:"Scheduled prompts may make and change others, in the name of who made them and for that chat."`
}

// Sessions configures how long conversations are stored.
type Sessions struct {
	AutoPrune     bool `yaml:"auto_prune" default:"true" doc:"false: retention_days has no effect."`
	RetentionDays int  `yaml:"retention_days" default:"0" range:"0..36500" doc:"Conversations in which nothing was said for so many days are deleted, with everything that belongs to them; 0: never."`
}

// Retention returns after how many days conversations are deleted; 0: never.
func (s Sessions) Retention() int {
	if !s.AutoPrune {
		return 0
	}
	return s.RetentionDays
}
