package llm

import (
	"bytes"
	"encoding/json"
)

// rawJSON is JSON of a provider whose bytes must survive storage. Encoders compact and
// escape JSON inside JSON, and reject invalid JSON; therefore JSON that they would change
// is stored as a string. A JSON string always holds the original bytes.
type rawJSON []byte

func (e rawJSON) MarshalJSON() ([]byte, error) {
	var same bytes.Buffer
	if len(e) > 0 && (e[0] == '{' || e[0] == '[') && json.Compact(&same, e) == nil {
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, same.Bytes())
		if bytes.Equal(escaped.Bytes(), e) {
			return e, nil
		}
	}
	return json.Marshal(string(e))
}

func (e *rawJSON) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*e = rawJSON(s)
		return nil
	}
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	*e = bytes.Clone(b)
	return nil
}

type plainMessage Message

type storedMessage struct {
	plainMessage
	Raw rawJSON `json:"raw,omitempty"`
}

// MarshalJSON returns the stored form of m. The bytes of Raw survive any number of
// encodings.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedMessage{plainMessage(m), rawJSON(m.Raw)})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (m *Message) UnmarshalJSON(b []byte) error {
	var s storedMessage
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*m = Message(s.plainMessage)
	m.Raw = json.RawMessage(s.Raw)
	return nil
}

type plainBlock Block

type storedBlock struct {
	plainBlock
	Input rawJSON `json:"input,omitempty"`
}

// MarshalJSON returns the stored form of b. The bytes of Input survive it, whether they
// are valid JSON or not.
func (b Block) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedBlock{plainBlock(b), rawJSON(b.Input)})
}

// UnmarshalJSON decodes the stored form of a block.
func (b *Block) UnmarshalJSON(data []byte) error {
	var s storedBlock
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Block(s.plainBlock)
	b.Input = json.RawMessage(s.Input)
	return nil
}
