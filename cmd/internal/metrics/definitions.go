package metrics

// A Kind is the Prometheus type of a metric.
type Kind string

// The types in use.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Definition describes one metric. Its name ends in its unit; the name of a
// Counter ends in _total. Labels have few values only: never IDs or names of
// users, chats and sessions, and never texts.
type Definition struct {
	Name    string
	Kind    Kind
	Labels  []string
	Buckets []float64 // upper bounds in seconds, of a Histogram only
	Help    string
}

func labels(names ...string) []string { return names }

// The buckets of histograms, in seconds.
var (
	untilSent    = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	untilStarted = []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 1800}
	ofCall       = []float64{.25, .5, 1, 2, 5, 10, 20, 40, 80, 160, 320}
	ofRequest    = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ofCommit     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	ofTool       = []float64{.01, .05, .25, 1, 5, 15, 60, 300, 900}
)

// Inbound events.
var (
	messages = Definition{"hermesd_messages_total", Counter, labels("platform", "result"), nil,
		"Events from platforms. result: accepted; duplicate; denied (by an access rule); queue_full (the sender is notified); store_failed (the platform delivers it again)."}
	denials = Definition{"hermesd_messages_denied_total", Counter, labels("platform", "rule"), nil,
		"Denied events, by access rule."}
	inboxEntries = Definition{"hermesd_inbox_entries", Gauge, labels("state"), nil,
		"Messages not answered yet. state: waiting; claimed (by a turn)."}
)

// Turns.
var (
	turns = Definition{"hermesd_turns_total", Counter, labels("kind", "result"), nil,
		"Finished turns. kind: message, command, scheduled. result: replied; silent; failed (the user was notified); cancelled (by a user); superseded (by a newer message); released (to start again)."}
	resumed = Definition{"hermesd_turns_resumed_total", Counter, nil, nil,
		"Turns resumed after a crash or stop of the daemon."}
	turnTime = Definition{"hermesd_turn_duration_seconds", Histogram, labels("kind"), untilSent,
		"Time from the start of a turn to its commit."}
	turnWait = Definition{"hermesd_turn_wait_seconds", Histogram, labels("kind"), untilStarted,
		"Time from accepting a message to the start of its turn."}
	turnsRunning = Definition{"hermesd_turns_running", Gauge, nil, nil, "Running turns."}
	turnsQueued  = Definition{"hermesd_turns_queued", Gauge, nil, nil,
		"Turns that wait because of gateway.max_concurrent_turns."}
	paused = Definition{"hermesd_paused", Gauge, nil, nil, "1 while the daemon is paused (/pause)."}
)

// Delivery.
var (
	attempts = Definition{"hermesd_delivery_attempts_total", Counter, labels("platform", "outcome"), nil,
		"Delivery attempts. outcome: sent; known_not_sent (is retried); uncertain (whether it arrived); dead_letter (no longer retried); preview_given_up (the answer follows)."}
	rateLimited = Definition{"hermesd_delivery_rate_limited_total", Counter, labels("platform"), nil,
		"Deliveries that waited for a rate limit of the platform."}
	attemptTime = Definition{"hermesd_delivery_attempt_duration_seconds", Histogram, labels("platform"), ofRequest,
		"Duration of a delivery attempt."}
	latency = Definition{"hermesd_delivery_latency_seconds", Histogram, labels("platform", "kind"), untilSent,
		"Time from accepting a message to delivering the first part of an answer that was stored since the start."}
	outboxRows = Definition{"hermesd_outbox_rows", Gauge, labels("state"), nil,
		"Rows in the outbox. state: undelivered; dead_letter."}
	undelivered = Definition{"hermesd_outbox_undelivered_rows", Gauge, labels("state"), nil,
		"Undelivered rows. state: queued, attempting, known_not_sent, uncertain. Absent above 1,000 rows."}
)

// Models.
var (
	calls = Definition{"hermesd_model_calls_total", Counter, labels("provider", "model", "outcome"), nil,
		"Requests to models, with retries and summaries. outcome: ok; cancelled; or an error: auth, billing, rate_limit, overloaded, server_error, timeout, network, context_overflow, payload_too_large, image_too_large, model_not_found, policy, format_error, thinking_prefix, invalid_response, unknown."}
	callTime = Definition{"hermesd_model_call_duration_seconds", Histogram, labels("provider", "model"), ofCall,
		"Duration of successful requests, up to the last token."}
	firstToken = Definition{"hermesd_model_time_to_first_token_seconds", Histogram, labels("provider", "model"), ofCall,
		"Time until the first output of a model."}
	tokens = Definition{"hermesd_model_tokens_total", Counter, labels("provider", "model", "kind"), nil,
		"Tokens as reported by providers. kind: input (uncached), cache_read, cache_write, output."}
	cost = Definition{"hermesd_model_cost_dollars_total", Counter, labels("provider", "model"), nil,
		"Cost of successful requests. A model without a price has no series."}
	breaks = Definition{"hermesd_prefix_breaks_total", Counter, labels("reason"), nil,
		"Calls whose prefix does not extend the previous one. undeclared: a bug in hermesd."}
	cacheMissed = Definition{"hermesd_cache_missed_tokens_total", Counter, nil, nil,
		"Tokens that should have been read from the provider's cache but were not."}
)

