package compaction

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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

type compactionRun struct {
	e           *Engine
	v           agent.ContextView
	limits      TokenLimits
	summarySize int           // maximum size of the block with the summary, in tokens
	ms          []llm.Message // v.Messages, repaired if illegal
	wasRepaired bool          // ms differ from v.Messages, all of which are archived

	plan      plan.Plan
	hasMiddle bool // there are messages to summarize
	tail      []llm.Message
	// cleared is the number of cleared results in the tail.
	cleared int
	// mustSummarize: only a summary brings the request within the limit. It replaces at
	// least so many tokens that the request becomes smaller.
	mustSummarize bool
	previous      string // block with the previous summary
}

func (e *Engine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	if err := context.Cause(ctx); err != nil {
		return agent.Compaction{}, err
	}
	end := v.First + len(v.Messages)
	paused := false
	above := v.Limit > 0 && v.FixedTokens+plan.Tokens(v.Messages) > v.Limit
	e.withState(func(s *state) {
		paused = s.coolingDown(end) && !v.Force && !v.WithoutModel && (!above || s.inFailureCooldown())
	})
	if paused {
		return agent.Compaction{}, agent.ErrCoolingDown
	}
	j := &compactionRun{e: e, v: v, limits: e.TokenLimits()}
	j.summarySize = e.s.MaxSize(j.limits.Summary) + frameTokens
	if v.Limit > 0 {
		j.v.Limit = max(v.Limit-noteTokens, 1) // the system prompt may get the note
	}
	j.ms, j.wasRepaired = plan.Repair(v.Messages)
	j.choosePlan()
	if !j.hasMiddle && j.cleared == 0 && !j.isAbove(j.ms) {
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
		return agent.Compaction{}, err
	}
	return p, nil
}

// choosePlan decides which messages stay. Together with everything else of the
// request they are to be smaller than the threshold. If they are not, the tail
// gives up its tool output and then protect_last_n. If they are above the limit
// even then, the first messages are given up, and after them the older part of
// the newest turn. What is too short to be truncated must be summarized, and
// enough of it that this saves something.
func (j *compactionRun) choosePlan() {
	var at int
	at, j.previous = plan.Summary(j.ms)
	j.mustSummarize = j.isAbove(j.ms) && j.isAbove(plan.Truncate(j.ms, j.v.Limit-j.v.FixedTokens, func(i int) int { return i }))
	b := plan.Bounds{Head: j.headLength(at), LastN: j.e.o.Settings.ProtectLastN, Budget: j.limits.Tail}
	goal, limit := max(j.room(j.limits.Threshold), j.limits.Tail), j.room(j.v.Limit)
	if j.v.Limit > 0 {
		goal = min(goal, limit)
	}
	defer j.dropSmallMiddle()
	if j.usePlan(plan.NewPlan(j.ms, b)); j.suffices(goal) {
		return
	}
	if j.prune(goal); j.suffices(goal) {
		return
	}
	b.LastN = 2
	if p, ok := plan.NewPlan(j.ms, b); ok && (!j.hasMiddle || p.Tail > j.plan.Tail) {
		j.usePlan(p, true)
		j.prune(goal)
	}
	if j.v.Limit == 0 || j.suffices(limit) {
		return
	}
	least := j.leastMiddle()
	j.usePlan(plan.NewPlan(j.ms, plan.Bounds{LastN: 1, Budget: max(limit-least, 0)}))
	if j.prune(limit); j.suffices(limit) {
		return
	}
	u := plan.NewestUser(j.ms)
	if p, ok := plan.NewPlanWithin(j.ms, limit-plan.Tokens(j.ms[max(u, 0):u+1])-least); ok {
		j.usePlan(p, true)
		j.prune(limit)
	}
}

// suffices reports whether the plan is one to keep: what stays has at most room
// tokens, and a summary that is necessary replaces enough.
func (j *compactionRun) suffices(room int) bool {
	return j.fits(room) && (!j.mustSummarize || j.hasMiddle && !j.isMiddleBelow(j.leastMiddle()))
}

// leastMiddle returns how many tokens a summary that is necessary replaces at least.
func (j *compactionRun) leastMiddle() int {
	if !j.mustSummarize {
		return 0
	}
	return max(minMiddleTokens, j.summarySize+1)
}

// usePlan makes p the plan. ok reports whether it has messages to summarize.
func (j *compactionRun) usePlan(p plan.Plan, ok bool) {
	if !ok {
		p = plan.Plan{Newest: -1}
	}
	j.plan, j.hasMiddle, j.tail, j.cleared = p, ok, j.ms[p.Tail:], 0
}

// prune clears tool output of the tail until what stays has at most room tokens.
func (j *compactionRun) prune(room int) {
	j.tail, j.cleared = plan.PruneTail(j.ms[j.plan.Tail:], room-j.headTokens())
}

