package tool_test

import (
	"strings"
	"testing"

	"hermesd/agent/tool"
)

func TestInputSummary(t *testing.T) {
	for input, want := range map[string]string{
		`{"query":"trains"}`:                         "`trains`",
		`{"n":1,"command":"ls\n  -l ` + "`x`" + `"}`: "`ls -l 'x'`",
		`{"path":"","url":"https://a"}`:              "`https://a`",
		`{"path":"` + strings.Repeat("ä", 61) + `"}`: "`" + strings.Repeat("ä", 60) + "…`",
		`{"n":1}`: "", `[`: "", ``: "",
	} {
		if got := tool.InputSummary([]byte(input)); got != want {
			t.Errorf("%s is %s, want %s", input, got, want)
		}
	}
}
