package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// chatAPI implements the Chat Completions API.
type chatAPI struct {
	s      *Server
	router bool // as OpenRouter, with reasoning_details
}

func (chatAPI) name() string { return "chat" }

func chatError(kind, code, param, text string) any {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return ordered{{"error", ordered{{"message", text}, {"type", kind}, {"param", null(param)}, {"code", null(code)}}}}
}

func (chatAPI) failure(status int, text string) any {
	switch status {
	case 401:
		return chatError("invalid_request_error", "invalid_api_key", "", "Incorrect API key provided: sk-bad*****key. You can find your API key at https://platform.openai.com/account/api-keys.")
	case 404:
		return chatError("invalid_request_error", "model_not_found", "", "The model `sim` does not exist or you do not have access to it.")
	case 429:
		return chatError("tokens", "rate_limit_exceeded", "", "Rate limit reached for sim on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.")
	case 400:
		return chatError("invalid_request_error", "", "messages", text)
	}
	return ordered{{"error", ordered{{"message", text}, {"code", status}}}}
}

func (chatAPI) event(status int, text string) (string, any) {
	return "", ordered{
		{"id", "gen-sim"}, {"object", "chat.completion.chunk"}, {"error", ordered{{"code", status}, {"message", text}}},
		{"choices", []any{ordered{{"index", 0}, {"delta", ordered{{"content", ""}}}, {"finish_reason", "error"}}}},
	}
}

type chatBody struct {
	Model      string        `json:"model"`
	Messages   []chatMessage `json:"messages"`
	MaxTokens  *int          `json:"max_tokens"`
	MaxAnswer  *int          `json:"max_completion_tokens"`
	Stream     bool          `json:"stream"`
	StreamOpts *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice      json.RawMessage `json:"tool_choice"`
	ReasoningEffort string          `json:"reasoning_effort"`
	Reasoning       json.RawMessage `json:"reasoning"`
	Provider        json.RawMessage `json:"provider"` // of OpenRouter
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

func wrong(code, param, format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, chatError("invalid_request_error", code, param, fmt.Sprintf(format, args...))}
}

func (a chatAPI) key(h http.Header) *refusal {
	key, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	switch {
	case !ok || key == "":
		return &refusal{http.StatusUnauthorized, chatError("invalid_request_error", "", "",
			"You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).")}
	case !a.s.keyOK(key):
		return &refusal{http.StatusUnauthorized, a.failure(401, "")}
	}
	return nil
}

