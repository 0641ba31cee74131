package llm_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"hermesd/agent/llm"
)

var at = time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)

// TestClassify uses bodies as sent by the services.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		large  bool
		want   llm.Class
		limit  int
		out    int
	}{
		{name: "anthropic key", status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, want: llm.Auth},
		{name: "anthropic permission", status: 403, body: `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`, want: llm.Auth},
		{name: "anthropic credit", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, want: llm.Billing},
		{name: "anthropic rate", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute."}}`, want: llm.RateLimit},
		{name: "anthropic long context tier", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}`, want: llm.ContextOverflow, limit: 200_000},
		{name: "anthropic overloaded", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: llm.Overloaded},
		{name: "anthropic overflow", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215431 tokens > 200000 maximum"}}`, want: llm.ContextOverflow, limit: 200_000},
		{name: "anthropic sum, the answer is too much", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 100000 + 128000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, want: llm.Format, out: 100_000},
		{name: "anthropic sum, the prompt is too much", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 188240 + 21333 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, want: llm.ContextOverflow, limit: 200_000},
		{name: "anthropic output cap", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"}}`, want: llm.Format, out: 64_000},
		{name: "anthropic too large", status: 413, body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, want: llm.TooLarge},
		{name: "anthropic image", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5327908 bytes > 5242880 bytes"}}`, want: llm.ImageTooLarge},
		{name: "anthropic image dimensions", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.2.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"}}`, want: llm.ImageTooLarge},
		{name: "anthropic model", status: 404, body: `{"type":"error","error":{"type":"not_found_error","message":"model: claude-nope"}}`, want: llm.NotFound},
		{name: "anthropic thinking edited", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.12: ` + "`thinking` or `redacted_thinking`" + ` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."}}`, want: llm.PrefixCheck},
		{name: "anthropic prefix check", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid ` + "`signature` in `thinking`" + ` block. The block is bound to a different conversation. Remove the block, or set ` + "`thinking.block_binding.prefix_mismatch_behavior`" + ` to \"drop_block\"."}}`, want: llm.PrefixCheck},
		{name: "anthropic thinking form", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"\"thinking.type.disabled\" is not supported for this model."}}`, want: llm.Format},
		{name: "anthropic unknown field", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"context_window: Extra inputs are not permitted"}}`, want: llm.Format},
		{name: "anthropic pairing", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.2: ` + "`tool_use`" + ` ids were found without ` + "`tool_result`" + ` blocks immediately after: toolu_1."}}`, want: llm.Format},
		{name: "anthropic filter", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, want: llm.ContentPolicy},
		{name: "anthropic mid-stream", status: 200, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: llm.Overloaded},
		{name: "anthropic mid-stream failure", status: 200, body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, want: llm.Server},
		{name: "openai key", status: 401, body: `{"error":{"message":"Incorrect API key provided: sk-proj-********************abcd. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, want: llm.Auth},
		{name: "openai quota", status: 429, body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, want: llm.Billing},
		{name: "openai rate", status: 429, body: `{"error":{"message":"Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, want: llm.RateLimit},
		{name: "openai overflow", status: 400, body: `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, want: llm.ContextOverflow, limit: 128_000},
		{name: "openai parameter", status: 400, body: `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, want: llm.Format},
		{name: "openai output cap", status: 400, body: `{"error":{"message":"max_tokens is too large: 200000. This model supports at most 128000 completion tokens, whereas you provided 200000.","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}`, want: llm.Format, out: 128_000},
		{name: "openai model", status: 404, body: `{"error":{"message":"The model ` + "`gpt-9`" + ` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, want: llm.NotFound},
		{name: "openai policy", status: 400, body: `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, want: llm.ContentPolicy},
		{name: "azure policy", status: 400, body: `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter"}}`, want: llm.ContentPolicy},
		{name: "openai tools", status: 400, body: `{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.","type":"invalid_request_error","param":"messages","code":null}}`, want: llm.Format},
		{name: "openai reasoning item", status: 400, body: `{"error":{"message":"The encrypted content gAAA could not be verified.","type":"invalid_request_error","code":"invalid_encrypted_content"}}`, want: llm.PrefixCheck},
		{name: "openai down", status: 500, body: `{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, want: llm.Server},
		{name: "openrouter credits", status: 402, body: `{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 4000.","code":402}}`, want: llm.Billing},
		{name: "402 that ends by itself", status: 402, body: `{"error":{"message":"Usage limit reached. It resets at 15:00, please try again then.","code":402}}`, want: llm.RateLimit},
		{name: "openrouter key limit", status: 403, body: `{"error":{"message":"Key limit exceeded (total limit). Manage it using your settings.","code":403}}`, want: llm.Billing},
		{name: "openrouter moderation", status: 403, body: `{"error":{"message":"Your input was flagged by moderation","code":403,"metadata":{"reasons":["violence"],"flagged_input":"secret words","provider_name":"x"}}}`, want: llm.ContentPolicy},
		{name: "openrouter upstream rate", status: 429, body: `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"qwen/qwen3 is temporarily rate-limited upstream. Please retry shortly.","provider_name":"Chutes"}}}`, want: llm.RateLimit},
		{name: "openrouter wrapped", status: 400, body: `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 1284668 tokens > 1000000 maximum\"}}","provider_name":"Anthropic"}}}`, want: llm.ContextOverflow, limit: 1_000_000},
		{name: "openrouter output", status: 400, body: `{"error":{"message":"This endpoint's maximum context length is 204800 tokens. However, you requested about 205432 tokens (81684 of text input, 3748 of tool input, 120000 in the output). Please reduce the length of either one, or use the \"middle-out\" transform.","code":400}}`, want: llm.Format, out: 204_800 - 81_684 - 3_748},
		{name: "openrouter overflow", status: 400, body: `{"error":{"message":"This endpoint's maximum context length is 65536 tokens. However, you requested about 92208 tokens (70875 of text input, 21333 in the output). Please reduce the length of either one.","code":400}}`, want: llm.ContextOverflow, limit: 65_536},
		{name: "openrouter mid-stream", status: 200, body: `{"error":{"code":502,"message":"Provider disconnected"}}`, want: llm.Server},
		{name: "openrouter mid-stream overload", status: 200, body: `{"error":{"code":"server_error","message":"Worker local total request limit reached (33/32)","metadata":{"error_type":"provider_unavailable"}}}`, want: llm.Server},
		{name: "openrouter no endpoint", status: 404, body: `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, want: llm.NotFound},
		{name: "openrouter bad model", status: 400, body: `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`, want: llm.NotFound},
		{name: "vllm overflow", status: 400, body: `{"object":"error","message":"This model's maximum context length is 32768 tokens. However, you requested 40000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}`, want: llm.ContextOverflow, limit: 32_768},
		{name: "vllm model length", status: 400, body: `{"error":{"message":"The decoder prompt (length 40960) is longer than the maximum model length of 32768.","type":"BadRequestError","code":400}}`, want: llm.ContextOverflow, limit: 32_768},
		{name: "llama.cpp overflow", status: 500, body: `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}`, want: llm.ContextOverflow},
		{name: "ollama model", status: 404, body: `{"error":"model \"llama9\" not found, try pulling it first"}`, want: llm.NotFound},
		{name: "deepseek balance", status: 402, body: `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, want: llm.Billing},
		{name: "chinese overflow", status: 400, body: `{"error":{"message":"输入过长，超过最大长度","code":"1261"}}`, want: llm.ContextOverflow},
		{name: "gemini list", status: 429, body: `[{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}]`, want: llm.RateLimit},
		{name: "429 for load", status: 429, body: `{"error":{"message":"The service is currently overloaded.","code":429}}`, want: llm.Overloaded},
		{name: "fastapi", status: 422, body: `{"detail":[{"type":"list_type","loc":["body","messages"],"msg":"Input should be a valid list","input":"hush hush"}]}`, want: llm.Format},
		{name: "html", status: 502, body: "<html>\r\n<head><title>502 Bad Gateway</title></head><body>nginx secret</body></html>", want: llm.Server},
		{name: "html 503", status: 503, body: `<html><title>Service Unavailable</title></html>`, want: llm.Overloaded},
		{name: "gateway", status: 504, body: ``, want: llm.Server},
		{name: "silent refusal of much", status: 400, body: `Bad Request`, large: true, want: llm.ContextOverflow},
		{name: "silent refusal of little", status: 400, body: `Bad Request`, want: llm.Format},
		{name: "bare words mid-stream", status: 200, body: `{"error":"something odd"}`, want: llm.Unknown},
		{name: "overflow mid-stream", status: 200, body: `{"error":{"message":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}}`, want: llm.ContextOverflow, limit: 4096},
		{name: "redirect", status: 302, body: ``, want: llm.Format},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := llm.Classify(llm.ErrorResponse{Provider: "p", Status: c.status, Body: []byte(c.body), Large: c.large, At: at})
			if own := e.OutputLimit; own != 0 && own != c.out || (own == 0) != (c.out == 0 || c.name == "openrouter output" || strings.Contains(c.body, "available_tokens") || strings.Contains(c.body, "exceed context limit")) {
				t.Errorf("the model's own limit is %d", own)
			}
			if e.Class != c.want || e.Limit != c.limit || e.MaxTokens != c.out {
				t.Errorf("got %s, limit %d, output %d; want %s, %d, %d (%s)", e.Class, e.Limit, e.MaxTokens, c.want, c.limit, c.out, e.Message)
			}
			for _, s := range []string{"sk-proj", "secret", "hush", "nginx"} {
				if strings.Contains(strings.ReplaceAll(e.Error(), "<secret>", ""), s) {
					t.Errorf("%q leaks %q", e.Error(), s)
				}
			}
		})
	}
}

func TestClassifyReadsHints(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   time.Duration
	}{
		{"seconds", 429, map[string]string{"Retry-After": "17"}, ``, 17 * time.Second},
		{"a part of a second", 529, map[string]string{"Retry-After": "1.5"}, ``, 1500 * time.Millisecond},
		{"milliseconds win", 429, map[string]string{"Retry-After": "17", "Retry-After-Ms": "250"}, ``, 250 * time.Millisecond},
		{"a date", 503, map[string]string{"Retry-After": at.Add(90 * time.Second).Format(http.TimeFormat)}, ``, 90 * time.Second},
		{"a date gone by", 429, map[string]string{"Retry-After": at.Add(-time.Hour).Format(http.TimeFormat)}, ``, 0},
		{"reset in milliseconds since 1970", 429, map[string]string{"X-RateLimit-Reset": "1793880045000"}, ``, 45 * time.Second},
		{"reset in seconds since 1970", 429, map[string]string{"X-RateLimit-Reset": "1793880030"}, ``, 30 * time.Second},
		{"reset as a number of seconds", 429, map[string]string{"X-RateLimit-Reset": "12"}, ``, 12 * time.Second},
		{"openai's spent one", 429, map[string]string{"X-RateLimit-Reset-Requests": "1s", "X-RateLimit-Remaining-Requests": "5", "X-RateLimit-Reset-Tokens": "6m0s", "X-RateLimit-Remaining-Tokens": "0"}, ``, 6 * time.Minute},
		{"a reset says nothing of a failure", 500, map[string]string{"X-RateLimit-Reset": "12"}, ``, 0},
		{"in words", 429, nil, `{"error":{"message":"Rate limit reached. Please try again in 1m20.5s.","code":"rate_limit_exceeded"}}`, 80*time.Second + 500*time.Millisecond},
		{"in words, milliseconds", 429, nil, `{"error":{"message":"Please try again in 120ms. Visit us."}}`, 120 * time.Millisecond},
		{"a router's headers", 429, nil, `{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"16","X-RateLimit-Reset":"1793880060000"}}}}`, time.Minute},
		{"nonsense", 429, map[string]string{"Retry-After": "soon", "X-RateLimit-Reset": "-3"}, ``, 0},
		{"too large to be meant", 429, map[string]string{"Retry-After": "1e300"}, ``, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range c.header {
				h.Set(k, v)
			}
			e := llm.Classify(llm.ErrorResponse{Provider: "p", Status: c.status, Header: h, Body: []byte(c.body), At: at})
			if e.After != c.want {
				t.Errorf("got %v, want %v", e.After, c.want)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(400, `{"error":{"message":"maximum context length is 4096","code":400}}`)
	f.Add(200, `[{"error":["a",{"error":"b"}]}]`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		e := llm.Classify(llm.ErrorResponse{Provider: "p", Status: status, Header: http.Header{"Retry-After": {body}}, Body: []byte(body), At: at})
		if e.Class == "" || e.After < 0 || len([]rune(e.Message)) > 320 {
			t.Errorf("%+v", e)
		}
		if _, err := json.Marshal(e.Message); err != nil {
			t.Error(err)
		}
	})
}
