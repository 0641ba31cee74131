package openaiapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"hermesd/internal/shorten"
)

// A Request is a parsed request.
type Request struct {
	Model   string
	User    string
	Stream  bool
	Usage   bool     // a chunk with the usage is requested
	Prompt  string   // text of the system and developer messages
	Text    string   // the new input: the user's messages after the last answer
	Images  []string // URLs of the input's images
	History []Said   // the client's copy of the earlier conversation
	Ignored []string // parameters that have no effect, in order
}

// Said is one earlier message in the client's copy.
type Said struct{ Role, Text string }

// harmless lists parameters that are ignored: the agent's own settings apply.
var harmless = map[string]bool{
	"temperature": true, "top_p": true, "top_k": true, "min_p": true, "max_tokens": true, "max_completion_tokens": true,
	"presence_penalty": true, "frequency_penalty": true, "repetition_penalty": true, "logit_bias": true, "seed": true,
	"reasoning_effort": true, "verbosity": true, "service_tier": true, "store": true, "metadata": true, "prediction": true,
	"parallel_tool_calls": true, "prompt_cache_key": true, "prompt_cache_retention": true, "safety_identifier": true,
}

// neutral lists values of unsupported parameters that request nothing.
var neutral = map[string][]string{
	"n": {"1"}, "tools": {"[]"}, "functions": {"[]"}, "tool_choice": {`"none"`, `"auto"`}, "function_call": {`"none"`, `"auto"`},
	"logprobs": {"false"}, "top_logprobs": {"0"}, "response_format": {`{"type":"text"}`}, "modalities": {`["text"]`},
	"stop": {"[]", `""`}, "audio": nil, "web_search_options": nil, "best_of": {"1"}, "echo": {"false"}, "suffix": {`""`},
}

// Parse parses the body of a request. It uses no other input.
func Parse(body []byte) (*Request, *Failure) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil || top == nil {
		return nil, Refuse("", "invalid_json", "The body is not a JSON object: %v.", problem(err))
	}
	r := &Request{}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if f := r.parameter(name, top[name]); f != nil {
			return nil, f
		}
	}
	if _, ok := top["messages"]; !ok {
		return nil, Refuse("messages", "missing_required_parameter", "messages is missing.")
	}
	return r, nil
}

// problem describes a JSON error without the names of Go types.
func problem(err error) string {
	if err == nil {
		return "it is null"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// parameter applies one member of the body.
func (r *Request) parameter(name string, raw json.RawMessage) *Failure {
	if string(raw) == "null" && name != "messages" {
		return nil
	}
	into := func(v any, form string) *Failure {
		if json.Unmarshal(raw, v) != nil {
			return Refuse(name, "invalid_type", "%s must be %s.", name, form)
		}
		return nil
	}
	switch name {
	case "model":
		return into(&r.Model, "a string")
	case "user":
		return into(&r.User, "a string")
	case "stream":
		return into(&r.Stream, "true or false")
	case "stream_options":
		o := struct {
			IncludeUsage bool `json:"include_usage"`
		}{}
		f := into(&o, "an object")
		r.Usage = o.IncludeUsage
		return f
	case "messages":
		return r.messages(raw)
	}
	if values, strict := neutral[name]; strict {
		if slices.Contains(values, compact(raw)) {
			return nil
		}
		return unsupported(name)
	}
	if !harmless[name] {
		name = shown(name)
	}
	if !slices.Contains(r.Ignored, name) {
		r.Ignored = append(r.Ignored, name)
	}
	return nil
}

// shown returns the name of an unknown parameter in a form that is valid in a
// header.
func shown(name string) string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
	}
	if name == "" || len(name) > 40 || strings.ContainsFunc(name, odd) {
		return "(others)"
	}
	return name
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

// messages splits the conversation into the prompt, the client's copy of the
// earlier conversation, and the new input.
func (r *Request) messages(raw json.RawMessage) *Failure {
	var list []message
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return Refuse("messages", "invalid_type", "messages must be a list of at least one object with role and content.")
	}
	var system, input []string
	for i, m := range list {
		at := fmt.Sprintf("messages[%d]", i)
		text, images, f := content(m.Content, at)
		if f != nil {
			return f
		}
		switch m.Role {
		case "system", "developer":
			if len(images) > 0 {
				return Refuse(at, "unsupported_content", "%s: only the user's messages can hold images.", at)
			}
			system = append(system, text)
		case "user":
			input = append(input, text)
			r.Images = append(r.Images, images...)
		case "assistant", "tool", "function":
			for _, t := range input {
				r.History = append(r.History, Said{"user", t})
			}
			input, r.Images = nil, nil // earlier images are in the session, or only their text remains
			r.History = append(r.History, Said{m.Role, text})
		default:
			return Refuse(at+".role", "invalid_value", "%s.role must be system, developer, user, assistant or tool.", at)
		}
	}
	r.History = sinceNew(r.History)
	if input == nil {
		return Refuse("messages", "no_user_message", "The last message is not the user's, so there is nothing to answer.")
	}
	r.Prompt, r.Text = join(system), join(input)
	if r.Text == "" && len(r.Images) == 0 {
		return Refuse("messages", "empty_message", "The user's message is empty.")
	}
	return nil
}

