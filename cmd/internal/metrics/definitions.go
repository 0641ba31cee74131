package metrics

// A Kind is a kind of metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Definition says everything about a metric. Its name ends in its unit; what
// counts ends in _total. Labels hold a few values only: never ids or names of
// people, chats and conversations, and never texts.
type Definition struct {
	Name    string
	Kind    Kind
	Labels  []string
	Buckets []float64 // of a Histogram
	Help    string
}

func labels(names ...string) []string { return names }

// The buckets of histograms, in seconds.
var (
	untilSent  = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	untilBegun = []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 1800}
	ofCall     = []float64{.25, .5, 1, 2, 5, 10, 20, 40, 80, 160, 320}
	ofRequest  = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ofCommit   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	ofTool     = []float64{.01, .05, .25, 1, 5, 15, 60, 300, 900}
)

// What people say.
var (
	messages = Definition{"hermesd_messages_total", Counter, labels("platform", "verdict"), nil,
		"Events that platforms have offered. verdict: accepted; duplicate (offered before); refused (by a rule); overflow (too many wait in the conversation, the sender is told); unstored (the disk did not take it, the platform offers it again)."}
	refusals = Definition{"hermesd_messages_refused_total", Counter, labels("platform", "rule"), nil,
		"Events that a rule has refused: who may speak, which chats are heard, what is no message."}
	inboxEntries = Definition{"hermesd_inbox_entries", Gauge, labels("state"), nil,
		"Messages that are not answered yet. state: waiting; claimed (a turn works on it)."}
)

// Turns.
var (
	turns = Definition{"hermesd_turns_total", Counter, labels("kind", "result"), nil,
		"Turns that are over. kind: message, command, scheduled. result: replied; silent; failed (the person was told); cancelled (by a person); superseded (a newer message is answered in its place); released (nothing is committed, it begins again)."}
	resumed = Definition{"hermesd_turns_resumed_total", Counter, nil, nil,
		"Turns that were begun by a process that died, and were taken up again."}
	turnTime = Definition{"hermesd_turn_duration_seconds", Histogram, labels("kind"), untilSent,
		"From the beginning of a turn to its commit."}
	turnWait = Definition{"hermesd_turn_wait_seconds", Histogram, labels("kind"), untilBegun,
		"From the acceptance of a message to the beginning of its turn."}
	turnsRunning = Definition{"hermesd_turns_running", Gauge, nil, nil, "Turns under way."}
	turnsReady   = Definition{"hermesd_turns_ready", Gauge, nil, nil,
		"Conversations that wait because as many turns run as may (gateway.max_concurrent_turns)."}
	paused = Definition{"hermesd_paused", Gauge, nil, nil, "1 while no turn begins (/pause)."}
)

// Delivery.
var (
	attempts = Definition{"hermesd_delivery_attempts_total", Counter, labels("platform", "outcome"), nil,
		"Attempts to deliver a row of the outbox. outcome: sent; known_not_sent (tried again); uncertain (nobody knows whether it arrived; delivery.uncertain decides); dead (given up: page somebody)."}
	held = Definition{"hermesd_delivery_held_total", Counter, labels("platform"), nil,
		"How often a row waited for a limit of the platform before it was tried."}
	attemptTime = Definition{"hermesd_delivery_attempt_duration_seconds", Histogram, labels("platform"), ofRequest,
		"How long an attempt took."}
	latency = Definition{"hermesd_delivery_latency_seconds", Histogram, labels("platform", "kind"), untilSent,
		"From the acceptance of a message to the delivery of the first piece of its answer. Answers that a process finds at its start are not counted."}
	outboxRows = Definition{"hermesd_outbox_rows", Gauge, labels("state"), nil,
		"Rows of the outbox. state: undelivered; dead (given up, and kept for the operator)."}
	undelivered = Definition{"hermesd_outbox_undelivered_rows", Gauge, labels("state"), nil,
		"The undelivered rows by state: queued, attempting, known_not_sent, uncertain. Absent while the outbox has over 1,000 rows."}
)

// Models.
var (
	calls = Definition{"hermesd_model_calls_total", Counter, labels("provider", "model", "outcome"), nil,
		"Requests to models, each try of its own, summaries included. outcome: ok; cancelled; or the class of the error: auth, billing, rate_limit, overloaded, server_error, timeout, network, context_overflow, payload_too_large, image_too_large, model_not_found, policy, format_error, thinking_prefix, garbage, unknown."}
	callTime = Definition{"hermesd_model_call_duration_seconds", Histogram, labels("provider", "model"), ofCall,
		"How long answered requests took, to the last word."}
	firstWord = Definition{"hermesd_model_first_word_seconds", Histogram, labels("provider", "model"), ofCall,
		"How long it took until the model said its first word, or began to think or to call a tool."}
	tokens = Definition{"hermesd_model_tokens_total", Counter, labels("provider", "model", "kind"), nil,
		"Tokens as providers report them. kind: input (neither read from a cache nor written to it), cache_read, cache_write, output."}
	cost = Definition{"hermesd_model_cost_dollars_total", Counter, labels("provider", "model"), nil,
		"What answered requests cost by the price table. A model without a price has no series: its cost is unknown, never nothing."}
	breaks = Definition{"hermesd_prefix_breaks_total", Counter, labels("reason"), nil,
		"Model calls whose prefix does not extend the one before, by declared reason. undeclared is a bug of hermesd: page somebody."}
	missed = Definition{"hermesd_prefix_missed_tokens_total", Counter, nil, nil,
		"Tokens that a provider should have had in its cache and did not read."}
)

