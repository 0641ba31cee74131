package app_test

import (
	"slices"
	"strings"
	"time"

	"hermesd/internal/sim/llm"
)

const noRetries = "agent:\n  api_max_retries: 0"

// askWithFaults injects the faults, sends text, and waits for the expected answer.
func askWithFaults(text, sees string, fs ...llm.Fault) func(*harness) {
	return func(w *harness) {
		for _, f := range fs {
			w.model.Inject(f)
		}
		w.say(text)
		w.waitText(sees)
	}
}

func modelFaults() []fault {
	const (
		hello  = "hello"
		echoed = "echo: hello"
	)
	return []fault{
		{
			sentence: "a key that the model refuses is said, with who must act",
			config:   noRetries,
			play:     askWithFaults(hello, "refuses the key", llm.Fault{Kind: llm.Unauthorized}),
			shows:    []string{"⚠️ anthropic refuses the key. The operator must set a valid one (hermesd config check)."},
			ends:     []string{"failed"},
			logs:     []string{"turn failed"},
		},
		{
			sentence: "an account without credit is said, with who must act",
			config:   noRetries,
			play:     askWithFaults(hello, "used up", llm.Fault{Kind: llm.Unpaid}),
			shows:    []string{"⚠️ anthropic says that the account's credit or limit is used up. The operator must top it up."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a model that does not exist is said, with the key to set",
			play:     askWithFaults(hello, "does not know", llm.Fault{Kind: llm.Missing}),
			shows:    []string{"⚠️ anthropic does not know the configured model. The operator must set model.default."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a 429 with Retry-After is waited for to the letter, and then answered",
			play: func(w *harness) {
				askWithFaults(hello, echoed, llm.Fault{Kind: llm.TooMany, After: time.Second})(w)
				rs := w.model.Requests()
				if gap := rs[1].At.Sub(rs[0].At); gap < time.Second {
					w.Errorf("asked again after %v, not after 1s", gap)
				}
			},
			shows: []string{echoed},
			ends:  []string{"replied"},
			logs:  []string{"retry 1 after 1s"},
		},
		{
			sentence: "a 429 that goes on is said, with the time to wait",
			config:   noRetries,
			play:     askWithFaults(hello, "no more requests", llm.Fault{Kind: llm.TooMany, After: 20 * time.Second}),
			shows:    []string{"⚠️ anthropic takes no more requests for now (about 20s). Send the message again then."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a 529 is tried again, and the person sees nothing of it",
			play:     askWithFaults(hello, echoed, llm.Fault{Kind: llm.Overloaded}),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"retry 1"},
		},
		{
			sentence: "a 529 that goes on is said",
			config:   noRetries,
			play:     askWithFaults(hello, "overloaded", llm.Fault{Kind: llm.Overloaded}),
			shows:    []string{"⚠️ anthropic is overloaded. Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a 500 is tried again, and the person sees nothing of it",
			play:     askWithFaults(hello, echoed, llm.Fault{Kind: llm.ServerError}),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"retry 1"},
		},
		{
			sentence: "a 500 that goes on is said",
			config:   noRetries,
			play:     askWithFaults(hello, "returned an error", llm.Fault{Kind: llm.ServerError}),
			shows:    []string{"⚠️ anthropic returned an error (server error). Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a page of HTML in place of the model is said",
			config:   noRetries,
			play:     askWithFaults(hello, "returned an error", llm.Fault{Kind: llm.BadGateway}),
			shows:    []string{"⚠️ anthropic returned an error (server error). Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a model that does not answer at all is given up after the turn timeout, with a warning at half of it",
			config:   "gateway:\n  turn_timeout: 6s",
			play:     askWithFaults(hello, "gave up", llm.Fault{Kind: llm.NoAnswer}),
			shows: []string{
				"Nothing has happened for 3s. I give up after 6s.",
				"⚠️ Nothing happened for too long, so I gave up. Send the message again to try once more.",
			},
			ends: []string{"failed"},
			logs: []string{"no progress"},
		},
		{
			sentence: "a stream that stalls is given up after the turn timeout, and what was shown of it is taken back",
			config:   "gateway:\n  turn_timeout: 6s",
			play:     askWithFaults("long story", "gave up", llm.Fault{Kind: llm.Stall, At: 15}),
			shows: []string{
				"Nothing has happened for 3s. I give up after 6s.",
				"⚠️ Nothing happened for too long, so I gave up. Send the message again to try once more.",
			},
			ends: []string{"failed"},
		},
		{
			sentence: "a cut stream is asked for again, and nothing of the first half stays",
			play:     askWithFaults("long story", "word end", llm.Fault{Kind: llm.Cut, At: 2000}),
			shows:    []string{"done: " + strings.Repeat("word ", 50) + "end"},
			ends:     []string{"replied"},
			logs:     []string{"retry 1"},
		},
		{
			sentence: "a cut stream that cannot be asked for again is said",
			config:   noRetries,
			play:     askWithFaults("long story", "returned an error", llm.Fault{Kind: llm.Cut, At: 2000}),
			shows:    []string{"⚠️ anthropic returned an error (network). Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
		{
			sentence: "a stream that ends early is asked for again",
			play:     askWithFaults(hello, echoed, llm.Fault{Kind: llm.End, At: 4}),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"retry 1"},
		},
		{
			sentence: "an error inside a stream is asked for again",
			play:     askWithFaults(hello, echoed, llm.Fault{Kind: llm.Error, At: 4}),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"retry 1"},
		},
		{
			sentence: "invalid JSON in a stream is said",
			config:   noRetries,
			play:     askWithFaults(hello, "returned an error", llm.Fault{Kind: llm.BadJSON, At: 4}),
			shows:    []string{"⚠️ anthropic returned an error (invalid response). Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
		{
			sentence: "bytes that are nothing are said",
			config:   noRetries,
			play:     askWithFaults(hello, "returned an error", llm.Fault{Kind: llm.Garbage}),
			shows:    []string{"⚠️ anthropic returned an error (invalid response). Send the message again in a few minutes."},
			ends:     []string{"failed"},
		},
	}
}

func answerFaults() []fault {
	afterTool := func(r llm.Request) bool { return len(r.Results()) > 0 }
	beforeTool := func(r llm.Request) bool { return len(r.Results()) == 0 }
	return []fault{
		{
			sentence: "a tool that does not exist is told to the model, which goes on",
			play: func(w *harness) {
				askWithFaults("hello", "there is no tool called", llm.Fault{Kind: llm.BadToolName})(w)
				var offered []string
				for _, t := range w.model.Requests()[0].Tools {
					offered = append(offered, t.Name)
				}
				slices.Sort(offered)
				w.fault.shows = []string{`echo: results: Not run: there is no tool called "no_such_tool_". There are: ` + strings.Join(offered, ", ") + "."}
			},
			ends: []string{"replied"},
		},
		{
			sentence: "a model that calls a tool wrongly again and again is stopped, and that is said",
			play:     askWithFaults("hello", "Something went wrong", llm.Fault{Kind: llm.BadToolName, Times: 3}),
			shows:    []string{"⚠️ Something went wrong on my side. Send the message again; if it stays, the operator finds the reason in the log."},
			ends:     []string{"failed"},
			logs:     []string{"repeated invalid tool calls"},
		},
		{
			sentence: "tool arguments that are no JSON are told to the model, which goes on",
			play: func(w *harness) {
				askWithFaults("tool time", "done: tool time", llm.Fault{Kind: llm.BadToolArgs, Match: beforeTool})(w)
				rs := w.model.Requests()
				if got := rs[len(rs)-1].Results(); len(got) != 1 || !strings.Contains(got[0].Text, "must be one JSON object") {
					w.Errorf("the model is told %+v", got)
				}
			},
			shows: []string{"done: tool time"},
			ends:  []string{"replied"},
		},
		{
			sentence: "an empty answer is asked for again, and the person sees nothing of it",
			play:     askWithFaults("hello", "echo: hello", llm.Fault{Kind: llm.Empty}),
			shows:    []string{"echo: hello"},
			ends:     []string{"replied"},
			logs:     []string{"agent notice map[notice:empty"},
		},
		{
			sentence: "an answer that stays empty is said",
			play:     askWithFaults("hello", "empty answer", llm.Fault{Kind: llm.Empty, Times: 3}),
			shows:    []string{"⚠️ The model gave an empty answer three times. Ask again, perhaps in other words."},
			ends:     []string{"failed"},
		},
		{
			sentence: "an empty end of turn after tool results is asked for again",
			play:     askWithFaults("tool time", "done: tool time", llm.Fault{Kind: llm.Empty, Match: afterTool}),
			shows:    []string{"done: tool time"},
			ends:     []string{"replied"},
			logs:     []string{"agent notice map[notice:empty"},
		},
		{
			sentence: "a refusal is said, and nothing of it stays in the conversation",
			play: func(w *harness) {
				askWithFaults("hello", "declined", llm.Fault{Kind: llm.Refusal})(w)
				w.askEcho("again")
				if n := len(w.model.Requests()); n != 2 {
					w.Errorf("%d requests", n)
				}
			},
			shows: []string{"⚠️ The model declined to answer this. Ask in other words, or start over with /new.", "echo: again"},
			ends:  []string{"failed", "replied"},
		},
		{
			sentence: "a conversation that is too long is said, and the message that broke it is not kept",
			play:     askWithFaults("hello", "too long", llm.Fault{Kind: llm.Overflow}),
			shows:    []string{"⚠️ This conversation has become too long for the model. /new starts a fresh one; the old one is kept."},
			ends:     []string{"failed"},
		},
		{
			sentence: "another model takes over a whole turn, which is announced once, and the next turn asks the first again",
			config:   "fallback_providers:\n  - {provider: custom, model: spare, base_url: $SPARE/v1, api_key: sk-spare-0000000000}",
			play: func(w *harness) {
				askWithFaults("tool time", "done: tool time", llm.Fault{Kind: llm.Unauthorized})(w)
				if a, b := w.model.Count(), w.secondModel.Count(); a != 1 || b != 2 {
					w.Errorf("the first model was asked %d times and the second %d times", a, b)
				}
			},
			shows: []string{"custom/spare answers this time: anthropic refuses the key.", "done: tool time"},
			loose: true, // a preview turns into the answer in its position
			ends:  []string{"replied"},
			logs:  []string{"fallback to custom/spare"},
		},
		{
			sentence: "when no model answers the person hears of the first one",
			config:   "fallback_providers:\n  - {provider: custom, model: spare, base_url: $SPARE/v1, api_key: sk-spare-0000000000}\n" + noRetries,
			play: func(w *harness) {
				w.secondModel.Inject(llm.Fault{Kind: llm.ServerError})
				askWithFaults("hello", "⚠️", llm.Fault{Kind: llm.Unauthorized})(w)
			},
			shows: []string{"⚠️ anthropic refuses the key. The operator must set a valid one (hermesd config check)."},
			ends:  []string{"failed"},
		},
	}
}
