package chat

// A Purpose is the role of an outbound message for the messages that it replies to.
type Purpose string

// The purposes.
const (
	PurposeNotice  Purpose = ""        // a notice besides the answer
	PurposePreview Purpose = "preview" // the beginning of the answer
	PurposeAnswer  Purpose = "answer"  // the answer
	PurposeFailure Purpose = "failure" // the reason why there is no answer
)

// A ReplyContext tells an adapter whose clients wait for answers which inbound messages
// an outbound message replies to, and with which purpose.
type ReplyContext struct {
	Purpose Purpose `json:"as,omitempty"`
	// IDs are the Inbound.IDs of the messages that it replies to, oldest first.
	IDs []string `json:"ids,omitempty"`
	// Usage is the token usage of the answer; nil if no model produced it.
	Usage *Usage `json:"u,omitempty"`
}

// Usage counts the tokens of all model calls of one turn.
type Usage struct {
	Prompt int `json:"p"` // input tokens, including cached ones
	Cached int `json:"c"` // part of Prompt that was read from a cache
	Output int `json:"o"` // output tokens
}
