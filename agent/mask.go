package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// MaskSecrets sets a function that masks secrets in text. Everything that a run
// records, and with it everything that later model calls contain, is masked
// before it is recorded; only tools get the input of their call as the model
// sent it.
func MaskSecrets(mask func(string) string) Option { return func(a *Agent) { a.mask = mask } }

// Mask returns s with secrets masked as in recorded steps.
func (a *Agent) Mask(s string) string { return a.mask(s) }

// MaskMessage returns m with secrets masked as in recorded steps. The
// provider's raw form is removed if it contains a secret.
func (a *Agent) MaskMessage(m llm.Message) llm.Message {
	m.Blocks = a.maskBlocks(m.Blocks)
	if len(m.Raw) > 0 && string(a.maskJSON(m.Raw)) != string(m.Raw) {
		m.Raw, m.Dialect = nil, ""
	}
	return m
}

func (a *Agent) maskBlocks(bs []llm.Block) []llm.Block {
	bs = slices.Clone(bs)
	for i := range bs {
		bs[i].Text = a.mask(bs[i].Text)
		bs[i].Input = a.maskJSON(bs[i].Input)
	}
	return bs
}

// maskStep returns s without secrets. A compaction is returned as it is: it
// consists of messages that are masked.
func (a *Agent) maskStep(s Step) Step {
	s.Text, s.Blocks, s.Bad = a.mask(s.Text), a.maskBlocks(s.Blocks), maps.Clone(s.Bad)
	for id, reason := range s.Bad {
		s.Bad[id] = a.mask(reason)
	}
	if s.Result != nil {
		result := *s.Result
		result.Text = a.mask(result.Text)
		s.Result = &result
	}
	s.Messages = slices.Clone(s.Messages)
	for i, m := range s.Messages {
		s.Messages[i] = a.MaskMessage(m)
		for j, b := range m.Blocks {
			if string(b.Input) != string(s.Messages[i].Blocks[j].Input) {
				s.Masked = append(s.Masked, b.ID)
			}
		}
	}
	return s
}

// maskJSON returns raw with secrets masked in its strings and numbers, however
// they are escaped. If secrets remain, because one includes the syntax between
// two strings, it returns an empty object.
func (a *Agent) maskJSON(raw json.RawMessage) json.RawMessage {
	var out []byte
	done := 0 // bytes of raw that are in out
	for i := 0; i < len(raw); {
		end := literalEnd(raw, i)
		if end == i {
			i++
			continue
		}
		text := string(raw[i:end])
		if raw[i] == '"' && json.Unmarshal(raw[i:end], &text) != nil {
			text = string(raw[i:end])
		}
		if masked := a.mask(text); masked != text {
			out = append(append(out, raw[done:i]...), quoteJSON(masked)...)
			done = end
		}
		i = end
	}
	if done > 0 {
		raw = append(out, raw[done:]...)
	}
	if a.mask(string(raw)) != string(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// literalEnd returns the end of the string or number that begins at raw[i]; i
// if none does.
func literalEnd(raw []byte, i int) int {
	if raw[i] != '"' {
		for i < len(raw) && strings.IndexByte("0123456789+-.eE", raw[i]) >= 0 {
			i++
		}
		return i
	}
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

func quoteJSON(s string) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return []byte(`""`) // cannot happen: any string can be encoded
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
