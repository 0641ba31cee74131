// Package hygiene keeps sessions below 85 % of the context window: it decides whether a
// session is compacted before its next turn, and runs such compactions outside of turns.
// This is a safety net for growth between turns; during a turn the context engine
// compacts, at a lower threshold. Decide uses figures that are known already, so its cost
// does not depend on the history. The package knows neither platforms nor providers.
package hygiene

// Settings are the keys of `compression` that apply to hygiene.
type Settings struct {
	Enabled bool
	// MessageLimit is the number of messages at which a session is compacted whatever
	// its tokens are, for providers that report no usage; 0: no limit.
	MessageLimit int
	// Threshold is the fraction of the context length at which the context engine
	// compacts.
	Threshold float64
}

// MaxRequest returns the number of tokens that a request may have: the threshold of
// hygiene, or that of the context engine if it is higher.
func (s Settings) MaxRequest(contextLength int) int {
	return max(Threshold(contextLength), int(s.Threshold*float64(contextLength)))
}

// Facts are the figures of a session before a turn.
type Facts struct {
	// Reported is the number of tokens that the provider reported for the last call, 0
	// if it reported none. Since is the estimate of what was added after that call.
	Reported, Since int
	// Estimate is the estimated number of tokens of transcript, prompt and tools.
	Estimate int
	Window   int // context length of the model in tokens; 0 if unknown
	Messages int // active messages, without the system prompt
	// CoolingDown: a compaction failed recently. Busy: the session is being compacted.
	CoolingDown, Busy bool
}

// Tokens returns the size of the session: the reported tokens and what was added since,
// or the estimate if nothing was reported.
func (f Facts) Tokens() int {
	if f.Reported > 0 {
		return f.Reported + f.Since
	}
	return f.Estimate
}

// The thresholds in percent of the context length.
const (
	thresholdPercent = 85 // compact the session
	urgentPercent    = 95 // the message waits for the compaction
)

// MaxShare is the share of the context length that a request may have, unless the
// threshold of the context engine is higher.
const MaxShare = thresholdPercent / 100.0

// minHistory is the minimum number of messages for a compaction.
const minHistory = 4

// Threshold returns the number of tokens at which a session with this context length is
// compacted.
func Threshold(contextLength int) int { return contextLength * thresholdPercent / 100 }

// Urgent returns the number of tokens at which a message waits for the compaction, and
// at which the cooldown of the context engine is ignored.
func Urgent(contextLength int) int { return contextLength * urgentPercent / 100 }

// A Decision is the result of Decide.
type Decision struct {
	Compress bool
	// Urgent: the message waits until the compaction has ended.
	Urgent bool
	Tokens int // Facts.Tokens
	// Reason says in a few words what the decision is based on.
	Reason string
}

// Decide returns whether the session is compacted before its turn. More tokens never
// change the decision from yes to no.
func Decide(f Facts, s Settings) Decision {
	d := Decision{Tokens: f.Tokens()}
	known := f.Window > 0
	tokensReached := known && d.Tokens >= Threshold(f.Window)
	messagesReached := s.MessageLimit > 0 && f.Messages >= s.MessageLimit
	d.Urgent = known && d.Tokens >= Urgent(f.Window)
	switch {
	case !s.Enabled:
		d.Reason = "compression is switched off"
	case f.Messages < minHistory:
		d.Reason = "too few messages"
	case !tokensReached && !messagesReached:
		d.Reason = "it is small enough"
	case f.Busy:
		d.Reason = "it is being compacted already"
	case f.CoolingDown && !d.Urgent:
		d.Reason = "the last pass failed a short while ago"
	case tokensReached:
		d.Compress, d.Reason = true, "tokens"
	default:
		d.Compress, d.Reason = true, "messages"
	}
	return d
}
