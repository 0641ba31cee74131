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

// Limits of a prefill file, which is sent with every call.
const (
	maxPrefillBytes    = 256 << 10
	maxPrefillMessages = 100
)

// LoadPrefill reads the messages that are sent between the cached prompt and
// the transcript of every call: a JSON array of {"role", "content"}. Roles
// alternate, beginning with user and ending with assistant, so that a
// transcript can follow. Messages of role system stand anywhere; their texts are
// returned as system. An error names the file and the invalid message or line; it
// does not quote the content.
func LoadPrefill(path string) (system string, messages []llm.Message, err error) {
	raw, err := readPrefill(path)
	if err != nil {
		return "", nil, fmt.Errorf("prefill messages: %w", err)
	}
	system, messages, err = ParsePrefill(raw)
	if err != nil {
		return "", nil, fmt.Errorf("prefill messages: %s: %w", path, err)
	}
	return system, messages, nil
}

func readPrefill(path string) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe would block.
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
	raw, err := io.ReadAll(io.LimitReader(f, maxPrefillBytes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxPrefillBytes {
		return nil, fmt.Errorf("%s is larger than %d KiB; it would be sent with every call", path, maxPrefillBytes>>10)
	}
	return raw, nil
}

// ParsePrefill parses the content of a prefill file. Errors are those of
// LoadPrefill, without the path.
func ParsePrefill(raw []byte) (system string, messages []llm.Message, err error) {
	raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
	if !utf8.Valid(raw) {
		return "", nil, errors.New("not UTF-8 text")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", nil, locateJSONError(raw, err)
	}
	if len(list) > maxPrefillMessages {
		return "", nil, fmt.Errorf("%d messages, at most %d are allowed", len(list), maxPrefillMessages)
	}
	var texts []string
	messages = make([]llm.Message, 0, len(list))
	for i, item := range list {
		m, err := parsePrefillMessage(item)
		if err != nil {
			return "", nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if m.Role == roleSystem {
			texts = append(texts, m.Blocks[0].Text)
			continue
		}
		want := llm.User
		if len(messages)%2 == 1 {
			want = llm.Assistant
		}
		if m.Role != want {
			return "", nil, fmt.Errorf("message %d has role %s, want %s: roles alternate, beginning with user", i+1, m.Role, want)
		}
		messages = append(messages, m)
	}
	if len(messages)%2 == 1 {
		return "", nil, errors.New("last message has role user, want assistant: the next user message follows it")
	}
	return strings.Join(texts, "\n\n"), messages, nil
}

// roleSystem is a role that only prefill files have.
const roleSystem llm.Role = "system"

func parsePrefillMessage(item json.RawMessage) (llm.Message, error) {
	var in struct {
		Role    llm.Role `json:"role"`
		Content *string  `json:"content"`
	}
	d := json.NewDecoder(bytes.NewReader(item))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		var typeErr *json.UnmarshalTypeError
		if errors.As(err, &typeErr) {
			if typeErr.Field == "" {
				return llm.Message{}, fmt.Errorf("value is a %s, want an object with role and content", typeErr.Value)
			}
			return llm.Message{}, fmt.Errorf("%s must be a string, not a %s", typeErr.Field, typeErr.Value)
		}
		return llm.Message{}, fmt.Errorf("%s; only role and content are known", strings.TrimPrefix(err.Error(), "json: "))
	}
	switch {
	case in.Role == "":
		return llm.Message{}, errors.New("role is missing; use user, assistant or system")
	case in.Role != llm.User && in.Role != llm.Assistant && in.Role != roleSystem:
		return llm.Message{}, fmt.Errorf("unknown role %s; use user, assistant or system", Quote(string(in.Role)))
	case in.Content == nil || strings.TrimSpace(*in.Content) == "":
		return llm.Message{}, errors.New("content is missing")
	}
	return llm.Message{Role: in.Role, Blocks: []llm.Block{{Type: llm.Text, Text: EscapeTags(*in.Content)}}}, nil
}

// locateJSONError adds the line of raw to an error of the JSON decoder.
func locateJSONError(raw []byte, err error) error {
	var syntax *json.SyntaxError
	var typeErr *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		return errors.New("file is empty; write [] for no messages")
	case errors.As(err, &typeErr):
		return fmt.Errorf("value is a %s, want an array of {\"role\", \"content\"}", typeErr.Value)
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(raw[:min(int(syntax.Offset), len(raw))], []byte("\n"))
		return fmt.Errorf("line %d is not valid JSON: %s", line, strings.TrimPrefix(syntax.Error(), "json: "))
	}
	return err
}
