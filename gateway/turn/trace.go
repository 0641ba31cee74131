package turn

import (
	"encoding/json"
	"time"

	"hermesd/agent/llm"
)

// A Trace describes the run of a turn. `why` prints it.
type Trace struct {
	Session string        `json:"session,omitempty"`
	Started time.Time     `json:"began"`
	Took    time.Duration `json:"took"`
	Resumed bool          `json:"resumed,omitempty"`
	Calls   []Call        `json:"calls,omitempty"`
	Tools   []string      `json:"tools,omitempty"`
	Notices []string      `json:"notices,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// A Call is one model call of a turn.
type Call struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Took     time.Duration `json:"took"`
	Usage    llm.Usage     `json:"usage"`
}

// encodeTrace returns the stored form of the trace, masked.
func (c *claim) encodeTrace() json.RawMessage {
	t, mask := c.trace, c.runner.parts.Agent.Agent.Mask
	t.Took, t.Error = time.Since(t.Started), mask(t.Error)
	for i, n := range t.Notices {
		t.Notices[i] = mask(n)
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	return raw
}
