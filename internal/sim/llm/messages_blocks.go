package llm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

func checkMessages(r *Request, b messagesBody) *refusal {
	if len(b.Messages) == 0 {
		return bad("messages: at least one message is required")
	}
	for i, m := range b.Messages {
		switch {
		case m.Role != "user" && m.Role != "assistant":
			return bad("messages.%d.role: Input should be 'user' or 'assistant'", i)
		case i == 0 && m.Role != "user":
			return bad("messages: first message must use the \"user\" role")
		case i > 0 && b.Messages[i-1].Role == m.Role:
			return bad("messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"%s\" roles in a row", m.Role)
		}
		out := Message{Role: m.Role}
		if no := r.blocks(&out, m, i); no != nil {
			return no
		}
		r.Messages = append(r.Messages, out)
	}
	if r.Last().Role == "assistant" {
		return bad("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// blocks reads the content of message i into out.
func (r *Request) blocks(out *Message, m messagesMessage, i int) *refusal {
	var text string
	if isString(m.Content, &text) {
		if strings.TrimSpace(text) == "" {
			return bad("messages.%d: user messages must have non-empty content", i)
		}
		out.Blocks = []Block{{Type: "text", Text: text}}
		return nil
	}
	var raw []messagesBlock
	if err := json.Unmarshal(m.Content, &raw); err != nil {
		return bad("messages.%d.content: Input should be a valid list", i)
	}
	if len(raw) == 0 {
		return bad("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
	}
	for j, b := range raw {
		where := fmt.Sprintf("messages.%d.content.%d", i, j)
		block, no := readBlock(b, m.Role, where)
		if no != nil {
			return no
		}
		keep, wrong := r.marked(b.CacheControl, where)
		if wrong != "" {
			return bad("%s", wrong)
		}
		block.Marked, block.keep = b.CacheControl != nil, keep
		if block.Marked && (b.Type == "thinking" || b.Type == "redacted_thinking") {
			return bad("%s.%s.cache_control: Extra inputs are not permitted", where, b.Type)
		}
		out.Blocks = append(out.Blocks, block)
	}
	return nil
}

// isString reads raw into s if it is a JSON string. It examines the first byte
// only before it decodes, because most contents are long lists.
func isString(raw json.RawMessage, s *string) bool {
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, s) == nil
}

// roleOf maps block types to the role that may send them.
var roleOf = map[string]string{
	"tool_result": "user", "image": "user", "tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant", "text": "",
}

func readBlock(b messagesBlock, role, where string) (Block, *refusal) {
	out := Block{Type: b.Type, ID: b.ID, Name: b.Name, Input: b.Input, Failed: b.IsError}
	who, known := roleOf[b.Type]
	switch {
	case !known:
		return out, bad("%s: Input tag '%s' found using 'type' does not match any of the expected tags", where, b.Type)
	case who != "" && who != role:
		return out, bad("%s: `%s` blocks can only be in `%s` messages", where, b.Type, who)
	}
	switch b.Type {
	case "text":
		if b.Text == nil {
			return out, bad("%s.text.text: Field required", where)
		}
		if *b.Text == "" {
			return out, bad("messages: text content blocks must be non-empty")
		}
		if strings.TrimSpace(*b.Text) == "" {
			return out, bad("messages: text content blocks must contain non-whitespace text")
		}
		out.Text = *b.Text
	case "image":
		out.image = string(b.Source)
		return out, checkImage(b.Source, where)
	case "tool_use":
		var object map[string]json.RawMessage
		switch {
		case !callID.MatchString(b.ID):
			return out, bad("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", where)
		case !toolName.MatchString(b.Name):
			return out, bad("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", where)
		case json.Unmarshal(b.Input, &object) != nil || object == nil:
			return out, bad("%s.tool_use.input: Input should be a valid dictionary", where)
		}
	case "tool_result":
		return readResult(b, where)
	case "thinking":
		if b.Thinking == nil {
			return out, bad("%s.thinking.thinking: Field required", where)
		}
		if b.Signature == nil || *b.Signature == "" {
			return out, bad("%s.thinking.signature: Field required", where)
		}
		out.Text, out.Signature = *b.Thinking, *b.Signature
	case "redacted_thinking":
		if b.Data == "" {
			return out, bad("%s.redacted_thinking.data: Field required", where)
		}
		out.Text = b.Data
	}
	return out, nil
}

func readResult(b messagesBlock, where string) (Block, *refusal) {
	out := Block{Type: b.Type, ID: b.ToolUseID, Failed: b.IsError}
	if b.ToolUseID == "" {
		return out, bad("%s.tool_result.tool_use_id: Field required", where)
	}
	if len(b.Content) == 0 || isString(b.Content, &out.Text) {
		return out, nil
	}
	var parts []messagesBlock
	if json.Unmarshal(b.Content, &parts) != nil {
		return out, bad("%s.tool_result.content: Input should be a valid list", where)
	}
	for k, p := range parts {
		if p.Type == "image" {
			continue
		}
		if p.Type != "text" || p.Text == nil || *p.Text == "" {
			return out, bad("%s.tool_result.content.%d: text content blocks must be non-empty", where, k)
		}
		out.Text += *p.Text
	}
	return out, nil
}

const maxImage = 5 << 20

func checkImage(source json.RawMessage, where string) *refusal {
	var s struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	}
	if json.Unmarshal(source, &s) != nil || s.Type == "" {
		return bad("%s.image.source: Field required", where)
	}
	if s.Type == "url" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(s.Data)
	switch {
	case err != nil || len(data) == 0:
		return bad("%s.image.source.base64.data: Invalid base64 data", where)
	case len(s.Data) > maxImage:
		return bad("%s.image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", where, len(s.Data), maxImage)
	case !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, s.MediaType):
		return bad("%s.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", where)
	}
	return nil
}

// checkPairs requires that each call has its result at the beginning of the
// next message and that each result belongs to a call in the previous message.
func checkPairs(r *Request, _ messagesBody) *refusal {
	var open []string
	used := map[string]bool{}
	for i, m := range r.Messages {
		answered := map[string]bool{}
		text := false
		for j, b := range m.Blocks {
			if b.Type != "tool_result" {
				text = text || b.Type == "text"
				continue
			}
			if !slices.Contains(open, b.ID) || text {
				return bad("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
					"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, b.ID)
			}
			if answered[b.ID] {
				return bad("messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, j, b.ID)
			}
			answered[b.ID] = true
		}
		for _, id := range open {
			if !answered[id] {
				return bad("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
					"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, id)
			}
		}
		open = nil
		for _, b := range m.Blocks {
			if b.Type != "tool_use" {
				continue
			}
			if used[b.ID] {
				return bad("messages: `tool_use` ids must be unique")
			}
			used[b.ID] = true
			open = append(open, b.ID)
		}
	}
	return nil
}

// signature returns the signature of a thinking block that follows the first n
// messages of r and the earlier thinking of the same answer.
func (r *Request) signature(n int, thought string) string {
	h := fnv.New64a()
	prefix := r.head
	if n > 0 {
		prefix = r.bounds[n-1]
	}
	_, _ = fmt.Fprintf(h, "%x %s", prefix, thought)
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "sim-%s-%016x-%s", sumOf(thought), h.Sum64(), strings.Repeat("s", 40)))
}

func sumOf(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// checkSignatures refuses thinking blocks whose prefix has changed since they
// were made.
func (r *Request) checkSignatures() *refusal {
	for i, m := range r.Messages {
		for j, b := range m.Blocks {
			if b.Type == "thinking" && b.Signature != r.signature(i, b.Text) {
				return bad("messages.%d.content.%d: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "+
					"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".", i, j)
			}
		}
	}
	return nil
}
