// Package ledger watches the prefixes that models are sent. What stands in a
// request before the overlay must be an extension of what the call before had
// there, or the provider's cache holds nothing of it:
//
//	model │ tools │ prompt │ system overlay │ prefill │ message 0 │ message 1 │ …
//
// A Ledger keeps one digest per layer and message of a session, so that a call
// costs what is new. A prefix that is no extension is a break; one without a
// declared reason is a bug, and the ledger says where the two first differ.
// Cache marks are no part of a prefix: providers may put them where they like.
//
// The package does no I/O and reads no clock. Records are its stored state: a
// Ledger that was restored from them compares the first call after a restart
// with the last one before.
package ledger

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strconv"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Reason is why a prefix may differ from the one before.
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

// Undeclared is what a break without a reason is counted as.
const Undeclared Reason = "undeclared"

// The layers of a prefix, as Record.Where names them. A message is named by
// "message" and its index in the transcript.
const (
	LayerModel   = "model"
	LayerTools   = "tools"
	LayerPrompt  = "prompt"
	LayerOverlay = "system overlay"
	LayerPrefill = "prefill"
	LayerMessage = "message"
)

// A Call is a model call that was answered, or was at least sent.
type Call struct {
	// Request is what was asked for. Its transcript must be as it was sent.
	Request *llm.Request
	// Provider and Model are those that answered; where several could have,
	// llm.Done says which.
	Provider, Model string
	Usage           llm.Usage // as reported; zero if nothing was
	At              time.Time
}

// A Record is what is known of one call. It is stored as JSON.
type Record struct {
	N        int       `json:"n"` // number of the call in its session, from 1
	CalledAt time.Time `json:"at"`
	Provider string    `json:"provider"`
	Model    string    `json:"model"`

	// Layers holds the cumulative digests after tools, prompt, system overlay
	// and prefill.
	Layers [4]llm.Digest `json:"layers"`
	// Messages is how many messages of the transcript the prefix has. Hashes are
	// their cumulative digests from number From on; those before are the same as
	// in the record before.
	Messages int          `json:"messages"`
	From     int          `json:"from"`
	Hashes   []llm.Digest `json:"hashes,omitempty"`
	// Hash stands for the whole prefix.
	Hash llm.Digest `json:"hash"`

	PrefixBytes  int `json:"prefix_bytes"`
	TailBytes    int `json:"tail_bytes,omitempty"`
	PrefixTokens int `json:"prefix_tokens"` // these three are estimates
	TailTokens   int `json:"tail_tokens,omitempty"`
	// CommonTokens is the part of PrefixTokens that this provider and model were
	// sent before.
	CommonTokens int       `json:"common_tokens,omitempty"`
	Usage        llm.Usage `json:"usage"`

	// Break is the declared reason of a break, or Undeclared; "" for an
	// extension. Where is where it differs from the call before.
	Break      Reason `json:"break,omitempty"`
	BreakLayer string `json:"where,omitempty"`
	// MissedTokens is how many tokens the provider should have had in its cache, by
	// its own figures and its time to live, and did not read.
	MissedTokens int `json:"missed,omitempty"`
}

// A Ledger is that of one session. It is not safe for use by several goroutines.
type Ledger struct {
	n        int
	declared Reason
	targets  map[string]*prefix
	last     *prefix // of the call before, to whomever it went
	summary  Summary
	models   *tokens.Table
	tools    toolsMemo
	prompt   textMemo
	overlay  textMemo // behind the prompt
}

// New returns the ledger of a session that has not called a model yet.
func New() *Ledger {
	return &Ledger{targets: make(map[string]*prefix), models: tokens.Builtin(), summary: Summary{Breaks: map[Reason]int{}}}
}

// Restore returns the ledger of a session that goes on after records, which are
// in order and end with its last call. If the first ones are missing, a break is
// still seen, but may be placed too early.
func Restore(records []Record) *Ledger {
	l := New()
	for _, r := range records {
		p := &prefix{layers: r.Layers, chain: extend(l.chain(), r), tokens: r.PrefixTokens, reported: reported(r), cached: r.Usage.CacheRead+r.Usage.CacheWrite > 0, at: r.CalledAt}
		if before := l.targets[key(r.Provider, r.Model)]; before != nil {
			p.cached = p.cached || before.cached
		}
		l.remember(r, p)
	}
	return l
}

