package interop_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"hermesd/gateway/chat"
)

const apiKey = "hk-0123456789abcdefghij"

// An api is our HTTP API in a process of its own, with somebody who answers in
// place of the gateway: see adapters/httpapi/child_test.go. The official client
// keeps its own ideas of retries.
type api struct {
	t      *testing.T
	client sdk.Client
}

// TestOpenAIsClientTalksToOurAPI has the official client, unchanged, talk to a
// real process over a real socket.
func TestOpenAIsClientTalksToOurAPI(t *testing.T) {
	program := filepath.Join(t.TempDir(), "httpapi.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "./adapters/httpapi")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T, *api){
		"answers": answersAreRead, "streams": streamsAreRead, "errors": errorsAreUnderstood, "keys and models": takenOnceWithAKey,
	} {
		t.Run(name, func(t *testing.T) { test(t, serve(t, program)) })
	}
}

// serve has the API served until the test ends.
func serve(t *testing.T, program string) *api {
	t.Helper()
	child := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	child.Env = append(os.Environ(), "HTTPAPI_TEST_CHILD="+apiKey)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		web.CloseIdleConnections()
		_ = in.Close()
		if err := child.Wait(); err != nil {
			t.Errorf("the API ended with %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + strings.TrimSpace(address) + "/v1/"
	return &api{t: t, client: sdk.NewClient(option.WithBaseURL(base), option.WithAPIKey(apiKey), option.WithHTTPClient(web))}
}

// taken is how many messages were accepted.
func (p *api) taken() string {
	p.t.Helper()
	return p.say("count")
}

// inbound is what was taken as the nth message.
func (p *api) inbound(n int) (in chat.Inbound) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.say(fmt.Sprintf("inbound %d", n))), &in); err != nil {
		p.t.Fatal(err)
	}
	return in
}

func (p *api) say(text string) string {
	p.t.Helper()
	c, err := p.client.Chat.Completions.New(p.t.Context(), params(text))
	if err != nil {
		p.t.Fatal(err)
	}
	return c.Choices[0].Message.Content
}

func params(text string) sdk.ChatCompletionNewParams {
	return sdk.ChatCompletionNewParams{Model: "hermes", Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(text)}}
}

// answersAreRead: text, usage and the agent's headers arrive, and a conversation
// goes on.
func answersAreRead(t *testing.T, p *api) {
	c, err := p.client.Chat.Completions.New(t.Context(), params("Grüße, \"世界\" <b>"))
	if err != nil {
		t.Fatal(err)
	}
	m := c.Choices[0]
	if m.Message.Content != "Grüße, \"世界\" <b>" || m.FinishReason != "stop" || string(m.Message.Role) != "assistant" || c.Model != "hermes" || c.Object != "chat.completion" || !strings.HasPrefix(c.ID, "chatcmpl-") || c.Created == 0 {
		t.Errorf("got %s", c.RawJSON())
	}
	if c.Usage.TotalTokens != 105 || c.Usage.PromptTokensDetails.CachedTokens != 80 {
		t.Errorf("usage %s", c.Usage.RawJSON())
	}
	// A conversation goes on as clients do it: with all that was said before.
	ps := params("one")
	ps.Messages = append(ps.Messages, m.Message.ToParam(), sdk.SystemMessage("Be brief."), sdk.UserMessage([]sdk.ChatCompletionContentPartUnionParam{
		sdk.TextContentPart("two"),
		sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("PNG"))}),
	}))
	ps.User, ps.Temperature = sdk.String("ann"), sdk.Float(0.1)
	var resp *http.Response
	if c, err = p.client.Chat.Completions.New(t.Context(), ps, option.WithResponseInto(&resp)); err != nil || c.Choices[0].Message.Content != "two" {
		t.Fatalf("%v %v", c, err)
	}
	if resp.Header.Get("X-Hermes-Ignored") != "temperature" || resp.Header.Get("X-Hermes-Session") != "ann" {
		t.Errorf("headers %v", resp.Header)
	}
	if in := p.inbound(1); in.Prompt != "Be brief." || len(in.Files) != 1 || in.Files[0].Path != "/PNG" {
		t.Errorf("taken as %+v", in)
	}
}

