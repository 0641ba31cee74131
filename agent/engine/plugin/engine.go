package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"hermesd/agent"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/tool"
)

// codeCoolingDown is the error code for agent.ErrCoolingDown.
const codeCoolingDown = 1

// Options are the parameters of Host.New, for one session.
type Options struct {
	Session string
	Limits  agent.Limits
	State   json.RawMessage // result of an earlier State call
	// Fallback returns the built-in engine for failures, with its own state.
	Fallback func(state json.RawMessage) agent.Engine
}

// An Engine is the context engine of one session, and implements agent.Engine,
// agent.Lifecycle and agent.Preflighter.
type Engine struct {
	h       *Host
	session string
	backup  agent.Engine

	mu         sync.Mutex // guards what follows
	limits     agent.Limits
	threshold  int // tokens; 0 if unknown
	state      storedState
	lastResult string
}

type storedState struct {
	Engine   string          `json:"engine"`
	Passes   int             `json:"passes,omitempty"`
	Archived int             `json:"archived,omitempty"`
	Own      json.RawMessage `json:"own,omitempty"` // state of the program
	Backup   json.RawMessage `json:"backup,omitempty"`
}

// New returns the engine of a session. It does not start the program.
func (h *Host) New(o Options) *Engine {
	e := &Engine{h: h, session: o.Session, limits: o.Limits}
	if json.Unmarshal(o.State, &e.state) != nil || e.state.Engine != h.m.Name {
		e.state = storedState{Engine: h.m.Name}
	}
	e.backup = o.Fallback(e.state.Backup)
	return e
}

func (e *Engine) Name() string { return e.h.m.Name }

func (e *Engine) Update(u llm.Usage) {
	e.backup.Update(u)
	e.h.notify("update", map[string]any{"session": e.session, "usage": u})
}

type wireLimits struct {
	Model  string `json:"model"`
	Window int    `json:"window"`
}

// ShouldCompress implements agent.Engine. The program is asked for its
// threshold once per model; if it does not answer, the threshold of the
// built-in engine applies.
func (e *Engine) ShouldCompress(n int) bool {
	e.mu.Lock()
	threshold, l := e.threshold, e.limits
	e.mu.Unlock()
	if threshold == 0 {
		ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, errTimeout)
		defer cancel()
		var answer struct {
			Tokens int `json:"tokens"`
		}
		err := e.h.call(ctx, "threshold", map[string]any{"limits": wireLimits(l)}, &answer)
		if err != nil || answer.Tokens <= 0 {
			return e.backup.ShouldCompress(n)
		}
		threshold = answer.Tokens
		e.mu.Lock()
		e.threshold = threshold
		e.mu.Unlock()
	}
	return n >= threshold
}

// wireView is the wire form of agent.ContextView, without fields that only
// providers read.
type wireView struct {
	Messages []llm.Message `json:"messages"`
	First    int           `json:"first"`
	Fixed    int           `json:"fixed"`
	Tokens   int           `json:"tokens"`
	Limit    int           `json:"limit,omitempty"`
	Focus    string        `json:"focus,omitempty"`
	Force    bool          `json:"force,omitempty"`
	Plain    bool          `json:"plain,omitempty"`
}

// answer is the result of the program: Replace replaces the messages From to
// To-1.
type answer struct {
	From    int             `json:"from"`
	To      int             `json:"to"`
	Replace []llm.Message   `json:"replace"`
	Note    string          `json:"note"`
	Words   string          `json:"words"`
	Usage   llm.Usage       `json:"usage"`
	Model   string          `json:"model"`
	State   json.RawMessage `json:"state"`
}

// Compress implements agent.Engine. If the program fails, the built-in engine
// makes the compaction, and its Explanation says so.
func (e *Engine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	a, err := e.requestCompaction(ctx, v)
	var p agent.Compaction
	if err == nil {
		p, err = buildCompaction(v, a)
	}
	if err == nil && v.Limit > 0 && p.After > v.Limit {
		err = fmt.Errorf("%w: %d tokens are left, and the limit is %d", errUnfit, p.After, v.Limit)
	}
	var said *rpcError
	switch {
	case err == nil:
		e.recordCompaction(p, "by "+e.h.m.Name)
		e.mu.Lock()
		e.state.Own = a.State
		e.mu.Unlock()
		return p, nil
	case errors.As(err, &said) && said.Code == codeCoolingDown && !v.WithoutModel:
		return p, fmt.Errorf("%w: %s", agent.ErrCoolingDown, oneLine(said.Message))
	case ctx.Err() != nil:
		return p, context.Cause(ctx)
	case errors.Is(err, errUnfit), said != nil:
		e.h.recordFailure(err)
	}
	return e.fallBack(ctx, v, err)
}

