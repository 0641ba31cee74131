package apiclient_test

import (
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

func TestToolsAreEncodedAgainOnlyIfTheyDiffer(t *testing.T) {
	calls := 0
	encode := func(dst []byte, l llm.Tool) []byte {
		calls++
		return append(append(append(dst, l.Name...), '='), l.Schema...)
	}
	schema := []byte("1")
	first := []llm.Tool{{Name: "a", Schema: schema}, {Name: "b"}}
	var c apiclient.Tools
	for i, step := range []struct {
		tools []llm.Tool
		want  string
		calls int
	}{
		{first, "a=1,b=", 2},
		{[]llm.Tool{{Name: "a", Schema: []byte("1")}, {Name: "b"}}, "a=1,b=", 2}, // equal
		{first[:1], "a=1", 3},
		{[]llm.Tool{{Name: "a", Description: "d", Schema: schema}}, "a=1", 4},
	} {
		var b apiclient.Body
		c.Append(&b, step.tools, encode)
		if got := string(b.Bytes()); got != step.want || calls != step.calls {
			t.Errorf("%d: %q with %d encoded tools, want %q with %d", i, got, calls, step.want, step.calls)
		}
	}
	schema[0] = '2' // changed in place
	var b apiclient.Body
	c.Append(&b, []llm.Tool{{Name: "a", Description: "d", Schema: schema}}, encode)
	if got := string(b.Bytes()); got != "a=2" {
		t.Errorf("after a change in place: %q", got)
	}
}
