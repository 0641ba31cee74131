package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hermesd/agent/llm/ledger"
	"hermesd/agent/skills"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// describeUsage describes tokens and cost of the model calls of a conversation.
func (ctl *Control) describeUsage(ctx context.Context, c command.Call) (string, error) {
	if c.Session.ID == "" {
		return c.T(noSessionYet), nil
	}
	records, err := store.LoadCalls(ctx, ctl.parts.Store, c.Session.ID, 0)
	if err != nil {
		return "", err
	}
	if len(records) == 0 {
		return c.T("No model was called in this conversation yet."), nil
	}
	sum := ledger.Summarize(records)
	u := sum.Usage
	var b strings.Builder
	b.WriteString(c.T("**Usage of this conversation**") + "\n\n")
	fmt.Fprintln(&b, c.T("- calls: %d in %d turns", sum.Calls, c.Session.Turns))
	if n := records[0].N - 1; n > 0 {
		fmt.Fprintln(&b, c.T("- %d older calls are not kept any more and not counted", n))
	}
	fmt.Fprintln(&b, c.T("- tokens: %d input, %d read from the cache, %d written to it, %d output", u.Input, u.CacheRead, u.CacheWrite, u.Output))
	last := ledger.Summarize(records[len(records)-1:])
	fmt.Fprintln(&b, c.T("- reuse: %.0f %% of what was sent came from the cache; %.0f %% in the last call", sum.Reuse(), last.Reuse()))
	b.WriteString(ctl.formatCosts(c.Printer, records))
	if all := c.Session.Usage; all != nil && records[0].N == 1 {
		if in, out := all.Prompt()-u.Prompt(), all.Output-u.Output; in > 0 && out >= 0 {
			fmt.Fprintln(&b, c.T("- besides, summaries: %d tokens in, %d out; they are in no cost", in, out))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(sum.Breaks)) {
		fmt.Fprintln(&b, c.T("- the prefix broke %d times: %s", sum.Breaks[why], why))
	}
	return b.String(), nil
}

// formatCosts renders the cost of calls, as far as it is known.
func (ctl *Control) formatCosts(p i18n.Printer, records []ledger.Record) string {
	c := ledger.Price(records, ctl.parts.Options.Prices)
	var b strings.Builder
	if c.Paid > 0 || len(c.Unknown) == 0 {
		fmt.Fprintln(&b, p.T("- cost: %s; without a cache it were %s, at the very least %s", c.Paid, c.Uncached, min(c.Floor, c.Paid))) // the floor is an estimate
	}
	if len(c.Unknown) > 0 {
		fmt.Fprintln(&b, p.T("- the price of %s is not known, and in no cost", inlineCode(strings.Join(c.Unknown, ", "))))
	}
	return b.String()
}

// describeMemory shows an owner how full the memories are, only in a direct chat.
func (ctl *Control) describeMemory(_ context.Context, c command.Call) (string, error) {
	if c.Inbound.Address.Kind != chat.DM || c.Session.Shared {
		return c.T("Memories are not shown where others read along. Ask me in a direct chat, or run `hermesd memory show`."), nil
	}
	rec := c.Session
	if rec.ID == "" {
		rec = session.Record{Address: c.Inbound.Address, Owner: c.Inbound.Sender.ID}
	}
	memories, in := ctl.parts.Host.Memories(rec)
	external := ctl.describeExternalMemory(c, rec)
	if len(in) == 0 {
		return strings.TrimSpace(c.T("Memories are switched off (`memory.memory_enabled`, `memory.user_profile_enabled`).") + "\n\n" + external), nil
	}
	var b strings.Builder
	b.WriteString(c.T("**Memories**") + "\n\n")
	for _, t := range in {
		entries, err := memories.Entries(t)
		if err != nil {
			return "", fmt.Errorf("load memories: %w", err)
		}
		fmt.Fprintln(&b, c.T("- %s: %d entries, %s chars", t.File(), len(entries), strings.TrimSuffix(memories.Usage(t, entries), " chars")))
		_, blocked, err := memories.Snapshot(t)
		if err != nil {
			return "", fmt.Errorf("load memory snapshot: %w", err)
		}
		if n := len(blocked); n > 0 {
			fmt.Fprintln(&b, c.T("- ⚠️ %d of them are left out of prompts, because they look like an attack; `hermesd memory show` marks them", n))
		}
	}
	b.WriteString("\n" + c.T("A conversation goes on with what it began with; `/reload` reads them again. `hermesd memory show` prints the entries."))
	return strings.TrimSpace(b.String() + "\n\n" + external), nil
}

// describeExternalMemory describes the external memory to an owner; "" if there is none.
func (ctl *Control) describeExternalMemory(c command.Call, rec session.Record) string {
	m := ctl.parts.Runtime.Memory
	s := m.Status()
	if s.Provider == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(c.T("**External memory** (%s)", s.Provider) + "\n\n")
	if s.Place != "" {
		fmt.Fprintln(&b, c.T("- place: %s", s.Place))
	}
	if who := cmp.Or(m.Scope(memory.TurnOf(rec, c.Principal)).Person, s.Identity); who != "" {
		fmt.Fprintln(&b, c.T("- you are %s there", inlineCode(who)))
	}
	if len(s.Earlier) > 0 {
		fmt.Fprintln(&b, c.T("- what owners said before they were owners: %s; `hermesd memory forget --person NAME` deletes it there", inlineCode(strings.Join(s.Earlier, ", "))))
	}
	for _, last := range []struct {
		what, problem string
		at            time.Time
	}{{c.T("recalled"), s.Recall.LastError, s.Recall.LastOK}, {c.T("sent"), s.Sync.LastError, s.Sync.LastOK}} {
		switch {
		case last.problem != "" && !s.Up:
			fmt.Fprintln(&b, c.T("- ⚠️ %s: %s", last.what, last.problem))
		case !last.at.IsZero():
			fmt.Fprintln(&b, c.T("- %s: %s ago", last.what, time.Since(last.at).Round(time.Second)))
		}
	}
	fmt.Fprint(&b, c.T("- events: %d waiting, %d set aside", s.Queue.Waiting, s.Queue.Aside))
	return b.String()
}

// maxListedSkills is the maximum number of skills in one list.
const maxListedSkills = 60

// describeSkills lists the skills of a conversation; for owners also the hidden ones,
// with the reason.
func (ctl *Control) describeSkills(ctx context.Context, c command.Call) (string, error) {
	catalog, disabled := ctl.parts.Host.Skills()
	if catalog == nil {
		return c.T("There are no skills."), nil
	}
	f := skills.Filter{Disabled: disabled}
	if c.Session.ID != "" {
		p, err := store.LoadPrompt(ctx, ctl.parts.Store, c.Session.ID)
		if err != nil {
			return "", err
		}
		f.Tools = []string{}
		for _, t := range p.Tools() {
			f.Tools = append(f.Tools, t.Name)
		}
	}
	var offered, hidden []string
	for _, s := range catalog.Skills() {
		if why := s.Hidden(f); why != "" {
			hidden = append(hidden, fmt.Sprintf("- %s: %s\n", inlineCode(s.Name), inlineCode(why)))
			continue
		}
		line := "- " + inlineCode("/"+s.Name)
		if d := []rune(s.Description); len(d) > 0 {
			line += " " + inlineCode(string(d[:min(len(d), 100)]))
		}
		offered = append(offered, line+"\n")
	}
	var b strings.Builder
	if len(offered) == 0 {
		fmt.Fprintln(&b, c.T("No skill is offered here."))
	} else {
		b.WriteString(c.T("**Skills** (%d)", len(offered)) + "\n\n" + joinListed(c.Printer, offered))
	}
	if len(hidden) > 0 && c.Principal.Level >= access.Owner {
		b.WriteString("\n" + c.T("**Not offered here** (%d)", len(hidden)) + "\n\n" + joinListed(c.Printer, hidden))
	}
	return b.String(), nil
}

// joinListed joins at most maxSkills lines.
func joinListed(p i18n.Printer, lines []string) string {
	if n := len(lines) - maxListedSkills; n > 0 {
		return strings.Join(lines[:maxListedSkills], "") + p.T("- and %d more: `hermesd skills list`", n) + "\n"
	}
	return strings.Join(lines, "")
}