func (e *Engine) requestCompaction(ctx context.Context, v agent.ContextView) (a answer, err error) {
	e.mu.Lock()
	l, state := e.limits, e.state.Own
	e.mu.Unlock()
	w := wireView{Messages: withoutRaw(v.Messages), First: v.First, Fixed: v.FixedTokens, Tokens: v.Tokens, Limit: v.Limit, Focus: v.Focus, Force: v.Force, Plain: v.WithoutModel}
	err = e.h.call(ctx, "compress", map[string]any{"session": e.session, "limits": wireLimits(l), "state": state, "view": w}, &a)
	return a, err
}

// withoutRaw returns messages without fields that only providers read.
func withoutRaw(ms []llm.Message) []llm.Message {
	ms = slices.Clone(ms)
	for i := range ms {
		ms[i].Raw, ms[i].Dialect = nil, ""
	}
	return ms
}

// fallBack makes the compaction with the built-in engine.
func (e *Engine) fallBack(ctx context.Context, v agent.ContextView, why error) (agent.Compaction, error) {
	p, err := e.backup.Compress(ctx, v)
	if err != nil {
		return p, fmt.Errorf("the context engine %s failed (%s), and %s: %w", e.h.m.Name, oneLine(why.Error()), e.backup.Name(), err)
	}
	var first agent.Compaction
	first.Explain("The context engine %s failed (%s); %s stepped in for this pass.", e.h.m.Name, oneLine(why.Error()), e.backup.Name())
	e.recordCompaction(p, first.Explanation)
	p.Explanation, p.Sentences = strings.TrimSpace(first.Explanation+" "+p.Explanation), append(first.Sentences, p.Sentences...)
	return p, nil
}

func (e *Engine) recordCompaction(p agent.Compaction, how string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Passes++
	e.state.Archived += p.To - p.From
	e.lastResult = how
}

// errUnfit means that an answer would damage the transcript.
var errUnfit = errors.New("its answer does not fit")

// buildCompaction turns an answer into a compaction, or returns why it is
// invalid.
func buildCompaction(v agent.ContextView, a answer) (p agent.Compaction, err error) {
	unfit := func(format string, args ...any) (agent.Compaction, error) {
		return p, fmt.Errorf("%w: %w", errUnfit, fmt.Errorf(format, args...))
	}
	if a.From < 0 || a.From >= a.To || a.To > len(v.Messages) {
		return unfit("it archives %d to %d of %d messages", a.From, a.To, len(v.Messages))
	}
	if i := plan.NewestUser(v.Messages); i >= a.From && i < a.To {
		return unfit("it archives the newest message of the user")
	}
	if len(a.State) > 1<<20 {
		return unfit("its state has %d bytes, and may have a MiB", len(a.State))
	}
	for i := range a.Replace {
		a.Replace[i].Raw, a.Replace[i].Dialect = nil, "" // no provider has sent this message
	}
	p = agent.Compaction{From: a.From, To: a.To, PromptNote: a.Note, Explanation: oneLine(a.Words), Usage: a.Usage, Model: a.Model}
	p.Messages = slices.Concat(v.Messages[:a.From], a.Replace, v.Messages[a.To:])
	if err := llm.ValidateMessages(p.Messages); err != nil {
		return unfit("the new transcript is not legal: %w", err)
	}
	p.Before, p.After = v.FixedTokens, v.FixedTokens
	for _, m := range v.Messages {
		p.Before += tokens.Message(m)
	}
	for _, m := range p.Messages {
		p.After += tokens.Message(m)
	}
	if p.After >= p.Before {
		return unfit("%d tokens would become %d", p.Before, p.After)
	}
	return p, nil
}

func (e *Engine) State() json.RawMessage {
	e.mu.Lock()
	k := e.state
	e.mu.Unlock()
	k.Backup = e.backup.State()
	raw, err := json.Marshal(k)
	if err != nil {
		return nil
	}
	return raw
}

func (e *Engine) Status() agent.EngineStatus {
	n, last := e.h.Failures()
	e.mu.Lock()
	s := agent.EngineStatus{Engine: e.h.m.Name, Threshold: e.threshold, Passes: e.state.Passes, Archived: e.state.Archived, Last: e.lastResult}
	e.mu.Unlock()
	b := e.backup.Status()
	s.Threshold = cmp.Or(s.Threshold, b.Threshold)
	s.Cooldown = b.Cooldown
	if n > 0 {
		s.Last = strings.TrimSpace(fmt.Sprintf("%s (%d failures of %s so far; last: %s)", s.Last, n, e.h.m.Name, oneLine(last.Error())))
	}
	return s
}

