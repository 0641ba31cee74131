package interop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	sim "hermesd/internal/sim/llm"
)

func openaiSDK(s *sim.Server) sdk.Client {
	return sdk.NewClient(
		option.WithBaseURL(s.URL+"/v1/"), option.WithAPIKey("k"), option.WithHTTPClient(s.Client()), option.WithMaxRetries(0),
	)
}

// TestOpenAIReadsOurRequests decodes our bodies into the SDK's parameters and
// encodes them again: nothing may be lost or changed in meaning.
func TestOpenAIReadsOurRequests(t *testing.T) {
	p := openai.New(openai.Options{Key: "k"})
	for name, r := range requests(t) {
		body, err := p.Encode(nil, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var params sdk.ChatCompletionNewParams
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
	}
}

// TestOpenAIAgreesOnStreams gives one reply to the SDK and to our parser.
func TestOpenAIAgreesOnStreams(t *testing.T) {
	for name, rep := range replies() {
		t.Run(name, func(t *testing.T) {
			s := sim.New(sim.Options{Reply: func(sim.Request) sim.Reply { return rep }})
			defer s.Close()
			client := openaiSDK(s)
			params := sdk.ChatCompletionNewParams{
				Model: "m", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("x")},
				StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
			}
			stream := client.Chat.Completions.NewStreaming(t.Context(), params)
			var acc sdk.ChatCompletionAccumulator
			for stream.Next() {
				if !acc.AddChunk(stream.Current()) {
					t.Fatal("the SDK refuses a chunk")
				}
			}
			if stream.Err() != nil {
				t.Fatal(stream.Err())
			}
			got := llmtest.Collect(openai.New(openai.Options{BaseURL: s.URL + "/v1", Key: "k", HTTP: s.Client()}).Stream(t.Context(), ask("x")))
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			ours := ofOurs(*got.Done)
			ours.Thinking = "" // the SDK has no word for it
			if d := cmp.Diff(ofOpenAI(acc.ChatCompletion), ours); d != "" {
				t.Errorf("stream: %s", d)
			}
			params.StreamOptions = sdk.ChatCompletionStreamOptionsParam{}
			whole, err := client.Chat.Completions.New(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(ofOpenAI(*whole), ours); d != "" {
				t.Errorf("whole: %s", d)
			}
		})
	}
}

// TestOpenAIWorksWithOurSimulator runs a conversation with tools through the
// SDK: what it sends passes our checks, and our errors are errors to it.
func TestOpenAIWorksWithOurSimulator(t *testing.T) {
	s := sim.New(sim.Options{Models: []string{"m"}, Reply: func(r sim.Request) sim.Reply {
		if r.N < 3 {
			return sim.Reply{Calls: []sim.Call{{Name: "read", Args: `{"path": "a"}`}}}
		}
		return sim.Echo(r)
	}})
	defer s.Close()
	client := openaiSDK(s)
	params := sdk.ChatCompletionNewParams{
		Model:    "m",
		Messages: []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage("You test."), sdk.UserMessage("go #7")},
		Tools: []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(sdk.FunctionDefinitionParam{
			Name: "read", Parameters: sdk.FunctionParameters{"type": "object", "properties": map[string]any{}},
		})},
	}
	for range 3 {
		c, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		m := c.Choices[0].Message
		params.Messages = append(params.Messages, m.ToParam())
		for _, call := range m.ToolCalls {
			params.Messages = append(params.Messages, sdk.ToolMessage("content of a", call.ID))
		}
		if len(m.ToolCalls) == 0 && (!strings.Contains(m.Content, "results: content of a") || !strings.Contains(m.Content, "#7")) {
			t.Errorf("got %q", m.Content)
		}
	}
	params.Model = "unknown"
	var api *sdk.Error
	if _, err := client.Chat.Completions.New(t.Context(), params); !errors.As(err, &api) || api.StatusCode != 404 || api.Code != "model_not_found" {
		t.Errorf("got %v", err)
	}
	page, err := client.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "m" {
		t.Errorf("models: %v, %v", page, err)
	}
}
