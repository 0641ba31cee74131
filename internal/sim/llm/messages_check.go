package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// messagesAPI implements the Messages API.
type messagesAPI struct{ s *Server }

func (messagesAPI) name() string { return "messages" }

func messagesError(kind, text string) any {
	return ordered{{"type", "error"}, {"error", ordered{{"type", kind}, {"message", text}}}, {"request_id", "req_sim"}}
}

var messagesKinds = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

func (messagesAPI) failure(status int, text string) any {
	return messagesError(messagesKinds[status], text)
}

func (a messagesAPI) event(status int, text string) (string, any) {
	return "error", ordered{{"type", "error"}, {"error", ordered{{"type", messagesKinds[status]}, {"message", text}}}}
}

// messagesBody is the JSON body of a request.
type messagesBody struct {
	Model      string            `json:"model"`
	MaxTokens  *int              `json:"max_tokens"`
	System     json.RawMessage   `json:"system"`
	Tools      []messagesTool    `json:"tools"`
	Messages   []messagesMessage `json:"messages"`
	Stream     bool              `json:"stream"`
	ToolChoice *struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
		Display      string `json:"display"`
	} `json:"thinking"`
	OutputConfig  json.RawMessage `json:"output_config"`
	Temperature   *float64        `json:"temperature"`
	StopSequences []string        `json:"stop_sequences"`
	Metadata      json.RawMessage `json:"metadata"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
}

type messagesTool struct {
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Description  string          `json:"description"`
	Schema       json.RawMessage `json:"input_schema"`
	CacheControl *mark           `json:"cache_control"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesBlock struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	Source       json.RawMessage `json:"source"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	Thinking     *string         `json:"thinking"`
	Signature    *string         `json:"signature"`
	Data         string          `json:"data"`
	CacheControl *mark           `json:"cache_control"`
}

type mark struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

func bad(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, messagesError("invalid_request_error", fmt.Sprintf(format, args...))}
}

func (a messagesAPI) check(h http.Header, body []byte) (Request, *refusal) {
	if no := a.key(h); no != nil {
		return Request{}, no
	}
	var b messagesBody
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return Request{}, bad("%s: Extra inputs are not permitted", strings.Trim(field, `"`))
		}
		return Request{}, bad("The request body is not valid JSON: %v", err)
	}
	switch {
	case b.Model == "":
		return Request{}, bad("model: Field required")
	case b.MaxTokens == nil:
		return Request{Model: b.Model}, bad("max_tokens: Field required")
	case *b.MaxTokens < 1:
		return Request{Model: b.Model}, bad("max_tokens: Input should be greater than or equal to 1")
	}
	r := Request{Dialect: a.name(), Model: b.Model, Stream: b.Stream, MaxTokens: *b.MaxTokens}
	if !a.s.modelOK(b.Model) {
		return r, &refusal{http.StatusNotFound, messagesError("not_found_error", "model: "+b.Model)}
	}
	if limit := a.s.outputLimit(b.Model); limit > 0 && r.MaxTokens > limit {
		return r, bad("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", r.MaxTokens, limit, b.Model)
	}
	for _, part := range []func(*Request, messagesBody) *refusal{checkSystem, checkTools, checkThinking, checkMessages, checkPairs} {
		if no := part(&r, b); no != nil {
			return r, no
		}
	}
	if wrong := r.judgeMarks(); wrong != "" {
		return r, bad("%s", wrong)
	}
	if a.s.o.PrefixCheck {
		return r, r.checkSignatures()
	}
	return r, nil
}

func (a messagesAPI) key(h http.Header) *refusal {
	key := h.Get("X-Api-Key")
	if key == "" {
		key = strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	}
	switch {
	case key == "":
		return &refusal{http.StatusUnauthorized, messagesError("authentication_error", "x-api-key header is required")}
	case !a.s.keyOK(key):
		return &refusal{http.StatusUnauthorized, messagesError("authentication_error", "invalid x-api-key")}
	case h.Get("Anthropic-Version") == "":
		return bad("anthropic-version: header is required")
	case !strings.HasPrefix(h.Get("Content-Type"), "application/json"):
		return bad("Content-Type must be application/json")
	}
	return nil
}

