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
	workers = 8               // tools that run beside each other
	grace   = 5 * time.Second // for running tools of an interrupted turn
	// maxResults is the most characters of all results of one answer.
	maxResults = 200_000
)

// What a model reads where a tool gave no result of its own.
const (
	textUnknown     = "The outcome of this call is unknown: the daemon was restarted while it ran. It may or may not have taken effect, and it was not run again. Check before you repeat it."
	textInterrupted = "Interrupted: the turn was stopped while this call ran. It may have done part of its work."
	textSkipped     = "Skipped: the turn was interrupted before this call began."
	textNothing     = "(no output)"
)

func result(id, text string) llm.Block {
	return llm.Block{Type: llm.ToolResult, ID: id, Text: text}
}

func failure(id, text string) llm.Block {
	return llm.Block{Type: llm.ToolResult, ID: id, Text: text, Failed: true}
}

// work runs what is left of the batch and moves its results into the
// transcript. If ctx ends, the rest is told to be interrupted or skipped.
func (r *run) work(ctx context.Context) error {
	b := r.batch
	if err := r.unknown(b); err != nil {
		return err
	}
	snapshot := llm.NewTranscript(r.t.Transcript.Since(0)...)
	for _, group := range r.groups(b) {
		g := r.newGroup(group, snapshot)
		if err := g.run(ctx); err != nil {
			return err
		}
	}
	if !b.complete() {
		for _, c := range b.calls {
			if _, ok := b.results[c.ID]; !ok {
				b.results[c.ID] = failure(c.ID, textSkipped)
			}
		}
		if err := r.closeBatch(); err != nil {
			return err
		}
		return interrupted(ctx)
	}
	if r.t.Steer != nil && !b.steered && ctx.Err() == nil && r.invalidAnswers < maxInvalidAnswers {
		if blocks := speakable(r.t.Steer()); len(blocks) > 0 {
			if err := r.record(Step{Kind: StepSteer, Blocks: blocks}); err != nil {
				return err
			}
		}
	}
	if err := r.closeBatch(); err != nil {
		return err
	}
	if r.shown.Len() > 0 { // said beside calls of which none could be run
		return r.settle("")
	}
	return nil
}

// unknown answers the calls that had started when an earlier run died.
func (r *run) unknown(b *batch) error {
	for _, c := range b.calls {
		if _, ok := b.results[c.ID]; ok || !b.started[c.ID] {
			continue
		}
		f := failure(c.ID, textUnknown)
		if err := r.record(Step{Kind: StepResult, Call: c.ID, Result: &f}); err != nil {
			return err
		}
	}
	return nil
}

// groups returns the calls that have no result, in order, those together that
// run beside each other.
func (r *run) groups(b *batch) [][]llm.Block {
	var groups [][]llm.Block
	alone := true // whether nothing may join the last group
	for _, c := range b.calls {
		if _, ok := b.results[c.ID]; ok {
			continue
		}
		t, ok := r.a.tools.Lookup(c.Name)
		parallel := ok && t.Spec().Parallel && len(b.bad) == 0
		if n := len(groups); n > 0 && parallel && !alone {
			groups[n-1] = append(groups[n-1], c)
		} else {
			groups = append(groups, []llm.Block{c})
		}
		alone = !parallel
	}
	return groups
}

// A group is calls that run beside each other.
type group struct {
	r      *run
	calls  []llm.Block
	said   *llm.Transcript
	done   chan outcome // has room for all, so that nobody waits to send
	active map[string]llm.Block
}

// An outcome is what became of a call.
type outcome struct {
	call llm.Block
	text string
	err  error
	took time.Duration
}

func (r *run) newGroup(calls []llm.Block, said *llm.Transcript) *group {
	return &group{r: r, calls: calls, said: said, done: make(chan outcome, len(calls)), active: map[string]llm.Block{}}
}

