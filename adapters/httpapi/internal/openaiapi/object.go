package openaiapi

import "hermesd/gateway/chat"

// Extra is what this API says beyond OpenAI's.
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

// A Choice is the only one of its completion.
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

// Tokens are what an answer cost.
type Tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// TokensOf is nil where nothing is known.
func TokensOf(u *chat.Usage) *Tokens {
	if u == nil {
		return nil
	}
	t := &Tokens{Prompt: u.Prompt, Completion: u.Output, Total: u.Prompt + u.Output}
	t.Details.Cached = u.Cached
	return t
}
