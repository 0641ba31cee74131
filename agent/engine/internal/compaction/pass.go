package compaction

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hermesd/agent"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// Note is appended to the system prompt of a session that has been compacted.
const Note = "[Note: Some earlier conversation turns have been compacted into a summary to save context space. The summary and the messages behind it tell the current state; build on them instead of doing the work again.]"

// summaryHeader and summaryFooter enclose a summary.
const (
	summaryHeader = plan.SummaryHeading + " into the summary below, which stands for the archived messages %d to %d of this conversation. " +
		"It is reference, not an instruction: what it tells may be done already and must not be done again because it stands here. " +
		"Answer the newest message of the user; where the two differ, that message holds.\n\n%s\n\n" + summaryFooter
	summaryFooter = "--- End of the summary ---"
)

// minMiddleTokens is the size from which on a summary is smaller than the
// messages.
const minMiddleTokens = 400

var errLarger = errors.New("the summary would have made the context larger, so it was discarded")

// A compactionRun is one compaction in progress.
type compactionRun struct {
	e           *Engine
	v           agent.ContextView
	limits      TokenLimits
	ms          []llm.Message // v.Messages, repaired if illegal
	wasRepaired bool          // ms differ from v.Messages, all of which are archived

	plan      plan.Plan
	hasMiddle bool // there are messages to summarize
	tail      []llm.Message
	// cleared is the number of cleared results in the tail.
	cleared  int
	previous string // block with the previous summary
}

// Compress implements agent.Engine.
func (e *Engine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	if err := context.Cause(ctx); err != nil {
		return agent.Compaction{}, err
	}
	end := v.First + len(v.Messages)
	paused := false
	e.withState(func(s *state) { paused = s.coolingDown(end) && !v.Force && !v.WithoutModel })
	if paused {
		return agent.Compaction{}, agent.ErrCoolingDown
	}
	j := &compactionRun{e: e, v: v, limits: e.TokenLimits()}
	j.ms, j.wasRepaired = plan.Repair(v.Messages)
	j.choosePlan()
	if !j.hasMiddle && j.cleared == 0 {
		if !v.Force {
			e.withState(func(s *state) { s.recordIneffective(end) })
		}
		return agent.Compaction{}, agent.ErrCoolingDown
	}
	p, err := j.compact(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return agent.Compaction{}, context.Cause(ctx)
	case errors.Is(err, errLarger):
		e.withState(func(s *state) { s.recordIneffective(end) })
		return agent.Compaction{}, err
	case err != nil:
		e.withState(func(s *state) { s.recordFailure(err) })
		return agent.Compaction{}, fmt.Errorf("the conversation could not be summarised: %w", err)
	}
	return p, nil
}

// choosePlan decides which messages stay.
func (j *compactionRun) choosePlan() {
	at, text := plan.Summary(j.ms)
	e := j.e.o.Settings
	b := plan.Bounds{Head: max(e.ProtectFirstN-1, 0), LastN: e.ProtectLastN, Budget: j.limits.Tail}
	if at >= 0 {
		b.Head, j.previous = 0, text
	}
	j.plan, j.hasMiddle = plan.NewPlan(j.ms, b)
	if !j.hasMiddle {
		j.plan.Head, j.plan.Tail = 0, 0
	}
	j.tail = j.ms[j.plan.Tail:]
	if plan.Tokens(j.tail) <= j.limits.Threshold {
		j.dropSmallMiddle()
		return
	}
	room := max(j.limits.Threshold-j.v.FixedTokens-j.limits.Summary, j.limits.Tail)
	j.tail, j.cleared = plan.PruneTail(j.tail, room)
	if plan.Tokens(j.tail) <= j.limits.Threshold {
		return
	}
	// The tail is too large even without its output: shrink it to its budget.
	b.LastN = 2
	if p, ok := plan.NewPlan(j.ms, b); ok && (!j.hasMiddle || p.Tail > j.plan.Tail) {
		j.plan, j.hasMiddle = p, true
		j.tail, j.cleared = plan.PruneTail(j.ms[p.Tail:], room)
	}
}

// dropSmallMiddle keeps a middle that is too small for a summary.
func (j *compactionRun) dropSmallMiddle() {
	n := 0
	for _, m := range j.ms[j.plan.Head:j.plan.Tail] {
		if n += tokens.Message(m); n >= minMiddleTokens {
			return
		}
	}
	j.hasMiddle = false
}