// run runs the calls, at most workers at a time. It returns without waiting for
// those that do not end in time after ctx has.
func (g *group) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for next := 0; ctx.Err() == nil && (next < len(g.calls) || len(g.active) > 0); {
		var err error
		if next < len(g.calls) && len(g.active) < workers {
			err = g.start(ctx, g.calls[next])
			next++
		} else {
			select {
			case o := <-g.done:
				err = g.settle(ctx, o)
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

// start announces a call and lets it run.
func (g *group) start(ctx context.Context, c llm.Block) error {
	t, ok := g.r.a.tools.Lookup(c.Name)
	if !ok || !g.r.offered[c.Name] {
		f := failure(c.ID, fmt.Sprintf("Not run: the tool %s is not there any more.", c.Name))
		return g.r.record(Step{Kind: StepResult, Call: c.ID, Result: &f})
	}
	if g.r.t.CheckTool != nil {
		if err := g.r.t.CheckTool(c.Name); err != nil {
			f := failure(c.ID, "Refused: "+err.Error())
			return g.r.record(Step{Kind: StepResult, Call: c.ID, Result: &f})
		}
	}
	effect := t.Spec().Effect
	g.r.shown.Reset()
	if err := g.r.emit(ToolCall{ID: c.ID, Name: c.Name, Input: c.Input, Effect: effect}); err != nil {
		return err
	}
	if effect != tool.Pure && effect != tool.Idempotent {
		if err := g.r.record(Step{Kind: StepStart, Call: c.ID}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // stopped while it was announced: it must not run
		g.r.batch.results[c.ID] = failure(c.ID, textSkipped)
		return nil
	}
	g.active[c.ID] = c
	call := tool.Call{ID: c.ID, Input: c.Input, Session: g.r.t.Session, Transcript: g.said, User: g.r.t.User, CheckTool: g.r.allowed()}
	// The group waits for the call; if it does not end, Agent.Wait does.
	g.r.a.running.Go(func() { g.done <- g.r.a.use(ctx, t, c, call) })
	return nil
}

// allowed is what the person of the turn may use now, for a tool that has others
// run in its name. It asks Turn.May here, on the goroutine of the run, so that the
// consumer need not expect it anywhere else.
func (r *run) allowed() func(string) error {
	refused := map[string]error{}
	for name := range r.offered {
		if r.t.CheckTool == nil {
			break
		}
		if err := r.t.CheckTool(name); err != nil {
			refused[name] = err
		}
	}
	return func(name string) error {
		if !r.offered[name] {
			return fmt.Errorf("the tool %s is not there", name)
		}
		return refused[name]
	}
}

// settle makes the outcome of a call its result.
func (g *group) settle(ctx context.Context, o outcome) error {
	delete(g.active, o.call.ID)
	if o.err != nil && ctx.Err() != nil {
		g.r.batch.results[o.call.ID] = failure(o.call.ID, textInterrupted)
		return nil
	}
	b := result(o.call.ID, o.text)
	switch {
	case o.err != nil:
		b = failure(o.call.ID, o.text)
	case g.r.t.AfterTool != nil:
		if more := g.r.t.AfterTool(o.call.Name, o.call.Input); more != "" {
			b.Text += "\n\n" + readable(more)
		}
	}
	if err := g.r.record(Step{Kind: StepResult, Call: o.call.ID, Result: &b}); err != nil {
		return err
	}
	return g.r.emit(ToolFinished{ID: o.call.ID, Name: o.call.Name, Result: b.Text, Failed: b.Failed, Took: o.took})
}

// drain waits for the calls that still run when ctx has ended, and leaves behind
// those that do not end in time. It returns err, or what went wrong meanwhile.
func (g *group) drain(ctx context.Context, err error) error {
	if len(g.active) == 0 {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for len(g.active) > 0 {
		select {
		case o := <-g.done:
			if err != nil {
				delete(g.active, o.call.ID)
				continue
			}
			err = g.settle(ctx, o)
		case <-timer.C:
			for id := range g.active {
				g.r.batch.results[id] = failure(id, textInterrupted)
			}
			return err
		}
	}
	return err
}

// use runs one call. It is the wall at which a tool's panic ends.
func (a *Agent) use(ctx context.Context, t tool.Tool, c llm.Block, call tool.Call) (o outcome) {
	began := time.Now()
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
		o.text = tool.Truncate(readable(o.text), limit)
		o.took = time.Since(began)
	}()
	o.text, o.err = t.Run(ctx, call)
	finished = true
	return o
}

// readable returns a tool's text as a model may read it.
func readable(s string) string {
	s = prompt.EscapeTags(strings.ToValidUTF8(s, "\uFFFD"))
	if strings.TrimSpace(s) == "" {
		return textNothing
	}
	return s
}

// shrink cuts the longest results until all of them together have at most
// maxResults characters.
func shrink(bs []llm.Block) {
	limit := tool.FairShare(sizes(bs), maxResults)
	for i := range bs {
		bs[i].Text = tool.Truncate(bs[i].Text, limit)
	}
}

func sizes(bs []llm.Block) []int {
	out := make([]int, len(bs))
	for i, b := range bs {
		out[i] = len([]rune(b.Text))
	}
	return out
}