// streamsAreRead: chunks accumulate to the answer, and a
// failure in the middle is an error of the stream.
func streamsAreRead(t *testing.T, p *api) {
	ps := params("many words, 世界 and 😀")
	ps.StreamOptions = sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}
	stream := p.client.Chat.Completions.NewStreaming(t.Context(), ps)
	var acc sdk.ChatCompletionAccumulator
	deltas := 0
	for stream.Next() {
		c := stream.Current()
		if !acc.AddChunk(c) {
			t.Fatalf("the SDK refuses %s", c.RawJSON())
		}
		if len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
			deltas++
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	if got := acc.Choices[0]; got.Message.Content != "many words, 世界 and 😀" || got.FinishReason != "stop" || acc.Usage.TotalTokens != 105 || deltas < 3 {
		t.Errorf("%d deltas: %+v, usage %+v", deltas, got, acc.Usage)
	}
	stream = p.client.Chat.Completions.NewStreaming(t.Context(), params("begin and fail"))
	text := ""
	for stream.Next() {
		text += stream.Current().Choices[0].Delta.Content
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "overloaded") || text != "I be" {
		t.Errorf("after %q: %v", text, err)
	}
}

// errorsAreUnderstood: status, code and param arrive, and a
// failed turn is not tried again by itself.
func errorsAreUnderstood(t *testing.T, p *api) {
	two := params("x")
	two.N = sdk.Int(2)
	tools := params("x")
	tools.Tools = []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(sdk.FunctionDefinitionParam{Name: "f"})}
	other := params("x")
	other.Model = "gpt-5"
	for name, c := range map[string]struct {
		params sdk.ChatCompletionNewParams
		option option.RequestOption
		status int
		code   string
		param  string
	}{
		"n":         {two, nil, 400, "unsupported_parameter", "n"},
		"tools":     {tools, nil, 400, "unsupported_parameter", "tools"},
		"model":     {other, nil, 404, "model_not_found", "model"},
		"wrong key": {params("x"), option.WithAPIKey("nonsense"), 401, "invalid_api_key", ""},
		"failed":    {params("fail"), nil, 502, "turn_failed", ""},
	} {
		var options []option.RequestOption
		if c.option != nil {
			options = append(options, c.option)
		}
		_, err := p.client.Chat.Completions.New(t.Context(), c.params, options...)
		var api *sdk.Error
		if !errors.As(err, &api) || api.StatusCode != c.status || api.Code != c.code || api.Param != c.param || api.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := p.taken(); n != "1" {
		t.Errorf("%s messages were taken, want the one that failed, once", n)
	}
}

// takenOnceWithAKey: the same key is the same message.
func takenOnceWithAKey(t *testing.T, p *api) {
	key := option.WithHeader("Idempotency-Key", "order 1")
	var ids []string
	for range 3 {
		c, err := p.client.Chat.Completions.New(t.Context(), params("hello"), key)
		if err != nil || c.Choices[0].Message.Content != "hello" {
			t.Fatalf("%v %v", c, err)
		}
		ids = append(ids, c.ID)
	}
	if n := p.taken(); n != "1" || ids[0] != ids[2] {
		t.Errorf("%s were taken, ids %v", n, ids)
	}
	page, err := p.client.Models.List(t.Context())
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != "hermes" || page.Data[1].ID != "claude-test" {
		t.Errorf("models: %v, %v", page, err)
	}
	if m, err := p.client.Models.Get(t.Context(), "hermes"); err != nil || m.OwnedBy != "hermesd" {
		t.Errorf("model: %v, %v", m, err)
	}
}
