package anthropic

import (
	"strconv"
	"strings"
)

// Thinks reports whether model reasons when it is asked with effort. Newer
// models always do; their thinking blocks are void as soon as anything before
// them changes.
func Thinks(model, effort string) bool {
	switch effort {
	case "", "none":
		return formOf(model) == always
	}
	return true
}

// A form is how a model's thinking is asked for.
type form int

const (
	budget   form = iota // off unless a budget is given
	optional             // off unless "adaptive" is asked for
	usual                // on unless "disabled" is asked for
	always               // on
)

// formOf sorts a model by the version in its name; names without a version are
// those of newer models.
func formOf(model string) form {
	if strings.Contains(model, "fable") || strings.Contains(model, "mythos") {
		return always
	}
	major, minor := version(model)
	switch {
	case major == 0 || major > 5 || major == 5 && minor >= 5:
		return always
	case major == 5:
		return usual
	case major == 4 && minor >= 6:
		return optional
	}
	return budget
}

// version finds the two numbers of claude-opus-4-8, claude-sonnet-5,
// claude-3-7-sonnet-20250219 and anthropic/claude-opus-4.8.
func version(model string) (major, minor int) {
	_, model, _ = strings.Cut(model, "claude")
	found := 0
	for _, part := range strings.FieldsFunc(model, func(r rune) bool { return strings.ContainsRune("-./@:_", r) }) {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil && found == 0:
			continue
		case err != nil || n > 99:
			return major, minor
		case found == 0:
			major = n
		default:
			return major, n
		}
		found++
	}
	return major, minor
}

// thinking is what a request says about it.
type thinking struct {
	fields    string // members, each with the comma before it
	maxTokens int    // what the request's max_tokens must be
}

// budgets holds the tokens of thought for models that want a number.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}

func thinkingFor(model, effort string, maxTokens int) thinking {
	t := thinking{maxTokens: maxTokens}
	f := formOf(model)
	switch effort {
	case "", "none":
		if f == usual {
			t.fields = `,"thinking":{"type":"disabled"}`
		} else if f == always && effort == "none" {
			t.fields = `,"output_config":{"effort":"low"}`
		}
		return t
	}
	if budgets[effort] == 0 {
		effort = "medium"
	}
	if f == budget {
		n := budgets[effort]
		if maxTokens <= n {
			t.maxTokens = maxTokens + n
		}
		t.fields = `,"thinking":{"type":"enabled","budget_tokens":` + strconv.Itoa(n) + `}`
		return t
	}
	switch {
	case effort == "minimal":
		effort = "low"
	case effort == "xhigh" && f == optional && strings.Contains(strings.ReplaceAll(model, ".", "-"), "4-6"):
		effort = "high"
	}
	t.fields = `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"` + effort + `"}`
	return t
}
