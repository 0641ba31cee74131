// Package hygiene decides whether a stored transcript must shrink before its
// next turn. It is a safety net for what grew between turns; inside a turn the
// context engine looks after itself, and earlier.
//
// The package knows of no platform and no provider. It decides from figures that
// are there already, so a decision costs the same for any history.
package hygiene

// Settings are those under `compression` that hygiene obeys.
type Settings struct {
	Enabled bool
	// MessageLimit is the number of messages from which on it fires whatever the
	// tokens are, so that a provider that stopped reporting cannot stop it.
	MessageLimit int
}

// Facts are what is known of a session before a turn.
type Facts struct {
	// Reported is what the provider counted for its last call, and Since the
	// estimate of what was added after that; 0 if nothing was reported.
	Reported, Since int
	// Estimate is that of everything: transcript, prompt and tools.
	Estimate int
	Window   int // tokens of the model's context; 0 if that is not known
	Messages int // active ones, without the system prompt
	// CoolingDown says that a pass has failed and is not tried again yet; Busy that
	// somebody compacts the session right now.
	CoolingDown, Busy bool
}

// Tokens is the size by which a session is judged.
func (f Facts) Tokens() int {
	if f.Reported > 0 {
		return f.Reported + f.Since
	}
	return f.Estimate
}

// The shares of the window, in per cent: from which on it fires, and from which
// on the message waits for the pass.
const (
	share  = 85
	urgent = 95
)

// minHistory is the fewest messages that are worth a pass.
const minHistory = 4

// Threshold is the number of tokens from which on hygiene fires.
func Threshold(window int) int { return window * share / 100 }

// Urgent is the number of tokens from which on a message waits for the pass, and
// from which on pauses of the context engine do not count.
func Urgent(window int) int { return window * urgent / 100 }

// A Decision is what is to be done, and why.
type Decision struct {
	Compress bool
	// Urgent: the message waits for the pass however long it takes.
	Urgent bool
	Tokens int
	// Reason says in a word or two what decided.
	Reason string
}

// Decide says whether the session is compacted before its turn.
func Decide(f Facts, s Settings) Decision {
	d := Decision{Tokens: f.Tokens()}
	known := f.Window > 0
	tokens, messages := known && d.Tokens >= Threshold(f.Window), s.MessageLimit > 0 && f.Messages >= s.MessageLimit
	d.Urgent = known && d.Tokens >= Urgent(f.Window)
	switch {
	case !s.Enabled:
		d.Reason = "compression is switched off"
	case f.Messages < minHistory:
		d.Reason = "too few messages"
	case !tokens && !messages:
		d.Reason = "it is small enough"
	case f.Busy:
		d.Reason = "it is being compacted already"
	case f.CoolingDown && !d.Urgent:
		d.Reason = "the last pass failed a short while ago"
	case tokens:
		d.Compress, d.Reason = true, "tokens"
	default:
		d.Compress, d.Reason = true, "messages"
	}
	return d
}