func checkSystem(r *Request, b messagesBody) *refusal {
	if len(b.System) == 0 {
		return nil
	}
	if isString(b.System, &r.System) {
		r.system = []Block{{Text: r.System}}
		return nil
	}
	var blocks []messagesBlock
	if json.Unmarshal(b.System, &blocks) != nil {
		return bad("system: Input should be a valid string or list")
	}
	for i, s := range blocks {
		if s.Type != "text" || s.Text == nil || *s.Text == "" {
			return bad("system.%d: text content blocks must be non-empty", i)
		}
		keep, wrong := r.marked(s.CacheControl, fmt.Sprintf("system.%d", i))
		if wrong != "" {
			return bad("%s", wrong)
		}
		r.system = append(r.system, Block{Text: *s.Text, keep: keep})
		r.System += *s.Text
	}
	return nil
}

// marked counts a cache_control marker and returns the requested lifetime, or
// what is wrong with the marker.
func (r *Request) marked(m *mark, where string) (keep time.Duration, wrong string) {
	switch {
	case m == nil:
		return 0, ""
	case m.Type != "ephemeral":
		return 0, where + ".cache_control.type: Input should be 'ephemeral'"
	}
	r.Marks++
	switch m.TTL {
	case "", "5m":
		return fiveMinutes, ""
	case "1h":
		return oneHour, ""
	}
	return 0, where + ".cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
}

// maxMarks is the maximum number of cache_control markers in a request.
const maxMarks = 4

// judgeMarks checks the markers as a whole, returns what is wrong with them,
// and fills in the prefixes of the request.
func (r *Request) judgeMarks() string {
	if r.Marks > maxMarks {
		return fmt.Sprintf("A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, r.Marks)
	}
	return r.prefixes()
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func checkTools(r *Request, b messagesBody) *refusal {
	for i, t := range b.Tools {
		where := fmt.Sprintf("tools.%d", i)
		switch {
		case !toolName.MatchString(t.Name):
			return bad("%s.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", where)
		case slices.ContainsFunc(r.Tools, func(o Tool) bool { return o.Name == t.Name }):
			return bad("tools: Tool names must be unique.")
		case len(t.Schema) == 0:
			return bad("%s.custom.input_schema: Field required", where)
		case !objectSchema(t.Schema):
			return bad("%s.custom.input_schema.type: Input should be 'object'", where)
		}
		keep, wrong := r.marked(t.CacheControl, where)
		if wrong != "" {
			return bad("%s", wrong)
		}
		r.toolKeep = append(r.toolKeep, keep)
		r.Tools = append(r.Tools, Tool{t.Name, t.Description, t.Schema})
	}
	r.ToolsOff = b.ToolChoice != nil && b.ToolChoice.Type == "none"
	if b.ToolChoice != nil && len(b.Tools) == 0 {
		return bad("tool_choice: may only be specified while providing tools")
	}
	return nil
}

func objectSchema(schema json.RawMessage) bool {
	var s struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

func checkThinking(r *Request, b messagesBody) *refusal {
	if b.Thinking == nil {
		return nil
	}
	switch t := b.Thinking; t.Type {
	case "disabled":
		return nil
	case "adaptive":
	case "enabled":
		if t.BudgetTokens < 1024 {
			return bad("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		}
		if t.BudgetTokens >= r.MaxTokens {
			return bad("`max_tokens` must be greater than `thinking.budget_tokens`.")
		}
	default:
		return bad("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", t.Type)
	}
	r.Thinking = true
	r.thinkingAs = fmt.Sprintf("%s %d", b.Thinking.Type, b.Thinking.BudgetTokens)
	return nil
}
