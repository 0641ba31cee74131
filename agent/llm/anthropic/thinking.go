package anthropic

import (
	"math"
	"strconv"
	"strings"
)

// A form is the way in which thinking is requested from a model.
type form int

const (
	budget    form = iota // off unless a budget is given
	optional              // off unless "adaptive" is requested
	defaultOn             // on unless "disabled" is requested
	alwaysOn              // cannot be switched off
)

// formOf returns the form of a model by the version in its name. A name without a version
// is that of a newer model.
func formOf(model string) form {
	if strings.Contains(model, "fable") || strings.Contains(model, "mythos") {
		return alwaysOn
	}
	major, minor := version(model)
	switch {
	case major == 0 || major > 5 || major == 5 && minor >= 5:
		return alwaysOn
	case major == 5:
		return defaultOn
	case major == 4 && minor >= 6:
		return optional
	}
	return budget
}

// version parses the two version numbers of names such as claude-opus-4-8, claude-sonnet-5,
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

// thinking holds the thinking-related parts of a request.
type thinking struct {
	fields    string // JSON members, each with a leading comma
	maxTokens int    // max_tokens of the request
}

// budgets maps efforts to thinking tokens, for models that need a budget.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}

// minBudget is the smallest budget that the API accepts.
const minBudget = 1024

// thinkingFor returns the parts for a request of an answer of at most maxTokens. limit is
// llm.Request.OutputLimit.
func thinkingFor(model, effort string, maxTokens, limit int) thinking {
	if limit == 0 {
		limit = math.MaxInt
	}
	t := thinking{maxTokens: min(maxTokens, limit)}
	f := formOf(model)
	switch effort {
	case "", "none":
		if f == defaultOn {
			t.fields = `,"thinking":{"type":"disabled"}`
		} else if f == alwaysOn && effort == "none" {
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
			t.maxTokens = min(maxTokens+n, limit)
		}
		n = min(n, t.maxTokens-min(maxTokens, t.maxTokens/4))
		if n < minBudget {
			return t // the model writes too little to think first
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
