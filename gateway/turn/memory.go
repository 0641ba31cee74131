package turn

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/memory/provider"
	memorytool "hermesd/agent/tools/memory"
	"hermesd/gateway/active"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// memoryTurn describes what the claim does in a session to the external memory.
func (c *claim) memoryTurn(rec session.Record) memory.Turn {
	mt := memory.TurnOf(rec, active.LeastPrivileged(c.Entries))
	mt.Text, mt.Cron = inboundText(c.Entries), mt.Cron || c.first().Occurrence != nil
	return mt
}

// beginRecall starts the recall of what fits text. It does not wait.
func (t *turn) beginRecall(text string) {
	m := t.runner.parts.Agent.Memory.External
	if !m.On() {
		return
	}
	mt := t.memoryTurn(t.session.Record)
	mt.Text, mt.Frozen = text, t.session.Prefix.System()
	t.recall = m.Recall(mt)
}

// memoryNotices returns what the people of the turn are to be told about the external
// memory. Each notice is returned once: the caller commits it.
func (t *turn) memoryNotices() (notices []string) {
	for _, err := range t.runner.parts.Agent.Memory.Notices(t.memoryTurn(t.session.Record)) {
		notices = append(notices, t.LocalizeError(err))
	}
	return notices
}

// memoryEvents returns the events of a turn that has ended with answer.
func (t *turn) memoryEvents(answer string) []store.Event {
	m := t.runner.parts.Agent.Memory.External
	if !m.On() {
		return nil
	}
	mt := t.memoryTurn(t.session.Record)
	if m.SyncsTools() {
		mt.Tools = t.toolUses()
	}
	return m.TurnEvents(mt, t.Turn, mt.Text, answer, time.Now())
}

// toolUses returns the calls of tools of the turn with their results. They are those of its
// steps, because a compaction may have replaced the messages.
func (t *turn) toolUses() (list []provider.ToolUse) {
	at := map[string]int{} // place in list by ID of the call
	for _, raw := range t.claim.Steps {
		var st step
		if err := json.Unmarshal(raw, &st); err != nil {
			t.log.Error("cannot decode a step for the memory provider", zap.Error(err))
			return list
		}
		for _, m := range st.Agent.Messages {
			for _, b := range m.ToolUses() {
				at[b.ID] = len(list)
				why, bad := st.Agent.Bad[b.ID]
				list = append(list, provider.ToolUse{ID: b.ID, Name: b.Name, Input: string(b.Input), Output: why, Failed: bad})
			}
		}
		if r := st.Agent.Result; r != nil {
			if i, ok := at[st.Agent.Call]; ok {
				list[i].Output, list[i].Failed = r.Text, r.Failed
			}
		}
	}
	return list
}

// checkpointEvents returns the event of the messages that compactions of the turn have
// archived.
func (t *turn) checkpointEvents() []store.Event {
	if len(t.archived) == 0 {
		return nil
	}
	var ms []provider.Message
	for _, m := range t.archived {
		if text := plainText(m); text != "" {
			ms = append(ms, provider.Message{Role: string(m.Role), Text: text})
		}
	}
	return t.runner.parts.Agent.Memory.External.CheckpointEvents(t.memoryTurn(t.session.Record), t.Turn, ms)
}

// plainText returns what was said in m: its texts, without calls, results and thinking.
func plainText(m llm.Message) string {
	var parts []string
	for _, b := range m.Blocks {
		if b.Type == llm.Text {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// mirrorMemory compares the built-in memory with what the external one was told of it, if
// they may differ: after the first turn of a conversation, and after one that used the tool.
func (t *turn) mirrorMemory(isFirst bool) {
	m := t.runner.parts.Agent.Memory
	if !m.External.On() || !isFirst && !slices.Contains(t.trace.Tools, memorytool.Name) {
		return
	}
	rec, mt := t.session.Record, t.memoryTurn(t.session.Record)
	t.runner.goBackground(func(ctx context.Context) {
		entries, err := m.Entries(rec)
		if err == nil && entries != nil {
			err = m.External.Mirror(ctx, mt, entries)
		}
		if err != nil {
			t.log.Warn("cannot compare the memories with those of the provider", zap.Error(err))
		}
	})
}

// wakeMemory tells the external memory that events were committed.
func (c *claim) wakeMemory(events []store.Event) {
	if len(events) > 0 {
		c.runner.parts.Agent.Memory.External.Wake()
	}
}