func (a chatAPI) check(h http.Header, body []byte) (Request, *refusal) {
	if no := a.key(h); no != nil {
		return Request{}, no
	}
	var b chatBody
	if err := json.Unmarshal(body, &b); err != nil {
		return Request{}, wrong("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly.)")
	}
	r := Request{Dialect: a.name(), Model: b.Model, Stream: b.Stream, ToolsOff: string(b.ToolChoice) == `"none"`}
	r.thinkingAs = b.ReasoningEffort + string(b.Reasoning)
	r.Thinking = r.thinkingAs != ""
	r.includeUsage = b.StreamOpts != nil && b.StreamOpts.IncludeUsage
	for _, n := range []*int{b.MaxTokens, b.MaxAnswer} {
		if n != nil {
			r.MaxTokens = *n
		}
	}
	switch {
	case b.Model == "":
		return r, wrong("", "", "you must provide a model parameter")
	case !a.s.modelOK(b.Model):
		return r, &refusal{http.StatusNotFound, chatError("invalid_request_error", "model_not_found", "",
			fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", b.Model))}
	case b.StreamOpts != nil && !b.Stream:
		return r, wrong("", "stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case len(b.Provider) > 0 && !a.router:
		return r, wrong("unknown_parameter", "provider", "Unknown parameter: 'provider'.")
	case len(b.Provider) > 0 && !isRouting(b.Provider):
		return r, wrong("", "provider", "provider: Invalid input")
	case len(b.Messages) == 0:
		return r, wrong("empty_array", "messages", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	if no := chatTools(&r, b); no != nil {
		return r, no
	}
	if limit := a.s.outputLimit(b.Model); limit > 0 && r.MaxTokens > limit {
		return r, wrong("invalid_value", "max_tokens", "max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %[1]d.", r.MaxTokens, limit)
	}
	if no := a.messages(&r, b); no != nil {
		return r, no
	}
	if bad := r.judgeMarks(); bad != "" {
		return r, wrong("", "", "%s", bad)
	}
	if a.router {
		return r, r.checkReasoning(a.s.o.PrefixCheck)
	}
	return r, nil
}

func chatTools(r *Request, b chatBody) *refusal {
	for i, t := range b.Tools {
		where := fmt.Sprintf("tools[%d].function.name", i)
		f := t.Function
		switch {
		case t.Type != "function":
			return wrong("invalid_value", fmt.Sprintf("tools[%d].type", i), "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", t.Type)
		case !toolName.MatchString(f.Name):
			return wrong("invalid_value", where, "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", where)
		case len(f.Parameters) > 0 && !objectSchema(f.Parameters):
			return wrong("invalid_function_parameters", fmt.Sprintf("tools[%d].function.parameters", i),
				"Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.", f.Name)
		}
		r.Tools = append(r.Tools, Tool{f.Name, f.Description, f.Parameters})
		r.toolKeep = append(r.toolKeep, 0)
	}
	if len(b.ToolChoice) > 0 && len(b.Tools) == 0 {
		return wrong("", "tool_choice", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	}
	return nil
}

func (a chatAPI) messages(r *Request, b chatBody) *refusal {
	var open []string // IDs of calls without a result
	for i, m := range b.Messages {
		if m.Role != "tool" && len(open) > 0 {
			return chatOpen(open)
		}
		out := Message{Role: m.Role}
		no := readContent(r, &out, m, i)
		if no == nil {
			out.Blocks, no = a.withReasoning(out.Blocks, m, i)
		}
		switch {
		case no != nil:
			return no
		case m.Role == "system" || m.Role == "developer":
			for _, block := range out.Blocks {
				r.System += block.Text
			}
			r.system = append(r.system, out.Blocks...)
			continue
		case m.Role == "tool":
			k := slices.Index(open, m.ToolCallID)
			if k < 0 {
				return wrong("", fmt.Sprintf("messages.[%d].role", i), "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
			}
			open = slices.Delete(open, k, k+1)
		case m.Role == "assistant":
			if no := chatCalls(&out, m, i); no != nil {
				return no
			}
			for _, c := range m.ToolCalls {
				open = append(open, c.ID)
			}
		}
		r.Messages = append(r.Messages, out)
	}
	if len(open) > 0 {
		return chatOpen(open)
	}
	return nil
}

// withReasoning returns blocks with the reasoning of message i before them. OpenAI rejects
// members that it does not know.
func (a chatAPI) withReasoning(blocks []Block, m chatMessage, i int) ([]Block, *refusal) {
	if !a.router && len(m.ReasoningDetails) > 0 {
		where := fmt.Sprintf("messages[%d].reasoning_details", i)
		return nil, wrong("unknown_parameter", where, "Unknown parameter: '%s'.", where)
	}
	reasoning, no := detailsOf(m, i)
	return append(reasoning, blocks...), no
}

func chatOpen(open []string) *refusal {
	return wrong("", "messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
}

// readContent reads the text and images of message i.
func readContent(r *Request, out *Message, m chatMessage, i int) *refusal {
	kind := "text"
	switch m.Role {
	case "tool":
		kind = "tool_result"
	case "system", "developer", "user", "assistant":
	default:
		return wrong("invalid_value", fmt.Sprintf("messages[%d].role", i), "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role == "assistant" && len(m.ToolCalls) > 0 {
			return nil
		}
		return wrong("", fmt.Sprintf("messages.[%d].content", i), "Invalid value for 'content': expected a string, got null.")
	}
	var text string
	if isString(m.Content, &text) {
		if text == "" {
			return wrong("", fmt.Sprintf("messages.[%d].content", i), "Invalid 'messages[%d].content': the content must not be empty.", i)
		}
		out.Blocks = []Block{{Type: kind, Text: text, ID: m.ToolCallID}}
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
		CacheControl *mark `json:"cache_control"`
	}
	if json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return wrong("", fmt.Sprintf("messages.[%d].content", i), "Invalid type for 'messages[%d].content': expected one of a string or array of objects.", i)
	}
	for j, p := range parts {
		where := fmt.Sprintf("messages[%d].content[%d]", i, j)
		keep, bad := r.marked(p.CacheControl, where)
		if bad != "" {
			return wrong("", where, "%s", bad)
		}
		block := Block{Type: kind, Text: p.Text, ID: m.ToolCallID, Marked: p.CacheControl != nil, keep: keep, image: p.ImageURL.URL}
		switch {
		case p.Type == "image_url" && p.ImageURL.URL != "" && m.Role == "user":
			block.Type = "image"
		case p.Type != "text" || p.Text == "":
			return wrong("invalid_value", where, "Invalid content part at %s.", where)
		}
		out.Blocks = append(out.Blocks, block)
	}
	return nil
}

func chatCalls(out *Message, m chatMessage, i int) *refusal {
	for j, c := range m.ToolCalls {
		where := fmt.Sprintf("messages[%d].tool_calls[%d]", i, j)
		switch {
		case c.ID == "" || len(c.ID) > 40:
			return wrong("string_above_max_length", where+".id", "Invalid '%s.id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", where, len(c.ID))
		case c.Type != "function":
			return wrong("invalid_value", where+".type", "Invalid value: '%s'. Supported values are: 'function'.", c.Type)
		case !toolName.MatchString(c.Function.Name):
			return wrong("invalid_value", where+".function.name", "Invalid '%s.function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", where)
		case c.Function.Arguments == nil:
			return wrong("missing_required_parameter", where+".function.arguments", "Missing required parameter: '%s.function.arguments'.", where)
		}
		out.Blocks = append(out.Blocks, Block{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(*c.Function.Arguments)})
	}
	return nil
}
