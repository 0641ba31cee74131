package interop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/llmtest"
	sim "hermesd/internal/sim/llm"
)

func anthropicSDK(s *sim.Server) sdk.Client {
	return sdk.NewClient(
		option.WithoutEnvironmentDefaults(), option.WithBaseURL(s.URL), option.WithAPIKey("k"),
		option.WithHTTPClient(s.Client()), option.WithMaxRetries(0),
	)
}

func anthropicOurs(s *sim.Server) *anthropic.Provider {
	return anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "k", HTTP: s.Client()})
}

// TestAnthropicReadsOurRequests decodes our bodies into the SDK's parameters
// and encodes them again: nothing may be lost or changed in meaning.
func TestAnthropicReadsOurRequests(t *testing.T) {
	p := anthropic.New(anthropic.Options{Key: "k"})
	for name, r := range requests(t) {
		body, err := p.Encode(nil, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var params sdk.MessageNewParams
		if err := json.Unmarshal(body, &params); err != nil {
			t.Errorf("%s: %v\n%s", name, err, body)
			continue
		}
		again, err := json.Marshal(params)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(meaning(t, body, "stream"), meaning(t, again, "stream")); d != "" {
			t.Errorf("%s: the SDK understands\n%s", name, d)
		}
		if len(params.Messages) != len(r.Prefill)+r.Transcript.Len() || string(params.Model) != r.Model {
			t.Errorf("%s: the SDK sees %d messages of %s", name, len(params.Messages), params.Model)
		}
	}
}

// TestAnthropicAgreesOnStreams gives one reply to the SDK and to our parser.
func TestAnthropicAgreesOnStreams(t *testing.T) {
	for name, rep := range replies() {
		t.Run(name, func(t *testing.T) {
			s := sim.New(sim.Options{Reply: func(sim.Request) sim.Reply { return rep }})
			defer s.Close()
			client := anthropicSDK(s)
			stream := client.Messages.NewStreaming(t.Context(), sdk.MessageNewParams{
				Model: "m", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("x"))},
			})
			var theirs sdk.Message
			for stream.Next() {
				if err := theirs.Accumulate(stream.Current()); err != nil {
					t.Fatal(err)
				}
			}
			if stream.Err() != nil {
				t.Fatal(stream.Err())
			}
			got := llmtest.Collect(anthropicOurs(s).Stream(t.Context(), ask("x")))
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if d := cmp.Diff(ofAnthropic(theirs), ofOurs(*got.Done)); d != "" {
				t.Errorf("stream: %s", d)
			}
			whole, err := client.Messages.New(t.Context(), sdk.MessageNewParams{
				Model: "m", MaxTokens: 100, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("x"))},
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(ofAnthropic(*whole), ofOurs(*got.Done)); d != "" {
				t.Errorf("whole: %s", d)
			}
			assertReplays(t, theirs, *got.Done)
		})
	}
}

// assertReplays compares the bytes that we send back with what the SDK would.
func assertReplays(t *testing.T, theirs sdk.Message, ours llm.Done) {
	t.Helper()
	param, err := json.Marshal(theirs.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Content json.RawMessage }
	if err := json.Unmarshal(param, &m); err != nil {
		t.Fatal(err)
	}
	if len(ours.Message.Blocks) == 0 {
		return
	}
	if d := cmp.Diff(list(t, m.Content), list(t, ours.Message.Raw), idsAside); d != "" {
		t.Errorf("replayed: %s", d)
	}
}

// TestAnthropicWorksWithOurSimulator runs a conversation with tools through the
// SDK: what it sends passes our checks, and our errors are errors to it.
func TestAnthropicWorksWithOurSimulator(t *testing.T) {
	s := sim.New(sim.Options{Models: []string{"m"}, PrefixCheck: true, Reply: func(r sim.Request) sim.Reply {
		if len(r.Results()) < r.N && r.N < 3 {
			return sim.Reply{Thinking: "hm", Text: "I look", Calls: []sim.Call{{Name: "read", Args: `{"path": "a"}`}}}
		}
		return sim.Echo(r)
	}})
	defer s.Close()
	client := anthropicSDK(s)
	params := sdk.MessageNewParams{
		Model: "m", MaxTokens: 2000,
		System:   []sdk.TextBlockParam{{Text: "You test.", CacheControl: sdk.NewCacheControlEphemeralParam()}},
		Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("go #7"))},
		Tools: []sdk.ToolUnionParam{{OfTool: &sdk.ToolParam{Name: "read", InputSchema: sdk.ToolInputSchemaParam{
			Properties: map[string]any{"path": map[string]any{"type": "string"}},
		}}}},
	}
	for range 3 {
		m, err := client.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		params.Messages = append(params.Messages, m.ToParam())
		var results []sdk.ContentBlockParamUnion
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				results = append(results, sdk.NewToolResultBlock(b.ID, "content of a", false))
			}
		}
		if len(results) == 0 {
			if text := m.Content[len(m.Content)-1].Text; !strings.Contains(text, "results: content of a") || !strings.Contains(text, "#7") {
				t.Errorf("got %q", text)
			}
			break
		}
		params.Messages = append(params.Messages, sdk.NewUserMessage(results...))
	}
	if s.Count() != 3 {
		t.Errorf("%d requests", s.Count())
	}
	params.Model = "unknown"
	var api *sdk.Error
	if _, err := client.Messages.New(t.Context(), params); !errors.As(err, &api) || api.StatusCode != 404 {
		t.Errorf("got %v", err)
	}
}
