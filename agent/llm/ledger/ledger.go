// Package ledger records the prefix of every model call of a session and detects prefix
// breaks. The part of a request before the overlay must extend that of the previous call,
// otherwise the provider's cache does not apply:
//
//	model │ tools │ prompt │ system overlay │ prefill │ message 0 │ message 1 │ …
//
// A Ledger keeps one digest per layer and message, so that a call hashes only what is new.
// A prefix that is not an extension is a break. A break without a declared reason is a bug,
// and the ledger reports where the two prefixes first differ. Cache breakpoints are not
// part of a prefix: providers may place them anywhere.
//
// The package does no I/O and reads no clock. Records are its stored state: a Ledger
// restored from them compares the first call after a restart with the last one before.
package ledger

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Reason is a declared reason for a prefix break.
type Reason string

// The reasons that can be declared.
const (
	NewSession  Reason = "new_session"
	Compression Reason = "compression"
	Hygiene     Reason = "hygiene"
	ModelSwitch Reason = "model_switch"
	Fallback    Reason = "fallback"
	Tools       Reason = "tools"
	Reload      Reason = "reload"
	Engine      Reason = "engine"
	Undo        Reason = "undo"
	Branch      Reason = "branch"
	Prefill     Reason = "prefill"
	Overlay     Reason = "overlay"
)

// Reasons returns the closed list of reasons.
func Reasons() []Reason {
	return []Reason{NewSession, Compression, Hygiene, ModelSwitch, Fallback, Tools, Reload, Engine, Undo, Branch, Prefill, Overlay}
}

// Undeclared is recorded for a break without a declared reason.
const Undeclared Reason = "undeclared"

// The layers of a prefix, as used in Record.BreakLayer. A message is named by "message" and
// its index in the transcript.
const (
	LayerModel   = "model"
	LayerTools   = "tools"
	LayerPrompt  = "prompt"
	LayerOverlay = "system overlay"
	LayerPrefill = "prefill"
	LayerMessage = "message"
)

// A Call is a model call that was answered, or at least sent.
type Call struct {
	// Request is the request, with its transcript as it was sent.
	Request *llm.Request
	// Provider and Model are those that answered; with several candidates, llm.Done names
	// them.
	Provider, Model string
	Usage           llm.Usage // as reported; zero if none was
	At              time.Time
}

// A Record describes one call. It is stored as JSON.
type Record struct {
	N        int       `json:"n"` // number of the call in its session, from 1
	CalledAt time.Time `json:"at"`
	Provider string    `json:"provider"`
	Model    string    `json:"model"`

	// Layers holds the cumulative digests after tools, prompt, system overlay
	// and prefill.
	Layers [4]llm.Digest `json:"layers"`
	// Messages is the number of transcript messages in the prefix. Hashes are their
	// cumulative digests from index From on; those before are the same as in the previous
	// record.
	Messages int          `json:"messages"`
	From     int          `json:"from"`
	Hashes   []llm.Digest `json:"hashes,omitempty"`
	// Hash is the digest of the whole prefix.
	Hash llm.Digest `json:"hash"`

	PrefixBytes  int `json:"prefix_bytes"`
	TailBytes    int `json:"tail_bytes,omitempty"`
	PrefixTokens int `json:"prefix_tokens"` // these three are estimates
	TailTokens   int `json:"tail_tokens,omitempty"`
	// CommonTokens is the part of PrefixTokens that was sent to this provider and model
	// before.
	CommonTokens int       `json:"common_tokens,omitempty"`
	Usage        llm.Usage `json:"usage"`

	// Break is the declared reason of a break, or Undeclared; "" for an extension.
	// BreakLayer is the first difference from the previous call.
	Break      Reason `json:"break,omitempty"`
	BreakLayer string `json:"where,omitempty"`
	// MissedTokens is the number of tokens that the provider should have read from its
	// cache, by its own figures and time to live, but did not.
	MissedTokens int `json:"missed,omitempty"`
}

// A Ledger records the calls of one session. It is not safe for concurrent use.
type Ledger struct {
	n        int
	declared Reason
	targets  map[string]*prefix
	last     *prefix // of the previous call, whichever its target
	models   *tokens.Table
	tools    toolsMemo
	prompt   textMemo
	overlay  textMemo // follows the prompt
}

// New returns the ledger of a session that has not called a model yet.
func New() *Ledger {
	return &Ledger{targets: make(map[string]*prefix), models: tokens.Builtin()}
}

// Restore returns the ledger of a session that continues after records, which are in order
// and end with its last call. If the first records are missing, a break is still detected,
// but its BreakLayer may be too early.
func Restore(records []Record) *Ledger {
	l := New()
	for _, r := range records {
		p := &prefix{layers: r.Layers, chain: extend(l.chain(), r), tokens: r.PrefixTokens, reported: reportedTokens(r), usesCache: r.Usage.CacheRead+r.Usage.CacheWrite > 0, calledAt: r.CalledAt}
		if before := l.targets[key(r.Provider, r.Model)]; before != nil {
			p.usesCache = p.usesCache || before.usesCache
		}
		l.addTarget(r, p)
	}
	return l
}