// Compaction, tools and media tasks.
var (
	compactions = Definition{"hermesd_compactions_total", Counter, labels("engine", "reason", "outcome"), nil,
		"Compactions during turns. reason: compression (also /compress), hygiene (85 %). outcome: ok, failed (the conversation is unchanged)."}
	background = Definition{"hermesd_background_compactions_total", Counter, labels("outcome"), nil,
		"Compactions concurrent with turns. outcome: started, failed, adopted, discarded (no turn used it)."}
	backgroundWaiting = Definition{"hermesd_background_compactions", Gauge, nil, nil,
		"Background compactions running or not adopted yet."}
	toolCalls = Definition{"hermesd_tool_calls_total", Counter, labels("tool", "outcome"), nil,
		"Finished tool calls, also of sub-agents. outcome: ok, failed (the model gets the error)."}
	toolTime   = Definition{"hermesd_tool_duration_seconds", Histogram, labels("tool"), ofTool, "Duration of tool calls."}
	mediaCalls = Definition{"hermesd_media_task_calls_total", Counter, labels("task", "outcome"), nil,
		"Media tasks. task: transcription, image_description, speech_synthesis. outcome: ok, failed (the user is notified)."}
	mediaTime = Definition{"hermesd_media_task_duration_seconds", Histogram, labels("task"), ofCall, "Duration of media tasks."}
)

// External memory.
var (
	memoryCalls = Definition{"hermesd_memory_requests_total", Counter, labels("call", "result"), nil,
		"Calls of the memory provider. call: recall, standing, sync, synced, tool, check. result: ok; may_repeat (call synced: the provider cannot tell whether it has an event, which is sent again); else the class of the error."}
	memoryTime = Definition{"hermesd_memory_request_duration_seconds", Histogram, labels("call"), ofRequest,
		"Duration of such a call."}
	memoryRecalls = Definition{"hermesd_memory_recalls_total", Counter, labels("result"), nil,
		"Turns that recalled. result: ready; late (not in time), earlier (that of an earlier turn was used), none (nothing fits, or no answer)."}
	memoryLost = Definition{"hermesd_memory_left_out_total", Counter, labels("reason"), nil,
		"Omitted. reason: injection (a text of the provider that looks like an attack), queue_full (a turn not kept for the provider)."}
	memoryUp = Definition{"hermesd_memory_up", Gauge, nil, nil,
		"0 while the memory provider does not answer."}
	memorySuccess = Definition{"hermesd_memory_last_success_timestamp_seconds", Gauge, labels("call"), nil,
		"Last success of the memory provider since the start. call: recall, sync."}
	memoryEvents = Definition{"hermesd_memory_queue_events", Gauge, labels("state"), nil,
		"Events for the memory provider. state: waiting; aside (refused, until retried or dropped)."}
	memoryOldest = Definition{"hermesd_memory_queue_oldest_seconds", Gauge, nil, nil,
		"Age of the oldest waiting event."}
)

// Scheduled prompts.
var (
	occurrences = Definition{"hermesd_cron_occurrences_total", Counter, labels("outcome"), nil,
		"Occurrences of scheduled prompts. outcome: replied, silent, failed, cancelled; skipped (not run, by decision), missed (the daemon was down)."}
	jobs        = Definition{"hermesd_cron_jobs", Gauge, nil, nil, "Scheduled prompts neither paused nor completed."}
	jobsRunning = Definition{"hermesd_cron_running", Gauge, nil, nil, "Running scheduled prompts."}
	jobsWaiting = Definition{"hermesd_cron_waiting", Gauge, nil, nil, "Due scheduled prompts that wait."}
	clock       = Definition{"hermesd_cron_up", Gauge, nil, nil, "0 if the scheduler is stalled or cannot write to the store."}
)

// Platforms and the store.
var (
	accountUp = Definition{"hermesd_account_up", Gauge, labels("platform", "account"), nil,
		"1 while the account is connected. account is its name in the configuration, empty for the first one."}
	lastContact = Definition{"hermesd_account_last_contact_timestamp_seconds", Gauge, labels("platform", "account"), nil,
		"Time of the last contact with the platform."}
	storeCommits    = Definition{"hermesd_store_commits_total", Counter, nil, nil, "Transactions written to disk."}
	storeOperations = Definition{"hermesd_store_operations_total", Counter, nil, nil,
		"Operations in these transactions."}
	storeTime = Definition{"hermesd_store_commit_duration_seconds", Histogram, nil, ofCommit,
		"Time to build and write a transaction."}
	storeWritten = Definition{"hermesd_store_written_bytes_total", Counter, nil, nil, "Bytes that these transactions wrote."}
	storeBytes   = Definition{"hermesd_store_bytes", Gauge, nil, nil, "Size of the store file."}
	storeUp      = Definition{"hermesd_store_up", Gauge, nil, nil, "0 from a failed write until the next successful one."}
	damage       = Definition{"hermesd_store_damaged_records_total", Counter, nil, nil,
		"Damaged records, moved away: run `hermesd doctor --verify`."}
)

// The process.
var (
	build   = Definition{"hermesd_build_info", Gauge, labels("version"), nil, "Always 1."}
	started = Definition{"hermesd_start_timestamp_seconds", Gauge, nil, nil, "Start time of the daemon."}
	panics  = Definition{"hermesd_panics_total", Counter, labels("where"), nil,
		"Recovered panics, a bug in hermesd; the log has the stack. where: in a turn, in a tool, …"}
	logged = Definition{"hermesd_log_lines_total", Counter, labels("level"), nil,
		"Log lines. level: warn, error. None below logging.level."}
	configRead = Definition{"hermesd_config_last_reload_timestamp_seconds", Gauge, nil, nil,
		"Time of the last configuration reload."}
	configOK = Definition{"hermesd_config_last_reload_successful", Gauge, nil, nil,
		"0 if the configuration file has errors: the previous one applies."}
	configWaiting = Definition{"hermesd_config_restart_pending", Gauge, nil, nil,
		"Changed settings that need a restart; `hermesd status` lists them."}
)
