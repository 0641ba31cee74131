package chat

// A Purpose says what an outbound message is to the messages that it is about.
type Purpose string

// The purposes.
const (
	PurposeNotice  Purpose = ""        // something said by the way
	PurposePreview Purpose = "preview" // a beginning of the answer
	PurposeAnswer  Purpose = "answer"  // the answer
	PurposeFailure Purpose = "failure" // why there is no answer
)

// An ReplyContext tells an adapter whose clients wait for their answers which of them
// a message is for, and what it is to them.
type ReplyContext struct {
	Purpose Purpose `json:"as,omitempty"`
	// IDs are those (Inbound.ID) of the messages that it is about, the oldest
	// first.
	IDs []string `json:"ids,omitempty"`
	// Usage is what the answer cost; nil if it is no answer of a model.
	Usage *Usage `json:"u,omitempty"`
}

// Usage counts the tokens of all model calls of one turn.
type Usage struct {
	Prompt int `json:"p"` // sent, those included that a cache had
	Cached int `json:"c"` // of Prompt, read from a cache
	Output int `json:"o"`
}