// Declare sets the reason for which the next call may break the prefix. It applies to that
// call only; of several reasons the last one counts.
func (l *Ledger) Declare(r Reason) { l.declared = r }

// Declared returns the declared reason for the next call; "" for none. It must be stored
// with the session if the session is unloaded before that call.
func (l *Ledger) Declared() Reason { return l.declared }

// RecordCall records a call and reports whether its prefix extends the previous one. A
// provider and model that were called before are compared with their own last call: the
// return from a fallback breaks nothing.
func (l *Ledger) RecordCall(c Call) Record {
	before := l.targets[key(c.Provider, c.Model)]
	p := l.newPrefix(c.Request, cmp.Or(before, l.last))
	r := Record{
		N: l.n + 1, CalledAt: c.At, Provider: c.Provider, Model: c.Model, Layers: p.layers, Messages: len(p.chain),
		Hash: p.layers[len(p.layers)-1], Usage: c.Usage, PrefixBytes: p.bytes, PrefixTokens: p.tokens,
		TailBytes: len(c.Request.Overlay), TailTokens: tokens.Text(c.Request.Overlay),
	}
	if len(p.chain) > 0 {
		r.Hash = r.Hash.Add(string(p.chain[len(p.chain)-1][:]))
	}
	r.From = common(l.chain(), p.chain)
	r.Hashes = slices.Clone(p.chain[r.From:])
	l.setBreak(&r, p, before)
	r.CommonTokens = min(p.commonWith(before, c.Request), r.PrefixTokens)
	l.countMissed(&r, p, before, c.Request)
	l.addTarget(r, p)
	l.declared = ""
	return r
}

func (l *Ledger) setBreak(r *Record, p, before *prefix) {
	switch {
	case l.n == 0:
		r.Break = cmp.Or(l.declared, NewSession)
		return
	case before == nil:
		r.BreakLayer = LayerModel
	default:
		r.BreakLayer = p.firstDifference(before)
	}
	if r.BreakLayer != "" {
		r.Break = cmp.Or(l.declared, Undeclared)
	}
}

// countMissed sets r.MissedTokens. A provider that has not read or written a cache before is not
// expected to.
func (l *Ledger) countMissed(r *Record, p, before *prefix, q *llm.Request) {
	p.reported = reportedTokens(*r)
	p.usesCache = r.Usage.CacheRead+r.Usage.CacheWrite > 0 || before != nil && before.usesCache
	keep := 5 * time.Minute
	if q.CacheTTL == "1h" {
		keep = time.Hour
	}
	if r.Break != "" || before == nil || !before.usesCache || r.Usage.Prompt() == 0 || r.CalledAt.Sub(before.calledAt) > keep {
		return
	}
	const margin = 10 // error of tail estimates, in percent
	if before.reported < l.models.MinCache(r.Model) || r.Usage.CacheRead >= before.reported*(100-margin)/100 {
		return
	}
	r.MissedTokens = before.reported - r.Usage.CacheRead
}

// reportedTokens returns the number of prefix tokens of r, based on the provider's figures.
func reportedTokens(r Record) int { return max(0, r.Usage.Prompt()-r.TailTokens) }

// maxTargets is the number of targets whose last prefix is kept.
const maxTargets = 8

func (l *Ledger) addTarget(r Record, p *prefix) {
	p.calledAt = r.CalledAt
	if len(l.targets) >= maxTargets && l.targets[key(r.Provider, r.Model)] == nil {
		l.evictTarget()
	}
	l.targets[key(r.Provider, r.Model)] = p
	l.last, l.n = p, r.N
}

// evictTarget removes the target that has not been called for the longest time.
func (l *Ledger) evictTarget() {
	oldest := ""
	for k, p := range l.targets {
		if o := l.targets[oldest]; o == nil || p.calledAt.Before(o.calledAt) || p.calledAt.Equal(o.calledAt) && k < oldest {
			oldest = k
		}
	}
	delete(l.targets, oldest)
}

func (l *Ledger) chain() []llm.Digest {
	if l.last == nil {
		return nil
	}
	return l.last.chain
}

func key(provider, model string) string { return provider + "\x00" + model }

// common returns the length of the common beginning of a and b. As digests are cumulative,
// a binary search is sufficient.
func common(a, b []llm.Digest) int {
	n := min(len(a), len(b))
	if n > 0 && a[n-1] == b[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return a[i] != b[i] })
}

// maxMessages limits Record.Messages; larger values are treated as corrupt.
const maxMessages = 1 << 22

// extend returns the digests of the messages of r's prefix; before are those of the
// previous record. An inconsistent record counts as unknown, so the next call appears as a
// break.
func extend(before []llm.Digest, r Record) []llm.Digest {
	if r.From < 0 || r.Messages > maxMessages || r.From+len(r.Hashes) != r.Messages {
		return slices.Clone(r.Hashes)
	}
	chain := make([]llm.Digest, r.From, r.Messages)
	copy(chain, before)
	return append(chain, r.Hashes...)
}
