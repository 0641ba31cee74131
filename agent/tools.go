package agent

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

const (
	maxParallelTools = 8               // tools that run concurrently
	interruptGrace   = 5 * time.Second // time for running tools of an interrupted turn to end
	// maxResultsChars limits the characters of all results of one answer
	// together.
	maxResultsChars = 200_000
)

// Results that the model receives for calls without a result of their own.
const (
	textUnknown     = "The outcome of this call is unknown: the daemon was restarted while it ran. It may or may not have taken effect, and it was not run again. Check before you repeat it."
	textInterrupted = "Interrupted: the turn was stopped while this call ran. It may have done part of its work."
	textSkipped     = "Skipped: the turn was interrupted before this call began."
	textMasked      = "Not run: the daemon was restarted before this call ran. Its input contained a secret and is stored masked, so it cannot be run as it was sent. Make the call again if it is still needed."
	textNoOutput    = "(no output)"
)

func toolFailure(id, text string) llm.Block {
	return llm.Block{Type: llm.ToolResult, ID: id, Text: text, Failed: true}
}

// runBatch runs the calls of the batch that have no result and moves all
// results into the transcript. If ctx ends, the remaining calls are marked as
// interrupted or skipped.
func (r *run) runBatch(ctx context.Context) error {
	b := r.batch
	if err := r.recordUnknownOutcomes(b); err != nil {
		return err
	}
	snapshot := llm.NewTranscript(r.t.Transcript.Since(0)...)
	for _, group := range r.groupCalls(b) {
		g := r.newCallGroup(group, snapshot)
		if err := g.run(ctx); err != nil {
			return err
		}
	}
	if !b.isComplete() {
		for _, c := range b.calls {
			if _, ok := b.results[c.ID]; !ok {
				b.results[c.ID] = toolFailure(c.ID, textSkipped)
			}
		}
		if err := r.closeBatch(); err != nil {
			return err
		}
		return interruptedError(ctx)
	}
	if r.t.Steer != nil && !b.steered && ctx.Err() == nil && r.invalidAnswers < maxInvalidAnswers {
		if blocks := userBlocks(r.t.Steer()); len(blocks) > 0 {
			if err := r.record(Step{Kind: StepSteer, Blocks: blocks}); err != nil {
				return err
			}
		}
	}
	if err := r.closeBatch(); err != nil {
		return err
	}
	if r.shownText.Len() > 0 { // shown with calls that were all invalid
		return r.syncShown("")
	}
	return nil
}

// recordUnknownOutcomes records a result for each call that had started when an
// earlier run died.
func (r *run) recordUnknownOutcomes(b *batch) error {
	for _, c := range b.calls {
		if _, ok := b.results[c.ID]; ok || !b.started[c.ID] {
			continue
		}
		f := toolFailure(c.ID, textUnknown)
		if err := r.record(Step{Kind: StepResult, Call: c.ID, Result: &f}); err != nil {
			return err
		}
	}
	return nil
}

// groupCalls returns the calls without a result, in order; calls that may run
// concurrently share a group.
func (r *run) groupCalls(b *batch) [][]llm.Block {
	var groups [][]llm.Block
	alone := true // no call may join the last group
	for _, c := range b.calls {
		if _, ok := b.results[c.ID]; ok {
			continue
		}
		t, ok := r.a.tools.Lookup(c.Name)
		parallel := ok && t.Spec().Parallel && len(b.invalid) == 0
		if n := len(groups); n > 0 && parallel && !alone {
			groups[n-1] = append(groups[n-1], c)
		} else {
			groups = append(groups, []llm.Block{c})
		}
		alone = !parallel
	}
	return groups
}

// A callGroup runs calls concurrently.
type callGroup struct {
	r          *run
	calls      []llm.Block
	transcript *llm.Transcript
	outcomes   chan callOutcome // has capacity for all, so that sending never blocks
	active     map[string]llm.Block
}

type callOutcome struct {
	call llm.Block
	text string
	err  error
	took time.Duration
}

func (r *run) newCallGroup(calls []llm.Block, transcript *llm.Transcript) *callGroup {
	return &callGroup{r: r, calls: calls, transcript: transcript, outcomes: make(chan callOutcome, len(calls)), active: map[string]llm.Block{}}
}

// run runs the calls, at most maxParallelTools at a time. It returns without
// waiting for those that do not end within interruptGrace after ctx has ended.
func (g *callGroup) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for next := 0; ctx.Err() == nil && (next < len(g.calls) || len(g.active) > 0); {
		var err error
		if next < len(g.calls) && len(g.active) < maxParallelTools {
			err = g.start(ctx, g.calls[next])
			next++
		} else {
			select {
			case o := <-g.outcomes:
				err = g.recordOutcome(ctx, o)
			case <-ctx.Done():
			}
		}
		if err != nil {
			cancel(err)
			return g.drain(ctx, err)
		}
	}
	return g.drain(ctx, nil)
}

