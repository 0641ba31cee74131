package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// A reasoningDetail is an element of reasoning_details, the form in which OpenRouter
// delivers the reasoning of a model and expects it back.
type reasoningDetail struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Summary   string `json:"summary"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
	ID        string `json:"id"`
	Format    string `json:"format"`
}

// isRouting reports whether raw is the member provider of a request to OpenRouter, as far as
// hermesd uses it.
func isRouting(raw json.RawMessage) bool {
	var r struct {
		DataCollection    *string  `json:"data_collection"`
		Only              []string `json:"only"`
		Ignore            []string `json:"ignore"`
		Order             []string `json:"order"`
		RequireParameters bool     `json:"require_parameters"`
		Sort              *string  `json:"sort"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil {
		return false
	}
	return (r.DataCollection == nil || *r.DataCollection == "allow" || *r.DataCollection == "deny") &&
		(r.Sort == nil || *r.Sort == "price" || *r.Sort == "throughput" || *r.Sort == "latency")
}

// Values of format.
const (
	claudeFormat = "anthropic-claude-v1"
	geminiFormat = "google-gemini-v1"
	openaiFormat = "openai-responses-v1"
)

func formatOf(model string) string {
	switch {
	case strings.Contains(model, "claude"):
		return claudeFormat
	case strings.Contains(model, "gemini"):
		return geminiFormat
	}
	return openaiFormat
}

// seal returns the opaque data that stands for the hidden reasoning before what.
func seal(format, what string) string {
	return base64.StdEncoding.EncodeToString([]byte("sealed-" + sumOf(format+what)))
}

// routed returns the deltas of the reasoning of rep: texts piece by piece, then what must
// come back unchanged.
func routed(req Request, rep Reply) []ordered {
	format := formatOf(req.Model)
	kind, text := "reasoning.text", "text"
	if format == openaiFormat {
		kind, text = "reasoning.summary", "summary"
	}
	var deltas []ordered
	send := func(reasoning any, d ordered) {
		d = append(d, member{"format", format}, member{"index", 0})
		deltas = append(deltas, ordered{{"role", "assistant"}, {"content", ""}, {"reasoning", reasoning}, {"reasoning_details", []any{d}}})
	}
	for _, s := range pieces(rep.Thinking, rep.Pieces) {
		send(s, ordered{{"type", kind}, {text, s}})
	}
	switch {
	case format == claudeFormat && rep.Thinking != "":
		send(nil, ordered{{"type", kind}, {"signature", req.signature(len(req.Messages), rep.Thinking)}})
	case format == geminiFormat && len(rep.Calls) > 0:
		c := rep.Calls[0]
		send(nil, ordered{{"type", "reasoning.encrypted"}, {"data", seal(format, c.Name)}, {"id", c.ID}})
	case format == openaiFormat && rep.Thinking != "":
		id := fmt.Sprintf("rs_%06d", req.N)
		send(nil, ordered{{"type", "reasoning.encrypted"}, {"data", seal(format, rep.Thinking)}, {"id", id}})
	}
	return deltas
}

// detailsOf returns the reasoning blocks of message m.
func detailsOf(m chatMessage, i int) ([]Block, *refusal) {
	if len(m.ReasoningDetails) == 0 {
		return nil, nil
	}
	var list []reasoningDetail
	if json.Unmarshal(m.ReasoningDetails, &list) != nil || m.Role != "assistant" {
		return nil, wrong("", "", "Invalid input: expected array at messages[%d].reasoning_details", i)
	}
	var blocks []Block
	for _, d := range list {
		b := Block{Type: "thinking", Text: d.Text + d.Summary, ID: d.ID, Signature: d.Signature, format: d.Format}
		if d.Type == "reasoning.encrypted" {
			b.Type, b.Signature = "redacted_thinking", d.Data
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

var gemini3 = regexp.MustCompile(`gemini-3\b`)

// checkReasoning refuses reasoning that was changed. Gemini 3 refuses calls of the current
// turn without theirs too; other models lose it.
func (r *Request) checkReasoning(prefixCheck bool) *refusal {
	turn := 0
	for i, m := range r.Messages {
		if m.Role == "user" {
			turn = i
		}
	}
	for i, m := range r.Messages {
		var no *refusal
		switch formatOf(r.Model) {
		case claudeFormat:
			no = r.checkClaude(i, m, prefixCheck)
		case geminiFormat:
			no = checkGemini(i, m, i > turn && gemini3.MatchString(r.Model))
		default:
			no = checkSummaries(m)
		}
		if no != nil {
			return no
		}
	}
	return nil
}

func (r *Request) checkClaude(i int, m Message, prefixCheck bool) *refusal {
	for j, b := range m.Blocks {
		if b.Type != "thinking" || b.format != claudeFormat {
			continue
		}
		raw, _ := base64.StdEncoding.DecodeString(b.Signature)
		if !strings.HasPrefix(string(raw), "sim-"+sumOf(b.Text)) || prefixCheck && b.Signature != r.signature(i, b.Text) {
			return upstream("Anthropic", encode(messagesError("invalid_request_error", fmt.Sprintf(
				"messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j))))
		}
	}
	return nil
}

func checkGemini(i int, m Message, strict bool) *refusal {
	call := Block{}
	for _, b := range m.Blocks {
		if b.Type == "tool_use" {
			call = b
			break
		}
	}
	signed := false
	for _, b := range m.Blocks {
		if b.Type != "redacted_thinking" || b.format != geminiFormat || b.ID != call.ID {
			continue
		}
		if signed = b.Signature == seal(geminiFormat, call.Name); !signed {
			return google("Corrupted thought signature.")
		}
	}
	if strict && call.ID != "" && !signed {
		return google(fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "+
			"and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d. "+
			"Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", call.Name, i+1))
	}
	return nil
}

func checkSummaries(m Message) *refusal {
	text := ""
	for _, b := range m.Blocks {
		switch {
		case b.format != openaiFormat:
		case b.Type == "thinking":
			text += b.Text
		case b.Signature != seal(openaiFormat, text):
			return upstream("OpenAI", encode(chatError("invalid_request_error", "invalid_encrypted_content", "",
				"The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed.")))
		}
	}
	return nil
}

func google(text string) *refusal {
	return upstream("Google AI Studio", encode(ordered{{"error", ordered{{"code", 400}, {"message", text}, {"status", "INVALID_ARGUMENT"}}}}))
}

// upstream returns a refusal of the provider that OpenRouter has chosen.
func upstream(provider string, raw []byte) *refusal {
	return &refusal{http.StatusBadRequest, ordered{
		{"error", ordered{{"message", "Provider returned error"}, {"code", 400}, {"metadata", ordered{{"raw", string(raw)}, {"provider_name", provider}}}}},
		{"user_id", "user_sim"},
	}}
}
