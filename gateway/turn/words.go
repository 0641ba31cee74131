package turn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
)

// sentence says in one plain sentence what went wrong and what to do next. What
// it does not know it does not describe: the details are in the log.
func sentence(err error) string {
	var le *llm.Error
	switch {
	case err == nil:
		return "It is not known why."
	case errors.Is(err, ErrInactive):
		return "Nothing happened for too long, so I gave up. Send the message again to try once more."
	case errors.Is(err, agent.ErrEmpty):
		return "The model gave an empty answer three times. Ask again, perhaps in other words."
	case errors.As(err, &le):
		return modelSentence(le)
	}
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		return "The model declined to answer this. Ask in other words, or start over with `/new`."
	}
	return "Something went wrong on my side. Send the message again; if it stays, the operator finds the reason in the log."
}

func modelSentence(e *llm.Error) string {
	p := e.Provider
	switch e.Class {
	case llm.Auth:
		return fmt.Sprintf("%s refuses the key. The operator must set a valid one (`hermesd config check`).", p)
	case llm.Billing:
		return fmt.Sprintf("%s says that the account's credit or limit is used up. The operator must top it up.", p)
	case llm.RateLimit:
		return fmt.Sprintf("%s takes no more requests for now%s. Send the message again then.", p, in(e.After))
	case llm.Overloaded:
		return fmt.Sprintf("%s is overloaded. Send the message again in a few minutes.", p)
	case llm.Server, llm.Timeout, llm.Network, llm.Garbage:
		return fmt.Sprintf("%s does not answer properly (%s). Send the message again in a few minutes.", p, strings.ReplaceAll(string(e.Class), "_", " "))
	case llm.Overflow, llm.TooLarge:
		return "This conversation has become too long for the model. `/new` starts a fresh one; the old one is kept."
	case llm.ImageTooLarge:
		return "The image is too large for the model. Send a smaller one."
	case llm.NotFound:
		return fmt.Sprintf("%s does not know the configured model. The operator must set `model.default`.", p)
	case llm.Policy:
		return fmt.Sprintf("%s declined this for its content. Ask in other words, or start over with `/new`.", p)
	}
	return fmt.Sprintf("%s refused the request. Send it again; if it stays, the operator finds the reason in the log.", p)
}

func in(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " (about " + d.Round(time.Second).String() + ")"
}
