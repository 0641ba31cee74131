package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"hermesd/agent/llm"
)

// Bounds of a prefill file: its bytes and its messages. It is sent with every
// call.
const (
	maxPrefill  = 256 << 10
	maxMessages = 100
)

// LoadPrefill reads the messages that stand between the cached prompt and the
// transcript of every call: a JSON array of {"role", "content"}. The user
// begins, roles alternate, and the assistant ends, so that a transcript can
// follow. An error names the file, and the message or line that is wrong; it
// does not quote what the file says.
func LoadPrefill(path string) ([]llm.Message, error) {
	raw, err := readPrefill(path)
	if err != nil {
		return nil, fmt.Errorf("prefill messages: %w", err)
	}
	messages, err := ParsePrefill(raw)
	if err != nil {
		return nil, fmt.Errorf("prefill messages: %s: %w", path, err)
	}
	return messages, nil
}

func readPrefill(path string) ([]byte, error) {
	// Without O_NONBLOCK, a pipe would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxPrefill+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxPrefill {
		return nil, fmt.Errorf("%s is larger than %d KiB; it would be sent with every call", path, maxPrefill>>10)
	}
	return raw, nil
}

// ParsePrefill reads what a prefill file holds.
func ParsePrefill(raw []byte) ([]llm.Message, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8 text")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, located(raw, err)
	}
	if len(list) > maxMessages {
		return nil, fmt.Errorf("it holds %d messages; the most is %d", len(list), maxMessages)
	}
	messages := make([]llm.Message, 0, len(list))
	for i, item := range list {
		m, err := prefilled(item)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		want := llm.User
		if i%2 == 1 {
			want = llm.Assistant
		}
		if m.Role != want {
			return nil, fmt.Errorf("message %d is the %s's, but must be the %s's: the user begins and roles alternate", i+1, m.Role, want)
		}
		messages = append(messages, m)
	}
	if len(messages)%2 == 1 {
		return nil, errors.New("the last message is the user's: end with one of the assistant, since the user's own words follow")
	}
	return messages, nil
}

func prefilled(item json.RawMessage) (llm.Message, error) {
	var in struct {
		Role    llm.Role `json:"role"`
		Content *string  `json:"content"`
	}
	d := json.NewDecoder(bytes.NewReader(item))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			if wrong.Field == "" {
				return llm.Message{}, fmt.Errorf("it is a %s, not an object with role and content", wrong.Value)
			}
			return llm.Message{}, fmt.Errorf("%s must be a string, not a %s", wrong.Field, wrong.Value)
		}
		return llm.Message{}, fmt.Errorf("%s; only role and content are known", strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case in.Role == "":
		return llm.Message{}, errors.New("it has no role; use user or assistant")
	case in.Role == "system":
		return llm.Message{}, errors.New("the role system is not possible here; use agent.ephemeral_system_prompt or agent.system_message")
	case in.Role != llm.User && in.Role != llm.Assistant:
		return llm.Message{}, fmt.Errorf("the role %s is not known; use user or assistant", Quote(string(in.Role)))
	case in.Content == nil || strings.TrimSpace(*in.Content) == "":
		return llm.Message{}, errors.New("it has no content")
	}
	return llm.Message{Role: in.Role, Blocks: []llm.Block{{Type: llm.Text, Text: EscapeTags(*in.Content)}}}, nil
}

// located says in which line of raw an error of the JSON decoder is.
func located(raw []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		return errors.New("it is empty; write [] for no messages")
	case errors.As(err, &wrong):
		return fmt.Errorf("it holds a %s, not an array of {\"role\", \"content\"}", wrong.Value)
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(raw[:min(int(syntax.Offset), len(raw))], []byte("\n"))
		return fmt.Errorf("line %d is not valid JSON: %s", line, strings.TrimPrefix(syntax.Error(), "json: "))
	}
	return err
}