// sinceNew omits the messages before the user started a new conversation by a
// command, and the answer to that command.
func sinceNew(history []Said) []Said {
	for i := len(history) - 1; i >= 0; i-- {
		word, _, _ := strings.Cut(strings.TrimSpace(history[i].Text)+" ", " ")
		if history[i].Role != "user" || word != "/new" && word != "/reset" {
			continue
		}
		for i++; i < len(history) && history[i].Role != "user"; i++ {
		}
		return history[i:]
	}
	return history
}

// join joins texts with a blank line between them.
func join(texts []string) string {
	var kept []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "\n\n")
}

// content returns the text and the images of a message's content: a string, a
// list of parts, or nothing.
func content(raw json.RawMessage, at string) (text string, images []string, f *Failure) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil, nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
		Image   struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", nil, Refuse(at+".content", "invalid_type", "%s.content must be a string or a list of parts.", at)
	}
	var texts []string
	for i, p := range parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "image_url":
			images = append(images, p.Image.URL)
		default:
			where := fmt.Sprintf("%s.content[%d]", at, i)
			return "", nil, Refuse(where, "unsupported_content", "%s: parts of type %q are not supported, only text and image_url.", where, shorten.To(p.Type, 40))
		}
	}
	return strings.Join(texts, "\n"), images, nil
}

// Quoted returns the client's copy of an earlier conversation as a quotation
// that precedes the first input of a new session.
func Quoted(history []Said) string {
	var b strings.Builder
	b.WriteString("[What was said before, as the client has it:]\n")
	for _, m := range history {
		if text := strings.TrimSpace(m.Text); text != "" {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, text)
		}
	}
	b.WriteString("[End of what was said before.]\n\n")
	return b.String()
}

// DataURL returns the content of a data: URL if it is a base64-encoded image.
func DataURL(s string) (kind string, content []byte, err error) {
	head, data, ok := strings.Cut(s[len("data:"):], ",")
	if !ok {
		return "", nil, fmt.Errorf("its data: URL has no comma")
	}
	media, encoded := strings.CutSuffix(head, ";base64")
	if !encoded {
		return "", nil, fmt.Errorf("its data: URL is not in base64")
	}
	kind, _, err = mime.ParseMediaType(media)
	if err != nil || !strings.HasPrefix(kind, "image/") {
		return "", nil, fmt.Errorf("its data: URL does not say that it is an image")
	}
	data = strings.TrimRight(data, "=")
	content, err = base64.RawStdEncoding.DecodeString(data)
	if err != nil {
		return "", nil, fmt.Errorf("its base64 is damaged")
	}
	if len(content) == 0 {
		return "", nil, fmt.Errorf("it is empty")
	}
	return kind, content, nil
}