func (j *compactionRun) compact(ctx context.Context) (agent.Compaction, error) {
	p := agent.Compaction{PromptNote: Note, Before: j.v.FixedTokens + plan.Tokens(j.ms)}
	from, to := plan.Changed(j.ms[j.plan.Tail:], j.tail)
	if to > 0 {
		p.From, p.To = j.plan.Tail+from, j.plan.Tail+to
	}
	p.Messages = append(append([]llm.Message{}, j.ms[:j.plan.Tail]...), j.tail...)
	body, banner := "", ""
	if j.hasMiddle {
		var err error
		if body, banner, err = j.summarize(ctx, &p); err != nil {
			return p, err
		}
	} else {
		p.PromptNote = ""
	}
	if j.wasRepaired {
		p.From, p.To = 0, len(j.v.Messages)
	}
	p.After = j.v.FixedTokens + plan.Tokens(p.Messages)
	if p.After >= p.Before {
		return p, errLarger
	}
	j.recordResult(&p, body, banner)
	return p, nil
}

// summarize replaces the middle by a summary.
func (j *compactionRun) summarize(ctx context.Context, p *agent.Compaction) (body, banner string, err error) {
	pruned := plan.Prune(j.ms, j.plan.Tail)
	head, mid := pruned[:j.plan.Head], plan.WithoutSummary(pruned[j.plan.Head:], j.previous)
	from, to := j.plan.Head, j.plan.Tail
	if i, n := plan.Changed(j.ms[:j.plan.Head], head); n > 0 {
		from = i
	}
	if j.plan.Merge {
		from = min(from, j.plan.Head-1)
	}
	p.From, p.To = from, max(to, p.To)
	part := SummaryInput{
		Messages: mid, From: j.v.First + j.plan.Head, To: j.v.First + j.plan.Tail, Start: j.v.First,
		Budget: j.limits.SummaryBudget(plan.Tokens(mid)), Focus: strings.TrimSpace(j.v.Focus), User: summary.UserText(j.ms), WithoutModel: j.v.WithoutModel,
	}
	first := part.From
	if j.previous != "" {
		part.Previous = j.previousSummary(&first)
	}
	part.First, part.Most = first, j.limits.Summary
	w := &summary.Writer{First: j.e.o.Completer, Second: j.e.o.Main, Redact: j.e.o.redact}
	body, err = j.e.s.Write(ctx, w, part)
	p.Usage, p.Model = w.Usage, w.Model
	if err != nil {
		return "", "", err
	}
	if w.Fault != nil {
		p.Explain("The summary model failed (%s), so the main model wrote the summary.", w.Fault.Error())
	}
	if j.v.WithoutModel {
		p.Explanation, p.Sentences = "", nil
		p.Explain("No model could write the summary, so it was made without one: it names what was asked and done last. The whole text is archived.")
	}
	banner = fmt.Sprintf(summaryHeader, first, part.To-1, body)
	p.Messages = plan.Assemble(head, j.plan, banner, j.tail)
	j.e.withState(func(s *state) { s.From = first })
	return body, banner, nil
}

// previousSummary returns the text of the previous summary, and sets first to
// the number of the first message that it covers.
func (j *compactionRun) previousSummary(first *int) (body string) {
	j.e.withState(func(s *state) {
		if s.HasSummary && s.Banner == digest(j.previous) {
			body, *first = s.Body, s.From
		}
	})
	if body != "" {
		return body
	}
	// The state belongs to another engine or to a discarded compaction.
	text := strings.TrimSuffix(strings.TrimSpace(j.previous), summaryFooter)
	var a, b int
	if i := strings.Index(text, "archived messages "); i >= 0 {
		if n, err := fmt.Sscanf(text[i:], "archived messages %d to %d", &a, &b); err == nil && n == 2 && a >= 0 && a <= b && b < j.v.First {
			*first = a
		}
	}
	if _, rest, ok := strings.Cut(text, "\n\n"); ok {
		text = rest
	}
	return strings.TrimSpace(text)
}

// recordResult stores the result of the compaction in the state.
func (j *compactionRun) recordResult(p *agent.Compaction, body, banner string) {
	if j.cleared > 0 {
		p.Explain("The newest messages alone were too long, so %s older tool results among them were cleared; they are archived.", strconv.Itoa(j.cleared))
	}
	kept := j.e.s.Save()
	j.e.withState(func(s *state) {
		saved := p.Before - p.After
		s.Failures, s.Until, s.Reason = 0, time.Time{}, ""
		if saved*100 < minSavedPercent*p.Before {
			// Message numbers after this compaction continue after the new
			// list.
			s.recordIneffective(j.v.First + len(j.v.Messages) + len(p.Messages))
		} else {
			s.Ineffective, s.Resume = 0, 0
		}
		s.Passes++
		s.Archived += p.To - p.From
		s.Last = fmt.Sprintf("about %d tokens became %d, %d messages archived", p.Before, p.After, p.To-p.From)
		if banner != "" {
			s.Banner, s.Body, s.HasSummary = digest(banner), body, true
			s.Summarizer = kept
		}
	})
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
