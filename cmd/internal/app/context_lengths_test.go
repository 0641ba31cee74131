package app_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/internal/sim/llm"
)

// ownServer configures a model that is in no table, on a custom server.
func ownServer(model string) *strings.Replacer {
	return strings.NewReplacer("provider: anthropic", "provider: custom", "claude-sonnet-4-5", model, "\n  api_key", "/v1\n  api_key")
}

// pollLog polls the log until a line contains the words.
func (w *harness) pollLog(words string) {
	w.Helper()
	for w.countLogs(words) == 0 {
		if w.ctx.Err() != nil {
			w.fatal("nobody says " + words)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestContextLengthReportedByServerIsStored(t *testing.T) {
	w := newFormatHarness(t, "fallback_providers:\n- {provider: custom, model: spare-1, base_url: 'http://127.0.0.1:1/v1', api_key: sk-simulated-1111111111}\n",
		ownServer("own-model-1"), llm.Options{Models: []string{"own-model-1"}, Windows: map[string]int{"own-model-1": 262_144}})
	w.start()
	w.pollLog("provider reported a context length")
	w.pollLog("context length of the model is unknown") // of the fallback, which is unreachable
	w.askConsole("hello", "hello")
	w.askConsole("/context", "a window of 262144 tokens")
	w.stop()
	w.model.Close()
	w.start()
	w.askConsole("/context", "a window of 262144 tokens")
	w.stop()
}

func TestTinyContextLengthIsReported(t *testing.T) {
	w := newFormatHarness(t, "", ownServer("tiny"), llm.Options{Models: []string{"tiny"}, Windows: map[string]int{"tiny": 4096}})
	w.start()
	w.pollLog("context of the model is too short for conversations")
	w.stop()
	w.start()
	if w.countLogs("tiny takes 4096 tokens (learned from the provider); an agent needs 8000") == 0 {
		t.Error("the start does not say so")
	}
	w.stop()
}

func TestContextLengthOfConfigTakesPrecedence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more, edit string
		want       string
	}{
		"custom provider": {"custom_providers:\n- {name: shelf, base_url: 'URL/v1/', models: {own-model-1: {context_length: 40000}}}\n", "", "a window of 40000 tokens"},
		"the model":       {"custom_providers:\n- {name: shelf, base_url: 'URL/v1/', models: {own-model-1: {context_length: 40000}}}\n", "\n  context_length: 50000", "a window of 50000 tokens"},
		"another server":  {"custom_providers:\n- {name: shelf, base_url: 'http://127.0.0.1:1/v1', models: {own-model-1: {context_length: 40000}}}\n", "", "a window of 262144 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFormatHarness(t, "", strings.NewReplacer(), llm.Options{Windows: map[string]int{"own-model-1": 262_144}, Models: []string{"own-model-1"}})
			w.writeConfig(strings.ReplaceAll(c.more, "URL", w.model.URL), "")
			w.writeFile("config.yaml", strings.NewReplacer("\n  api_key", c.edit+"\n  api_key").Replace(ownServer("own-model-1").Replace(w.readFile("config.yaml"))))
			w.start()
			if c.want == "a window of 262144 tokens" {
				w.pollLog("provider reported a context length")
			}
			w.askConsole("hello", "hello")
			w.askConsole("/context", c.want)
			w.stop()
		})
	}
}

// TestOutputLimitIsLearnedOnce thinks with models that write at most 32,000 tokens. One call is
// refused, ever.
func TestOutputLimitIsLearnedOnce(t *testing.T) {
	t.Parallel()
	for _, effort := range []string{"high", "xhigh"} {
		t.Run(effort, func(t *testing.T) {
			w := newFormatHarness(t, "agent: {reasoning_effort: "+effort+"}\n", strings.NewReplacer("claude-sonnet-4-5", "claude-opus-4-1"), llm.Options{})
			w.start()
			w.askConsole("hello", "hello")
			w.askConsole("again", "again")
			w.stop()
			w.start()
			w.askConsole("third", "third")
			w.stop()
			var asked []int
			for _, r := range w.model.Requests() {
				if r.MaxTokens < 1000 {
					continue // a title
				}
				asked = append(asked, r.MaxTokens)
				if r.MaxTokens <= 32_000 && !r.Thinking { // what is refused is not read to its end
					t.Errorf("a request of %d tokens without thinking", r.MaxTokens)
				}
			}
			first := map[string]int{"high": 32_768, "xhigh": 49_152}[effort] // refused
			if !slices.Equal(asked, []int{first, 32_000, 32_000, 32_000}) {
				t.Errorf("asked for %v tokens", asked)
			}
		})
	}
}

// TestContextLengthOfOllamaIsThatOfTheServer: the model could take 131,072 tokens.
func TestContextLengthOfOllamaIsThatOfTheServer(t *testing.T) {
	ollama := strings.NewReplacer("provider: anthropic", "provider: ollama", "claude-sonnet-4-5", "llama3.2", "\n  api_key", "/v1\n  api_key")
	w := newFormatHarness(t, "", ollama, llm.Options{Models: []string{"llama3.2"}, Windows: map[string]int{"llama3.2": 131_072}, OllamaContext: 40_000})
	w.start()
	w.pollLog("provider reported a context length")
	w.askConsole("hello", "hello")
	w.askConsole("/context", "a window of 40000 tokens")
	w.stop()

	w.writeFile("config.yaml", strings.Replace(w.readFile("config.yaml"), "\n  api_key", "\n  context_length: 50000\n  api_key", 1))
	w.start()
	w.pollLog("shorter context than the configuration says")
	w.askConsole("hello", "hello")
	w.askConsole("/context", "a window of 50000 tokens")
	w.stop()
}
