package openaiapi

import "hermesd/gateway/chat"

// Extra holds the fields of this API that OpenAI's does not have.
type Extra struct {
	Session string   `json:"session,omitempty"`
	Message string   `json:"message,omitempty"`
	Notices []string `json:"notices,omitempty"`
	Answer  string   `json:"answer,omitempty"`
}

// A Completion is OpenAI's object for an answer or, with Delta, for a chunk.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Tokens  `json:"usage,omitempty"`
	Hermes  *Extra   `json:"hermes,omitempty"`
}

// A Choice is the only choice of its completion.
type Choice struct {
	Index   int     `json:"index"`
	Message *Spoken `json:"message,omitempty"`
	Delta   *Spoken `json:"delta,omitempty"`
	Finish  *string `json:"finish_reason"`
}

// Spoken is a message, or a piece of one.
type Spoken struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// Tokens is the token usage of an answer.
type Tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// TokensOf converts a usage; it returns nil if u is nil.
func TokensOf(u *chat.Usage) *Tokens {
	if u == nil {
		return nil
	}
	t := &Tokens{Prompt: u.Prompt, Completion: u.Output, Total: u.Prompt + u.Output}
	t.Details.Cached = u.Cached
	return t
}