func (g *callGroup) start(ctx context.Context, c llm.Block) error {
	t, ok := g.r.tools.Lookup(c.Name)
	if !ok {
		f := toolFailure(c.ID, fmt.Sprintf("Not run: the tool %s is not there any more.", c.Name))
		return g.r.record(Step{Kind: StepResult, Call: c.ID, Result: &f})
	}
	if g.r.t.CheckTool != nil {
		if err := g.r.t.CheckTool(c.Name); err != nil {
			f := toolFailure(c.ID, "Refused: "+err.Error())
			return g.r.record(Step{Kind: StepResult, Call: c.ID, Result: &f})
		}
	}
	input, ok := g.r.batch.inputOf(c)
	if !ok {
		f := toolFailure(c.ID, textMasked)
		return g.r.record(Step{Kind: StepResult, Call: c.ID, Result: &f})
	}
	effect := t.Spec().Effect
	g.r.shownText.Reset()
	if err := g.r.emit(ToolCall{ID: c.ID, Name: c.Name, Input: c.Input, Effect: effect}); err != nil {
		return err
	}
	if effect != tool.Pure && effect != tool.Idempotent {
		if err := g.r.record(Step{Kind: StepStart, Call: c.ID}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // canceled while it was announced: it must not run
		g.r.batch.results[c.ID] = toolFailure(c.ID, textSkipped)
		return nil
	}
	g.active[c.ID] = c
	call := tool.Call{
		ID: c.ID, Input: input, Session: g.r.t.Session, Transcript: g.transcript, Replaced: replacedRow(g.r.replaced), User: g.r.t.User,
		Tools: g.r.tools, CheckTool: g.r.newToolCheck(),
	}
	// The group waits for the call; if the group abandons it, Agent.Wait still
	// does.
	g.r.a.running.Go(func() { g.outcomes <- g.r.a.runTool(ctx, t, c, call) })
	return nil
}

// A replacedList holds the messages that a compaction of the run has replaced.
// The number of the first one is first.
type replacedList struct {
	first    int
	messages []llm.Message
}

// replacedRow returns the implementation of tool.Call.Replaced.
func replacedRow(lists []replacedList) func(row int) (llm.Message, bool) {
	return func(row int) (llm.Message, bool) {
		for _, l := range lists {
			if i := row - l.first; i >= 0 && i < len(l.messages) {
				return l.messages[i], true
			}
		}
		return llm.Message{}, false
	}
}

// newToolCheck returns a check of the tools that the actor of the turn may use
// now, for a tool that runs other tools in its name. It calls Turn.CheckTool
// here, on the goroutine of the run, so that the consumer does not have to
// expect calls from another one.
func (r *run) newToolCheck() func(string) error {
	refused := map[string]error{}
	for _, name := range r.tools.Names() {
		if r.t.CheckTool == nil {
			break
		}
		if err := r.t.CheckTool(name); err != nil {
			refused[name] = err
		}
	}
	return func(name string) error {
		if _, ok := r.tools.Lookup(name); !ok {
			return fmt.Errorf("the tool %s is not there", name)
		}
		return refused[name]
	}
}

func (g *callGroup) recordOutcome(ctx context.Context, o callOutcome) error {
	delete(g.active, o.call.ID)
	if o.err != nil && ctx.Err() != nil {
		g.r.batch.results[o.call.ID] = toolFailure(o.call.ID, textInterrupted)
		return nil
	}
	b := llm.Block{Type: llm.ToolResult, ID: o.call.ID, Text: o.text}
	switch {
	case o.err != nil:
		b = toolFailure(o.call.ID, o.text)
	case g.r.t.AfterTool != nil:
		if more := g.r.t.AfterTool(o.call.Name, o.call.Input); more != "" {
			b.Text += "\n\n" + g.r.a.sanitizeText(more)
		}
	}
	if err := g.r.record(Step{Kind: StepResult, Call: o.call.ID, Result: &b}); err != nil {
		return err
	}
	return g.r.emit(ToolFinished{ID: o.call.ID, Name: o.call.Name, Result: b.Text, Failed: b.Failed, Took: o.took})
}

// drain waits for the calls that still run after ctx has ended, and abandons
// those that do not end in time. It returns err, or the error of recording a
// result.
func (g *callGroup) drain(ctx context.Context, err error) error {
	if len(g.active) == 0 {
		return err
	}
	timer := time.NewTimer(interruptGrace)
	defer timer.Stop()
	for len(g.active) > 0 {
		select {
		case o := <-g.outcomes:
			if err != nil {
				delete(g.active, o.call.ID)
				continue
			}
			err = g.recordOutcome(ctx, o)
		case <-timer.C:
			for id := range g.active {
				g.r.batch.results[id] = toolFailure(id, textInterrupted)
			}
			return err
		}
	}
	return err
}

// runTool runs one call. A panic of the tool becomes a failed result.
func (a *Agent) runTool(ctx context.Context, t tool.Tool, c llm.Block, call tool.Call) (o callOutcome) {
	start := time.Now()
	o.call = c
	finished := false
	defer func() {
		if !finished {
			v := recover()
			a.onPanic(c.Name, v, debug.Stack())
			o.err = fmt.Errorf("the tool failed inside; it may have done part of its work")
		}
		limit := t.Spec().MaxResult
		if limit <= 0 {
			limit = tool.DefaultMaxResult
		}
		if o.err != nil {
			o.text = strings.TrimSpace(o.text + "\nError: " + o.err.Error())
		}
		o.text = tool.Truncate(a.sanitizeText(o.text), limit)
		o.took = time.Since(start)
	}()
	o.text, o.err = t.Run(ctx, call)
	finished = true
	return o
}

// sanitizeText returns a tool's text with secrets masked, overlay tags escaped
// and invalid UTF-8 replaced. Secrets are masked here already, because a text
// that is truncated may end within one.
func (a *Agent) sanitizeText(s string) string {
	s = prompt.EscapeTags(strings.ToValidUTF8(a.mask(s), "\uFFFD"))
	if strings.TrimSpace(s) == "" {
		return textNoOutput
	}
	return s
}

// truncateResults truncates the longest results until all together have at most
// maxResultsChars characters.
func truncateResults(bs []llm.Block) {
	limit := tool.FairShare(charCounts(bs), maxResultsChars)
	for i := range bs {
		bs[i].Text = tool.Truncate(bs[i].Text, limit)
	}
}

func charCounts(bs []llm.Block) []int {
	out := make([]int, len(bs))
	for i, b := range bs {
		out[i] = len([]rune(b.Text))
	}
	return out
}