// fits reports whether the messages that stay have at most room tokens.
func (j *compactionRun) fits(room int) bool { return j.headTokens()+plan.Tokens(j.tail) <= room }

// headTokens returns the tokens of the messages that stay before the tail.
func (j *compactionRun) headTokens() int {
	n := plan.Tokens(j.ms[:j.plan.Head])
	if j.plan.Newest >= 0 {
		n += tokens.Message(j.ms[j.plan.Newest])
	}
	return n
}

var noteTokens = tokens.Text(Note)

// frameTokens is the size of summaryHeader and summaryFooter.
var frameTokens = tokens.Text(summaryHeader + summaryFooter)

// room returns how many tokens the messages that stay may have in a request of n
// tokens with a summary.
func (j *compactionRun) room(n int) int {
	return n - j.v.FixedTokens - j.summarySize
}

// isAbove reports whether a request with the messages ms is above the limit.
func (j *compactionRun) isAbove(ms []llm.Message) bool {
	return j.v.Limit > 0 && j.v.FixedTokens+plan.Tokens(ms) > j.v.Limit
}

// headLength returns how many messages at the beginning stay. at is the index of
// the message with the earlier summary, -1 for none. After the first compaction
// they stay only if they are small.
func (j *compactionRun) headLength(at int) int {
	n := max(j.e.o.Settings.ProtectFirstN-1, 0)
	if at < 0 {
		return n
	}
	if j.ms[at].Blocks[0].Text != j.previous { // it is merged into a message of the head
		at++
	}
	n = min(n, at)
	if plan.Tokens(plan.WithoutSummary(j.ms[:n], j.previous)) > fraction(windowSummary, j.e.window()) {
		return 0
	}
	return n
}

// dropSmallMiddle keeps a middle that is too small for a summary.
func (j *compactionRun) dropSmallMiddle() {
	if j.hasMiddle && j.isMiddleBelow(minMiddleTokens) {
		j.hasMiddle, j.plan.Newest = false, -1
	}
}

// isMiddleBelow reports whether the middle has fewer than least tokens.
func (j *compactionRun) isMiddleBelow(least int) bool {
	n := 0
	for _, m := range j.middle(j.ms) {
		if n += tokens.Message(m); n >= least {
			return false
		}
	}
	return true
}

// middle returns the messages of ms that the summary replaces, without an
// earlier summary and the newest user message if that stays.
func (j *compactionRun) middle(ms []llm.Message) []llm.Message {
	ms = ms[j.plan.Head:j.plan.Tail]
	if i := j.plan.Newest - j.plan.Head; j.plan.Newest >= 0 && len(plan.OwnBlocks(ms[i])) == len(plan.WithoutSummary(ms[i:i+1], j.previous)[0].Blocks) {
		ms = slices.Concat(ms[:i], ms[i+1:])
	}
	return plan.WithoutSummary(ms, j.previous)
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
	if j.isAbove(p.Messages) {
		j.truncate(&p)
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

func (j *compactionRun) summarize(ctx context.Context, p *agent.Compaction) (body, banner string, err error) {
	pruned := plan.Prune(j.ms, j.plan.Tail)
	head, mid := plan.WithoutSummary(pruned[:j.plan.Head], j.previous), j.middle(pruned)
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
	var own []llm.Block
	if j.plan.Newest >= 0 {
		own = plan.OwnBlocks(j.ms[j.plan.Newest])
	}
	p.Messages = plan.Assemble(head, j.plan, banner, own, j.tail)
	j.e.withState(func(s *state) { s.From = first })
	return body, banner, nil
}

// truncatedPercent is the share, in percent, of the limit that messages are
// shortened to: with the answer the next request is not above the limit again.
const truncatedPercent = 90

// truncate shortens the messages of p until the request is within the limit, as
// far as possible, and archives the originals.
func (j *compactionRun) truncate(p *agent.Compaction) {
	shift := len(j.ms) - len(p.Messages) // of the tail
	row := func(i int) int {
		switch {
		case !j.hasMiddle || i < j.plan.Head:
			return i
		case i >= j.plan.Tail-shift:
			return i + shift
		case j.plan.Newest >= 0:
			return j.plan.Newest
		}
		return j.plan.Head // a summary, which is not truncated
	}
	short := plan.Truncate(p.Messages, (j.v.Limit-j.v.FixedTokens)*truncatedPercent/100, func(i int) int { return j.v.First + row(i) })
	from, to := plan.Changed(p.Messages, short)
	if to == 0 {
		return
	}
	p.Messages = short
	if from, to = row(from), row(to-1)+1; p.To == 0 {
		p.From, p.To = from, to
	}
	p.From, p.To = min(p.From, from), max(p.To, to)
	p.Explain("What is too long for the context of the model was shortened in the middle; the whole text is archived.")
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
