package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

// Bounds of one turn, beside Config.MaxTurns.
const (
	maxContinued      = 3       // how often a cut answer is continued
	maxInvalidAnswers = 3       // answers in a row with calls that cannot be run
	maxAnswer         = 8 << 20 // bytes of one streamed answer
)

// A run is the state of one turn while it runs.
type run struct {
	provider llm.Provider // for the calls of this turn
	a        *Agent
	t        Turn
	yield    func(Event, error) bool
	stopped  bool            // the consumer wants no more
	offered  map[string]bool // names in the frozen tools array

	began          int // index of the message with which the turn began
	calls          int // of the model
	invalidAnswers int
	empties        int    // empty answers in a row
	continued      int    // parts of the present answer that are in the transcript
	said           string // their text, as the model wrote it
	batch          *batch // calls whose results are not in the transcript yet
	usage          llm.Usage
	final          *Final
	shown          strings.Builder // Text since the last ToolCall or Retracted
}

func newRun(a *Agent, t Turn, yield func(Event, error) bool) *run {
	r := &run{a: a, t: t, provider: a.provider, yield: yield, offered: map[string]bool{}}
	if t.Provider != nil {
		r.provider = t.Provider
	}
	if p, ok := r.provider.(llm.TurnScoped); ok {
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
	if err := r.adopt(); err != nil {
		return err
	}
	for i, s := range r.t.Steps {
		if s.Kind == StepAnswer || s.Kind == StepEmpty {
			r.calls++
		}
		if s.Kind == StepCompaction { // it came behind the results
			if err := r.closeBatch(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		old := r.t.Transcript.Since(0)
		if err := r.apply(s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if s.Kind == StepCompaction {
			if err := r.emit(s.compacted(old, r.t.Prefix)); err != nil {
				return err
			}
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
		r.began = tr.Len()
		tr.Append(in)
		return nil
	}
	if tr.Len() == 0 || tr.At(tr.Len()-1).Role != llm.User {
		return ErrNothing
	}
	r.began = tr.Len() - 1
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
		if r.invalidAnswers >= maxInvalidAnswers {
			return ErrInvalidCalls
		}
	}
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	if err := r.fit(ctx); err != nil {
		return err
	}
	last := r.calls >= r.a.cfg.MaxTurns
	done, err := r.ask(ctx, last)
	if err != nil {
		return err
	}
	s, err := r.classifyAnswer(done, last)
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
		Transcript: r.t.Transcript, Overlay: r.t.Overlay.Tail.String(), SystemOverlay: r.t.Overlay.System, MaxTokens: r.t.MaxTokens,
		Effort: r.t.Effort, CacheTTL: r.t.CacheTTL,
	}
	if q.Effort == "" {
		q.Effort = r.a.cfg.ReasoningEffort
	}
	if text := r.t.Overlay.Turn.String(); text != "" {
		q.Turn = &llm.TurnOverlay{At: r.began, Text: text}
	}
	if r.empties == 1 {
		q.Overlay = ""
	}
	if last {
		q.NoTools, q.Overlay = true, r.t.Overlay.Tail.With(summaryAsk).String()
	}
	return q
}

// ask makes one model call. What is refused as too long is made shorter, and
// what asks for too long an answer is asked for less.
func (r *run) ask(ctx context.Context, last bool) (llm.Done, error) {
	for tries := 0; ; tries++ {
		done, err := r.call(ctx, r.request(last))
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || ctx.Err() != nil {
			return done, err
		}
		again := false
		switch {
		case e.Class == llm.ContextOverflow || e.Class == llm.TooLarge:
			var wrong error
			if again, wrong = r.shorten(ctx, e, tries); wrong != nil {
				return done, wrong
			}
		case e.MaxTokens > 0 && r.t.MaxTokens != e.MaxTokens && tries == 0:
			r.t.MaxTokens, again = e.MaxTokens, true
			if err := r.emit(Notice{Kind: ReduceOutput, Err: e}); err != nil {
				return done, err
			}
		}
		if !again {
			return done, err
		}
		r.calls--
	}
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
		return done, r.retractAndFail(fmt.Errorf("model call: %w", err))
	}
	if done.Model == "" {
		done.Model = q.Model
	}
	if done.Provider == "" {
		done.Provider = r.provider.Name()
	}
	if w := r.t.ContextWindow; w != nil && done.Usage.Prompt() > 0 {
		w.Reported, w.At = done.Usage.Prompt(), r.t.Transcript.Len()
		w.Engine.Update(done.Usage)
	}
	return done, r.emit(Call{done.Model, done.Provider, done.Usage, time.Since(began), done.Stop, q})
}
