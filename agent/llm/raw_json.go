package llm

import (
	"bytes"
	"encoding/json"
)

// exact is JSON of others whose bytes must survive storage. Encoders compact
// and escape JSON that stands inside JSON, and refuse what is not valid; so
// what they would change is kept inside a string. A string of JSON is therefore
// always the bytes in it.
type exact []byte

// MarshalJSON implements json.Marshaler.
func (e exact) MarshalJSON() ([]byte, error) {
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

// UnmarshalJSON implements json.Unmarshaler.
func (e *exact) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*e = exact(s)
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
	Raw exact `json:"raw,omitempty"`
}

// MarshalJSON returns the form in which messages are stored. The bytes of Raw
// survive it, whoever encodes it again.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedMessage{plainMessage(m), exact(m.Raw)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
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
	Input exact `json:"input,omitempty"`
}

// MarshalJSON returns the form in which blocks are stored. The bytes of Input
// survive it, valid JSON or not.
func (b Block) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedBlock{plainBlock(b), exact(b.Input)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Block) UnmarshalJSON(data []byte) error {
	var s storedBlock
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Block(s.plainBlock)
	b.Input = json.RawMessage(s.Input)
	return nil
}