// What keeps contexts small, and tools.
var (
	compactions = Definition{"hermesd_compactions_total", Counter, labels("engine", "why", "outcome"), nil,
		"Passes of context engines in turns. why: compression (in the loop, or /compress), hygiene (the safety net at 85 %). outcome: ok, failed (the conversation stays as it was)."}
	passes = Definition{"hermesd_background_passes_total", Counter, labels("outcome"), nil,
		"Passes that are made beside turns: hygiene and /compress. outcome: begun, failed, adopted, forgotten (no turn took it)."}
	passesWaiting = Definition{"hermesd_background_passes", Gauge, nil, nil,
		"Passes that are under way, or made and not adopted yet."}
	toolCalls = Definition{"hermesd_tool_calls_total", Counter, labels("tool", "outcome"), nil,
		"Tool calls that are over, those of sub-agents included. outcome: ok, failed (the model reads why)."}
	toolTime   = Definition{"hermesd_tool_duration_seconds", Histogram, labels("tool"), ofTool, "How long tool calls took."}
	senseCalls = Definition{"hermesd_sense_calls_total", Counter, labels("sense", "outcome"), nil,
		"Calls for voices and pictures. sense: hearing (what is said in a recording), speaking (a recording of an answer), seeing (what a picture shows, for a model that sees none). outcome: ok, failed (the person is told)."}
	senseTime = Definition{"hermesd_sense_duration_seconds", Histogram, labels("sense"), ofCall, "How long calls for voices and pictures took."}
)

// Scheduled prompts.
var (
	slots = Definition{"hermesd_cron_slots_total", Counter, labels("outcome"), nil,
		"Times at which scheduled prompts were due. outcome: replied, silent, failed, cancelled; skipped (the daemon decided against it), missed (the daemon was not there)."}
	jobs        = Definition{"hermesd_cron_jobs", Gauge, nil, nil, "Scheduled prompts that are neither paused nor completed."}
	jobsRunning = Definition{"hermesd_cron_running", Gauge, nil, nil, "Scheduled prompts under way."}
	jobsWaiting = Definition{"hermesd_cron_waiting", Gauge, nil, nil, "Scheduled prompts that are due and wait for others to end."}
	clock       = Definition{"hermesd_cron_up", Gauge, nil, nil, "0 if the clock of scheduled prompts stands still or cannot write: page somebody."}
)

// Platforms and the store.
var (
	accountUp = Definition{"hermesd_account_up", Gauge, labels("platform", "account"), nil,
		"1 while the account is connected to its platform. account is its name in the configuration, empty for the first one."}
	accountProof = Definition{"hermesd_account_last_proof_timestamp_seconds", Gauge, labels("platform", "account"), nil,
		"When the platform last showed that it reaches us. Absent if it never did."}
	storeCommits = Definition{"hermesd_store_commits_total", Counter, nil, nil, "Transactions written to disk."}
	storeWrites  = Definition{"hermesd_store_writes_total", Counter, nil, nil,
		"Operations that these transactions carried; the quotient is how many share a commit."}
	storeTime = Definition{"hermesd_store_commit_duration_seconds", Histogram, nil, ofCommit,
		"How long it took to make and write a transaction: accepting, beginning and ending a turn wait for it."}
	storeWritten = Definition{"hermesd_store_written_bytes_total", Counter, nil, nil, "Pages that these transactions wrote, in bytes; by their number, the size of one."}
	storeBytes   = Definition{"hermesd_store_bytes", Gauge, nil, nil, "Size of the store's file."}
	storeUp      = Definition{"hermesd_store_up", Gauge, nil, nil, "0 after a write that failed, until one succeeds: page somebody."}
	damage       = Definition{"hermesd_store_damaged_records_total", Counter, nil, nil,
		"Stored records that were damaged and set aside: page somebody, and run `hermesd doctor --verify`."}
)

// The process.
var (
	build   = Definition{"hermesd_build_info", Gauge, labels("version"), nil, "1, with the version of the daemon."}
	started = Definition{"hermesd_start_timestamp_seconds", Gauge, nil, nil, "When the daemon started."}
	panics  = Definition{"hermesd_panics_total", Counter, labels("where"), nil,
		"Panics that were caught: a bug of hermesd. The log has the stack. where: in a turn, in a tool, in conversion, while sending, …"}
	logged = Definition{"hermesd_log_lines_total", Counter, labels("level"), nil,
		"Lines of the log. level: warn, error. Lines below logging.level are not counted."}
	configRead = Definition{"hermesd_config_last_reload_timestamp_seconds", Gauge, nil, nil,
		"When the configuration was last read again. Absent if it never was."}
	configOK = Definition{"hermesd_config_last_reload_successful", Gauge, nil, nil,
		"0 if the configuration as it is now has errors; the one before stays in effect."}
	configWaiting = Definition{"hermesd_config_restart_pending", Gauge, nil, nil,
		"Changed settings that wait for a restart; `hermesd status` names them."}
)

// Definitions returns every metric of hermesd's own, in the order of the page.
func Definitions() []Definition {
	return []Definition{
		messages, refusals, inboxEntries,
		turns, resumed, turnTime, turnWait, turnsRunning, turnsReady, paused,
		attempts, held, attemptTime, latency, outboxRows, undelivered,
		calls, callTime, firstWord, tokens, cost, breaks, missed,
		compactions, passes, passesWaiting, toolCalls, toolTime, senseCalls, senseTime,
		slots, jobs, jobsRunning, jobsWaiting, clock,
		accountUp, accountProof, storeCommits, storeWrites, storeTime, storeWritten, storeBytes, storeUp, damage,
		build, started, panics, logged, configRead, configOK, configWaiting,
	}
}
