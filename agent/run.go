package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// Limits of one turn, in addition to Config.MaxTurns and Config.RunBudget.
const (
	maxContinuations  = 3       // how often a cut-off answer is continued
	maxInvalidAnswers = 3       // consecutive answers with invalid calls
	maxAnswerBytes    = 8 << 20 // bytes of one streamed answer
)

// A run is the state of one turn while it runs.
type run struct {
	provider llm.Provider // for the calls of this turn
	a        *Agent
	t        Turn
	yield    func(Event, error) bool
	stopped  bool     // the consumer wants no more events
	tools    tool.Set // those of the agent that are in the frozen tools array

	began          time.Time
	replaced       []replacedList // by compactions, oldest first
	turnStart      int            // index of the message that began the turn
	calls          int            // model calls so far
	invalidAnswers int
	emptyAnswers   int    // consecutive
	continuations  int    // parts of the current answer that are in the transcript
	answerText     string // text of these parts, as the model wrote it
	batch          *batch // calls whose results are not in the transcript yet
	usage          llm.Usage
	dropThinking   bool // earlier thinking does not fit what is sent; it is sent without
	final          *Final
	shownText      strings.Builder // Text since the last ToolCall or Retracted
}

func newRun(a *Agent, t Turn, yield func(Event, error) bool) *run {
	r := &run{a: a, t: t, began: time.Now(), provider: a.provider, yield: yield}
	if t.Provider != nil {
		r.provider = t.Provider
	}
	if p, ok := r.provider.(llm.TurnScoped); ok {
		r.provider = p.Turn()
	}
	if r.t.Transcript == nil {
		r.t.Transcript = llm.NewTranscript()
	}
	offered := r.t.frozenTools()
	r.tools = a.tools.Filter(func(name string) bool {
		return slices.ContainsFunc(offered, func(l llm.Tool) bool { return l.Name == name })
	})
	return r
}

func (r *run) emit(e Event) error {
	if r.stopped || !r.yield(e, nil) {
		r.stopped = true
		return errStopped
	}
	return nil
}

// record masks a step, asks the consumer to store it, and applies it. What is
// stored and what later model calls contain are therefore the same bytes. The
// inputs of the calls are kept as the model sent them until the calls have run.
func (r *run) record(s Step) error {
	s.Version = stepVersion
	masked := r.a.maskStep(s)
	if err := r.emit(Record{masked}); err != nil {
		return err
	}
	if err := r.apply(masked); err != nil {
		return err
	}
	if len(masked.Masked) > 0 {
		r.batch.keepInputs(s.Messages[0].ToolUses())
	}
	return nil
}

