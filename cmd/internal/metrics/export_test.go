package metrics

// Definitions returns the metrics of this program, without those of the Go
// runtime and the process, in the order of docs/metrics.md.
func Definitions() []Definition {
	return []Definition{
		messages, denials, inboxEntries,
		turns, resumed, turnTime, turnWait, turnsRunning, turnsQueued, paused,
		attempts, rateLimited, attemptTime, latency, outboxRows, undelivered,
		calls, callTime, firstToken, tokens, cost, breaks, cacheMissed,
		compactions, background, backgroundWaiting, toolCalls, toolTime, mediaCalls, mediaTime, memoryCalls, memoryTime, memoryRecalls, memoryLost, memoryUp, memorySuccess, memoryEvents, memoryOldest,
		occurrences, jobs, jobsRunning, jobsWaiting, clock,
		accountUp, lastContact, storeCommits, storeOperations, storeTime, storeWritten, storeBytes, storeUp, damage,
		build, started, panics, logged, configRead, configOK, configWaiting,
	}
}
