package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

// Bounds of one turn, beside Config.MaxTurns.
const (
	maxContinued = 3       // how often a cut answer is continued
	maxStrikes   = 3       // answers in a row with calls that cannot be run
	maxAnswer    = 8 << 20 // bytes of one streamed answer
)

// A run is the state of one turn while it runs.
type run struct {
	provider llm.Provider // for the calls of this turn
	a        *Agent
	t        Turn
	yield    func(Event, error) bool
	stopped  bool            // the consumer wants no more
	offered  map[string]bool // names in the frozen tools array
	ids      map[string]bool // of all calls in the transcript

	calls     int // of the model
	strikes   int
	empties   int    // empty answers in a row
	continued int    // parts of the present answer that are in the transcript
	said      string // their text, as the model wrote it
	batch     *batch // calls whose results are not in the transcript yet
	usage     llm.Usage
	final     *Final
	shown     strings.Builder // Text since the last ToolCall or Retracted
}

func newRun(a *Agent, t Turn, yield func(Event, error) bool) *run {
	r := &run{a: a, t: t, provider: a.provider, yield: yield, offered: map[string]bool{}, ids: map[string]bool{}}
	if p, ok := a.provider.(llm.PerTurn); ok {
		r.provider = p.Turn()
	}
	if r.t.Transcript == nil {
		r.t.Transcript = llm.NewTranscript()
	}
	for _, l := range t.Prefix.Tools() {
		r.offered[l.Name] = true
	}
	return r
}

func (r *run) emit(e Event) error {
	if r.stopped || !r.yield(e, nil) {
		r.stopped = true
		return errStopped
	}
	return nil
}

// record has the consumer keep a step, and makes it true.
func (r *run) record(s Step) error {
	s.Version = stepVersion
	if err := r.emit(Record{s}); err != nil {
		return err
	}
	return r.apply(s)
}

// turn runs the turn to its end.
func (r *run) turn(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	for r.final == nil {
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	if err := r.settle(prompt.Scrub(r.said)); err != nil {
		return err
	}
	f := *r.final
	f.Usage = r.usage
	return r.emit(f)
}

// begin appends the input and replays the steps of dead runs.
func (r *run) begin() error {
	if err := r.listen(); err != nil {
		return err
	}
	for _, m := range r.t.Transcript.Since(0) {
		for _, c := range m.ToolUses() {
			r.ids[c.ID] = true
		}
	}
	for i, s := range r.t.Steps {
		if s.Kind == StepAnswer || s.Kind == StepEmpty {
			r.calls++
		}
		if err := r.apply(s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return r.retract() // shows again what a cut answer had said
}

// listen appends the input, as one message of the user, behind a transcript
// that ends with the assistant.
func (r *run) listen() error {
	in := llm.Message{Role: llm.User}
	for _, m := range r.t.Input {
		if m.Role != llm.User {
			return fmt.Errorf("%w: the input holds a message of the %s", ErrNothing, m.Role)
		}
		in.Blocks = append(in.Blocks, speakable(m.Blocks)...)
	}
	tr := r.t.Transcript
	if len(in.Blocks) > 0 {
		Close(tr, "")
		tr.Append(in)
		return nil
	}
	if tr.Len() == 0 || tr.At(tr.Len()-1).Role != llm.User {
		return ErrNothing
	}
	return nil
}

// speakable returns the blocks that a person's message may hold, without those
// that say nothing.
func speakable(bs []llm.Block) []llm.Block {
	return slices.DeleteFunc(slices.Clone(bs), func(b llm.Block) bool {
		return b.Type != llm.Image && (b.Type != llm.Text || strings.TrimSpace(b.Text) == "")
	})
}

// step does what comes next: the tools that were called, or a model call.
func (r *run) step(ctx context.Context) error {
	if r.batch != nil {
		if err := r.work(ctx); err != nil {
			return err
		}
		if r.strikes >= maxStrikes {
			return ErrInvalidCalls
		}
	}
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	last := r.calls >= r.a.cfg.MaxTurns
	done, err := r.call(ctx, r.request(last))
	if err != nil {
		return err
	}
	s, err := r.judge(done, last)
	if err != nil {
		return err
	}
	return r.record(*s)
}

const summaryAsk = "The limit of model calls for this turn is reached: no tool can be used any more. Say now, in a final answer, what was done, what was found, and what is left to do."

// request is what the model is asked next.
func (r *run) request(last bool) *llm.Request {
	q := &llm.Request{
		Model: r.t.Model, System: r.t.Prefix.System(), Tools: r.t.Prefix.Tools(), Prefill: r.t.Prefill,
		Transcript: r.t.Transcript, Overlay: r.t.Overlay.String(), MaxTokens: r.t.MaxTokens,
		Effort: r.t.Effort, CacheTTL: r.t.CacheTTL,
	}
	if q.Effort == "" {
		q.Effort = r.a.cfg.ReasoningEffort
	}
	if r.empties == 1 {
		q.Overlay = ""
	}
	if last {
		q.NoTools, q.Overlay = true, r.t.Overlay.With(summaryAsk).String()
	}
	return q
}

// call makes one model call and shows what it says. Its answer is whole: of
// anything less, nothing is left but what was shown and retracted.
func (r *run) call(ctx context.Context, q *llm.Request) (llm.Done, error) {
	if q.NoTools {
		if err := r.emit(Notice{Kind: Budget}); err != nil {
			return llm.Done{}, err
		}
	}
	began := time.Now()
	r.calls++
	s := stream{r: r}
	s.rewind()
	done, err := s.read(ctx, q)
	switch {
	case r.stopped:
		return done, errStopped
	case err != nil && ctx.Err() != nil:
		return done, interrupted(ctx)
	case err != nil:
		return done, r.voided(fmt.Errorf("model call: %w", err))
	}
	if done.Model == "" {
		done.Model = q.Model
	}
	if done.Provider == "" {
		done.Provider = r.provider.Name()
	}
	return done, r.emit(Call{done.Model, done.Provider, done.Usage, time.Since(began), done.Stop})
}