// Declare says that the next call may break the prefix, and why. It holds for
// that call alone; of several reasons the last one counts.
func (l *Ledger) Declare(r Reason) { l.declared = r }

// Declared returns the reason that the next call may have; "" for none. It is to
// be stored with the session if it ends before that call.
func (l *Ledger) Declared() Reason { return l.declared }

// Summary returns what all calls come to.
func (l *Ledger) Summary() Summary {
	s := l.summary
	s.Breaks = maps.Clone(s.Breaks)
	return s
}

// RecordCall takes down a call and says whether its prefix extends that of the call
// before. A provider and model that were called before are compared with their
// own last call: on the way back from a fallback nothing is broken.
func (l *Ledger) RecordCall(c Call) Record {
	before := l.targets[key(c.Provider, c.Model)]
	p := l.read(c.Request, cmp.Or(before, l.last))
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
	l.judge(&r, p, before)
	r.CommonTokens = min(p.commonWith(before, c.Request), r.PrefixTokens)
	l.missed(&r, p, before, c.Request)
	l.remember(r, p)
	l.declared = ""
	return r
}

// judge says whether r is a break, and where.
func (l *Ledger) judge(r *Record, p, before *prefix) {
	switch {
	case l.n == 0:
		r.Break = cmp.Or(l.declared, NewSession)
		return
	case before == nil:
		r.BreakLayer = LayerModel
	default:
		r.BreakLayer = p.differs(before)
	}
	if r.BreakLayer != "" {
		r.Break = cmp.Or(l.declared, Undeclared)
	}
}

// missed notes what could have been read. Before a provider has read or written
// a cache at all it is not expected to.
func (l *Ledger) missed(r *Record, p, before *prefix, q *llm.Request) {
	p.reported = reported(*r)
	p.cached = r.Usage.CacheRead+r.Usage.CacheWrite > 0 || before != nil && before.cached
	keep := 5 * time.Minute
	if q.CacheTTL == "1h" {
		keep = time.Hour
	}
	if r.Break != "" || before == nil || !before.cached || r.Usage.Prompt() == 0 || r.CalledAt.Sub(before.at) > keep {
		return
	}
	const margin = 10 // per cent by which estimates of the tail may be off
	if before.reported < l.models.MinCache(r.Model) || r.Usage.CacheRead >= before.reported*(100-margin)/100 {
		return
	}
	r.MissedTokens = before.reported - r.Usage.CacheRead
}

// reported is how many tokens the prefix of r has by the provider's figures.
func reported(r Record) int { return max(0, r.Usage.Prompt()-r.TailTokens) }

// maxTargets is how many models' last prefixes are remembered.
const maxTargets = 8

func (l *Ledger) remember(r Record, p *prefix) {
	p.at = r.CalledAt
	if len(l.targets) >= maxTargets && l.targets[key(r.Provider, r.Model)] == nil {
		l.forget()
	}
	l.targets[key(r.Provider, r.Model)] = p
	l.last, l.n = p, r.N
	l.summary.Add(r)
}

// forget forgets the target that was not called for the longest time.
func (l *Ledger) forget() {
	oldest := ""
	for k, p := range l.targets {
		if o := l.targets[oldest]; o == nil || p.at.Before(o.at) || p.at.Equal(o.at) && k < oldest {
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

// common returns how many digests a and b have in common from the start. As they
// are cumulative, a search is enough.
func common(a, b []llm.Digest) int {
	n := min(len(a), len(b))
	if n > 0 && a[n-1] == b[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return a[i] != b[i] })
}

// maxMessages is how many messages the prefix of a record that is believed has.
const maxMessages = 1 << 22

// extend returns the digests of the messages of r's prefix; before are those of
// the record before. Of a record that contradicts itself nothing is known, so
// the next call shows as a break.
func extend(before []llm.Digest, r Record) []llm.Digest {
	if r.From < 0 || r.Messages > maxMessages || r.From+len(r.Hashes) != r.Messages {
		return slices.Clone(r.Hashes)
	}
	chain := make([]llm.Digest, r.From, r.Messages)
	copy(chain, before)
	return append(chain, r.Hashes...)
}

func message(i int) string { return LayerMessage + " " + strconv.Itoa(i) }