func (e *Engine) Limits(l agent.Limits) {
	e.mu.Lock()
	e.limits, e.threshold = l, 0
	e.mu.Unlock()
	if b, ok := e.backup.(agent.Lifecycle); ok {
		b.Limits(l)
	}
}

func (e *Engine) Reset() {
	if b, ok := e.backup.(agent.Lifecycle); ok {
		b.Reset()
	}
	e.h.notify("reset", map[string]any{"session": e.session})
}

// End implements agent.Lifecycle. The program keeps running: it serves all
// sessions.
func (e *Engine) End() {
	if b, ok := e.backup.(agent.Lifecycle); ok {
		b.End()
	}
	e.h.notify("end", map[string]any{"session": e.session})
}

// Limits of declared tools and their results.
const (
	maxTools = 16
	maxText  = 30_000 // characters of a result
)

type toolDeclaration struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Schema      map[string]any `yaml:"schema"`
}

var toolName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// parseTools converts the tools of a manifest; missing lists what is invalid,
// for people.
func parseTools(in []toolDeclaration) (out []llm.Tool, missing []string) {
	if len(in) > maxTools {
		return nil, []string{fmt.Sprintf("there are %d tools, more than %d", len(in), maxTools)}
	}
	seen := map[string]bool{}
	for _, d := range in {
		if d.Schema == nil {
			d.Schema = map[string]any{"type": "object"}
		}
		raw, err := json.Marshal(d.Schema) // with its keys in order
		switch {
		case !toolName.MatchString(d.Name):
			missing = append(missing, fmt.Sprintf("the name of the tool %q is not of a-z, 0-9 and _", d.Name))
		case seen[d.Name]:
			missing = append(missing, fmt.Sprintf("two tools are called %s", d.Name))
		case strings.TrimSpace(d.Description) == "":
			missing = append(missing, fmt.Sprintf("the tool %s has no description", d.Name))
		case err != nil || d.Schema["type"] != "object":
			missing = append(missing, fmt.Sprintf("the schema of the tool %s is not that of an object", d.Name))
		}
		seen[d.Name] = true
		out = append(out, llm.Tool{Name: d.Name, Description: strings.TrimSpace(d.Description), Schema: raw})
	}
	return out, missing
}

// Tools returns the tools that the manifest declares, for all sessions. state
// returns the latest result of Engine.State for a session. A call may be
// repeated after a crash.
func (h *Host) Tools(state func(ctx context.Context, session string) (json.RawMessage, error)) []tool.Tool {
	ts := make([]tool.Tool, 0, len(h.m.Tools))
	for _, t := range h.m.Tools {
		run := func(ctx context.Context, c tool.Call, in json.RawMessage) (string, error) {
			raw, err := state(ctx, c.Session)
			if err != nil {
				return "", fmt.Errorf("the state of the context engine cannot be read: %w", err)
			}
			var k storedState
			if json.Unmarshal(raw, &k) != nil || k.Engine != h.m.Name {
				k.Own = nil
			}
			return h.runTool(ctx, map[string]any{"session": c.Session, "state": k.Own, "name": t.Name, "input": in})
		}
		ts = append(ts, tool.New(tool.Spec{Tool: t, Effect: tool.Pure, MaxResult: maxText}, run))
	}
	return ts
}

func (h *Host) runTool(ctx context.Context, params map[string]any) (string, error) {
	var answer struct {
		Text string `json:"text"`
	}
	err := h.call(ctx, "tool", params, &answer)
	var said *rpcError
	switch {
	case errors.As(err, &said):
		return "", fmt.Errorf("the context engine %s says: %s", h.m.Name, oneLine(said.Message))
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("the context engine %s failed: %s", h.m.Name, oneLine(err.Error()))
	case strings.TrimSpace(answer.Text) == "":
		return "(nothing)", nil
	}
	return answer.Text, nil
}

// Preflight implements agent.Preflighter: if the manifest says so, the program
// is asked before the first call of each turn. Without an answer nothing is
// due.
func (e *Engine) Preflight(messages []llm.Message) bool {
	if !e.h.m.Preflight {
		return false
	}
	e.mu.Lock()
	l, state := e.limits, e.state.Own
	e.mu.Unlock()
	var answer struct {
		Compress bool `json:"compress"`
	}
	err := e.h.call(context.Background(), "preflight", map[string]any{
		"session": e.session, "limits": wireLimits(l), "state": state, "messages": withoutRaw(messages),
	}, &answer)
	return err == nil && answer.Compress
}