// execute runs the turn to its end.
func (r *run) execute(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	for r.final == nil {
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	if err := r.syncShown(prompt.Scrub(r.answerText)); err != nil {
		return err
	}
	f := *r.final
	f.Text, f.Usage = r.a.mask(f.Text), r.usage // a secret may begin in one part and end in the next
	return r.emit(f)
}

// begin appends the input and replays the steps of earlier runs.
func (r *run) begin() error {
	if err := r.appendInput(); err != nil {
		return err
	}
	if err := r.adoptCompaction(); err != nil {
		return err
	}
	for i, s := range r.t.Steps {
		if s.Kind == StepAnswer || s.Kind == StepEmpty {
			r.calls++
		}
		if s.Kind == StepCompaction { // it followed the results
			if err := r.closeBatch(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		old := r.t.Transcript.Since(0)
		if err := r.apply(s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if s.Kind == StepCompaction {
			if err := r.emit(s.compactedEvent(old, r.t.Prefix)); err != nil {
				return err
			}
		}
	}
	return r.retract() // shows the earlier parts of a cut-off answer again
}

// appendInput appends the input as one user message. If the transcript ends
// with a user message, an assistant note is inserted first.
func (r *run) appendInput() error {
	in := llm.Message{Role: llm.User}
	for _, m := range r.t.Input {
		if m.Role != llm.User {
			return fmt.Errorf("%w: input has a message with role %s", ErrNothing, m.Role)
		}
		in.Blocks = append(in.Blocks, userBlocks(m.Blocks)...)
	}
	tr := r.t.Transcript
	if len(in.Blocks) > 0 {
		Close(tr, "")
		r.turnStart = tr.Len()
		tr.Append(in)
		return nil
	}
	if tr.Len() == 0 || tr.At(tr.Len()-1).Role != llm.User {
		return ErrNothing
	}
	r.turnStart = tr.Len() - 1
	return nil
}

// userBlocks returns the blocks that a user message may hold, without empty
// text.
func userBlocks(bs []llm.Block) []llm.Block {
	return slices.DeleteFunc(slices.Clone(bs), func(b llm.Block) bool {
		return b.Type != llm.Image && (b.Type != llm.Text || strings.TrimSpace(b.Text) == "")
	})
}

// step performs the next action: the pending tool calls, then a model call.
func (r *run) step(ctx context.Context) error {
	if r.batch != nil {
		if err := r.runBatch(ctx); err != nil {
			return err
		}
		if r.invalidAnswers >= maxInvalidAnswers {
			return ErrInvalidCalls
		}
	}
	if ctx.Err() != nil {
		return interruptedError(ctx)
	}
	if err := r.fitContext(ctx); err != nil {
		return err
	}
	last := r.calls >= r.a.cfg.MaxTurns || r.outOfTime()
	done, err := r.callModel(ctx, last)
	if err != nil {
		return err
	}
	s, err := r.classifyAnswer(done, last)
	if err != nil {
		return err
	}
	return r.record(*s)
}

// outOfTime reports whether the turn has used up its time. A turn that is resumed after
// a crash has all of it again.
func (r *run) outOfTime() bool {
	return r.a.cfg.RunBudget > 0 && time.Since(r.began) >= r.a.cfg.RunBudget
}

const askSummary = "The limit of this turn is reached: no tool can be used any more. Say now, in a final answer, what was done, what was found, and what is left to do."

// buildRequest returns the next model request.
func (r *run) buildRequest(last bool) *llm.Request {
	q := &llm.Request{
		Model: r.t.Model, System: r.t.Prefix.System(), Tools: r.t.frozenTools(), Prefill: r.t.Prefill,
		Transcript: r.t.Transcript, Overlay: r.t.Overlay.Tail.String(), SystemOverlay: r.t.Overlay.System, MaxTokens: r.t.MaxTokens,
		Effort: r.t.Effort, CacheTTL: r.t.CacheTTL, DropThinking: r.dropThinking,
	}
	q.Effort = cmp.Or(q.Effort, r.a.cfg.ReasoningEffort)
	if text := r.t.Overlay.Turn.String(); text != "" {
		q.Turn = &llm.TurnOverlay{At: r.turnStart, Text: text}
	}
	if r.emptyAnswers == 1 {
		q.Overlay = ""
	}
	if last {
		q.NoTools, q.Overlay = true, r.t.Overlay.Tail.With(askSummary).String()
	}
	return q
}

// callModel makes one model call. A request that the provider rejects as too
// long is shortened and sent again; one that asks for too long an answer is
// sent again with the model's limit, and one with thinking that does not fit what is before it
// without thinking.
func (r *run) callModel(ctx context.Context, last bool) (llm.Done, error) {
	for attempts := 0; ; attempts++ {
		done, err := r.callModelOnce(ctx, r.buildRequest(last))
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || ctx.Err() != nil {
			return done, err
		}
		retry := false
		switch {
		case e.Class == llm.ContextOverflow || e.Class == llm.TooLarge:
			var shortenErr error
			if retry, shortenErr = r.shortenContext(ctx, e, attempts); shortenErr != nil {
				return done, shortenErr
			}
		case e.MaxTokens > 0 && r.t.MaxTokens != e.MaxTokens && attempts == 0:
			r.t.MaxTokens, retry = e.MaxTokens, true
			if err := r.emit(Notice{Kind: ReduceOutput, Err: e}); err != nil {
				return done, err
			}
		case e.Class == llm.PrefixCheck && !r.dropThinking:
			r.dropThinking, retry = true, true
		}
		if !retry {
			return done, err
		}
		r.calls--
	}
}

// callModelOnce makes one model call and shows its text. The returned answer is
// complete; the shown text of an incomplete one is retracted.
func (r *run) callModelOnce(ctx context.Context, q *llm.Request) (llm.Done, error) {
	if q.NoTools {
		if err := r.emit(Notice{Kind: Budget}); err != nil {
			return llm.Done{}, err
		}
	}
	start := time.Now()
	r.calls++
	s := answerStream{r: r}
	s.rewind()
	done, err := s.read(ctx, q)
	switch {
	case r.stopped:
		return done, errStopped
	case err != nil && ctx.Err() != nil:
		return done, interruptedError(ctx)
	case err != nil:
		return done, r.retractAndFail(fmt.Errorf("model call: %w", err))
	}
	done.Model = cmp.Or(done.Model, q.Model)
	if done.Provider == "" {
		done.Provider = r.provider.Name()
	}
	if w := r.t.ContextWindow; w != nil && done.Usage.Prompt() > 0 {
		w.Reported, w.At = done.Usage.Prompt(), r.t.Transcript.Len()
		w.Engine.Update(done.Usage)
	}
	return done, r.emit(Call{done.Model, done.Provider, done.Usage, time.Since(start), done.Stop, q})
}

func (r *run) showText(text string) error {
	if text == "" {
		return nil
	}
	r.shownText.WriteString(text)
	return r.emit(Text(text))
}

// retract retracts what the current call showed. Earlier parts of the same
// answer are shown again.
func (r *run) retract() error {
	var s prompt.Scrubber
	return r.syncShown(s.Write(r.answerText))
}

// syncShown makes the text shown since the last tool call equal to text, which
// may be masked already; the consumer masks what is shown.
func (r *run) syncShown(text string) error {
	text = r.a.mask(text)
	rest, ok := strings.CutPrefix(text, r.a.mask(r.shownText.String()))
	if !ok {
		r.shownText.Reset()
		if err := r.emit(Retracted{}); err != nil {
			return err
		}
		rest = text
	}
	return r.showText(rest)
}

// An answerStream shows one answer while it arrives.
type answerStream struct {
	r        *run
	scrubber prompt.Scrubber
	size     int
}

// rewind restarts the answer after the parts that are in the transcript.
func (s *answerStream) rewind() {
	s.scrubber, s.size = prompt.Scrubber{}, 0
	s.scrubber.Write(s.r.answerText)
}

// read returns the complete answer.
func (s *answerStream) read(ctx context.Context, q *llm.Request) (llm.Done, error) {
	for e, err := range s.r.provider.Stream(ctx, q) {
		if err != nil {
			return llm.Done{}, err
		}
		if done, ok := e.(llm.Done); ok {
			return done, nil
		}
		if err := s.handleEvent(e); err != nil {
			return llm.Done{}, err
		}
		if ctx.Err() != nil {
			return llm.Done{}, context.Cause(ctx)
		}
	}
	return llm.Done{}, s.invalidResponse("stream ended before the answer was complete")
}

func (s *answerStream) invalidResponse(what string) error {
	return &llm.Error{Class: llm.InvalidResponse, Provider: s.r.provider.Name(), Message: what}
}

func (s *answerStream) handleEvent(e llm.Event) error {
	switch e := e.(type) {
	case llm.TextDelta:
		if s.size += len(e); s.size > maxAnswerBytes {
			return s.invalidResponse("answer exceeds the size limit")
		}
		return s.r.showText(s.scrubber.Write(string(e)))
	case llm.ThinkingDelta:
		if s.size += len(e); s.size > maxAnswerBytes {
			return s.invalidResponse("answer exceeds the size limit")
		}
		return s.r.emit(Thinking(e))
	case llm.Notice:
		s.rewind()
		if err := s.r.retract(); err != nil {
			return err
		}
		n := Notice{Kind: Retry, Retry: e.Retry, After: e.After, Fallback: e.Fallback, Err: e.Err}
		if e.Fallback != "" {
			n.Kind = Fallback
		}
		return s.r.emit(n)
	}
	return nil
}
